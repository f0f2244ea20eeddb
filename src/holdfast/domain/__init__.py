"""What is true: pure records and functions, no I/O."""

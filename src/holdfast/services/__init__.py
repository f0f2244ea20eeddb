"""What we do with it: one verb per file."""

"""What features share. The kernel knows no feature."""

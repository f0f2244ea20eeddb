"""Writes that wait for acknowledgements of peers."""

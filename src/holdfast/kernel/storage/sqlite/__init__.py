"""The SQLite engine: one file."""

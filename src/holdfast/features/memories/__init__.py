"""Memories: store, update, delete, find, deduplicate."""

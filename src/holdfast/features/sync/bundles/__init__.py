"""Sync by file, for stores that never connect."""

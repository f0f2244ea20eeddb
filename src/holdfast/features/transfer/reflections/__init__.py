"""Reflections as Markdown files."""

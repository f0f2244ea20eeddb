"""Reflections: conclusions with their sources, and notices when a source changes."""

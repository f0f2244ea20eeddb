"""Links between memories, paths, and entities."""

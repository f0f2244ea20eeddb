"""Export and import of a store."""

"""Storage: shared SQL behind a port, implemented by two engines."""

"""Memory operations, grouped by noun."""

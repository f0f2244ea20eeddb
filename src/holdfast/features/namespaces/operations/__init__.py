"""Namespace operations, grouped by noun."""

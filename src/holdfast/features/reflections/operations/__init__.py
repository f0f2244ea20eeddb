"""Reflection operations, grouped by noun."""

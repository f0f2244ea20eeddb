"""Lifecycle hooks: user code before and after operations."""

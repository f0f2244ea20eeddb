"""Synthetic texts and vectors, deterministic by seed."""

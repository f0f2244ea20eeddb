"""Quarantine of rejected changes."""

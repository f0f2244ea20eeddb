"""Checkpoints of long work, and provider sessions."""

"""Recall: search memories by meaning and keywords."""

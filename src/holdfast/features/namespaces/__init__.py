"""Namespaces: standards, policies and the approval queue."""

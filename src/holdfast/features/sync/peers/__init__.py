"""Enrolled peers: identity, certificates, namespace filters."""

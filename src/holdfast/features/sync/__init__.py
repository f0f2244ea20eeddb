"""Replication between stores."""

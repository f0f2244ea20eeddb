"""Prompt text built from memories: for a query, a session start, or a reply."""

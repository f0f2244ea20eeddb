"""Requests to providers: bounded in time and in size, and sent nowhere else than to where they are addressed."""

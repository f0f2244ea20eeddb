"""Outgoing requests: bounded in time and size, without proxies or redirects."""

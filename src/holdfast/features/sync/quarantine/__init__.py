"""Changes that were refused."""

"""The journal and the transactions that append to it."""

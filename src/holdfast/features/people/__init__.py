"""People and agents across channels: principals, facts, erasure."""

"""Who may do what: agents, grants, API keys, and the audit log of interactions."""

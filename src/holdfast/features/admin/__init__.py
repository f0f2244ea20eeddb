"""Administration: backup, migration to another store, health checks, capabilities."""

"""PostgreSQL: one memory for many machines."""

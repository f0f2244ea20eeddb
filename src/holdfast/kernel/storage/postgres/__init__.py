"""The PostgreSQL engine: one store for many machines."""

"""Model usage, prices and budgets."""

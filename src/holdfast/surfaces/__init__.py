"""How it is asked: derived from the operations, and thin."""

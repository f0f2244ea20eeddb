"""The journal and its transactions."""

"""Code that features share. The kernel imports no feature."""

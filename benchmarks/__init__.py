"""How fast it is, measured against floors in the same run."""

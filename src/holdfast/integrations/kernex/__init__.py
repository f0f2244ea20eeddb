"""Import of kernex stores."""

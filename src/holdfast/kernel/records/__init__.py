"""Record kinds of the kernel, and the rules for all records: validation, merge, tombstones."""

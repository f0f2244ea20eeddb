"""Record kinds of the kernel and the rules that every record follows: validation, merge, tombstones."""

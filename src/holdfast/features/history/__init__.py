"""Record history, undo, snapshots of the past, and the change feed."""

"""Where it is kept: one SQL, behind a port that an engine implements."""

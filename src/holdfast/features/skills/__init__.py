"""Skills: versioned folders of instructions."""

"""Connect agents: write Holdfast into the files of other programs, and take it out again."""

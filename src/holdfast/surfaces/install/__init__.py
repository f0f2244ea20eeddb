"""Connect agents: add Holdfast to the config files of other programs, and remove it again."""

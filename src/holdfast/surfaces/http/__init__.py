"""HTTP: one route per operation's path, one guard before all of them."""

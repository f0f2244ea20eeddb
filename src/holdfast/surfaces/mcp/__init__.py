"""MCP: the operations as tools, over stdio by a loop of our own and over HTTP by the SDK, with the same answers."""

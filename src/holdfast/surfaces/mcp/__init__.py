"""MCP: the operations as tools, over stdio (own loop) and HTTP (SDK transport), with the same answers."""

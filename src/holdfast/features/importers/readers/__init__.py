"""What people have elsewhere becomes memory: a reader for each format, and one way to keep what they read."""

from typing import Literal, get_args

Format = Literal[
    "chatgpt",
    "claude",
    "claude-code",
    "codex",
    "slack",
    "mem0",
    "mcp-memory",
    "markdown",
    "text",
    "mbox",
    "ai-memory",
    "envelope",
]
FORMATS: tuple[Format, ...] = get_args(Format)

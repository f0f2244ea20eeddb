"""Readers: one per format. Each yields records and does not access the store."""

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

"""Hooks of agent hosts (Claude Code, Codex ...) and the projects their sessions belong to."""

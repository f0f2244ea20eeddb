"""Programs that answer as hooks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast

Open = Callable[..., holdfast.Holdfast]


def hook_command(answer: dict[str, Any] | str, log: Path | None = None) -> list[str]:
    """Return a command that prints an answer and logs its input."""
    said = answer if isinstance(answer, str) else json.dumps(answer)
    keeps = f"cat >> '{log}'; echo >> '{log}'" if log else "cat > /dev/null"
    return ["/bin/sh", "-c", f"{keeps}; printf '%s' \"$1\"", "sh", said]


def hook_rule(event: str, command: list[str], **more: Any) -> dict[str, Any]:
    return {"event": event, "command": command, **({"on_error": "deny"} if event.startswith("pre_") else {}), **more}


def read_log(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]

"""Parse hook events of agent hosts and format the answers. Pure."""

import json
import re
from typing import Any, Literal, NamedTuple, get_args

from holdfast.features.importers.model import line
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Memory

Event = Literal["session-start", "prompt", "tool", "session-end"]
EVENTS: tuple[str, ...] = get_args(Event)
Host = Literal["claude-code", "codex"]
HOSTS: tuple[str, ...] = get_args(Host)

NAMES: dict[Event, tuple[str, ...]] = {
    "session-start": ("SessionStart",),
    "prompt": ("UserPromptSubmit",),
    "tool": ("PostToolUse", "PostToolUseFailure"),
    "session-end": ("Stop", "SessionEnd", "StopFailure", "agent-turn-complete"),
}
"""Event names of the hosts; the first is the default."""
OVER = ("SessionEnd",)
"""Events after which a session is over."""
ANEW = ("clear", "compact", "startup")
"""Session sources that start without the earlier context."""
MOST_TEXT = 1 << 20
LONGEST_BRIEF = 200
MOST_ANSWER = 9500
"""Characters; Claude Code shows at most 10,000 of a context."""
_COMMAND = re.compile(r"\s*/[A-Za-z][\w:-]*(?:\s|\Z)")


class Happened(NamedTuple):
    """A hook event of a host, reduced to the fields in use."""

    event: Event
    name: str
    host: Host
    session: str
    folder: str | None
    text: str = ""
    """The prompt or the answer."""
    asked: tuple[str, ...] = ()
    """Prompts before the answer, if the host sends both at once."""
    source: str = ""
    tool: str = ""
    brief: str = ""
    transcript: str | None = None

    @property
    def is_command(self) -> bool:
        """Whether the prompt is a command for the host, such as /clear."""
        return bool(_COMMAND.match(self.text))


def happened(event: Event, told: bytes, host: Host | None) -> Happened:
    """Parse the JSON object of a host; unknown fields are ignored."""
    raw = _decoded(told)
    if not isinstance(raw, dict):
        raise Invalid("event: must be a JSON object")
    name = _text(raw, "hook_event_name") or _text(raw, "type") or NAMES[event][0]
    if name not in NAMES[event]:
        raise Invalid(f"event: {line(name, 64)!r} is not a {event} event. Correct the hook settings of the host")
    session = _text(raw, "session_id") or _text(raw, "thread-id")
    if not session:
        raise Invalid("session_id: required")
    return Happened(
        event=event,
        name=name,
        host=host or ("codex" if "turn_id" in raw or "turn-id" in raw else "claude-code"),
        session=line(session, 256),
        folder=_text(raw, "cwd") or None,
        text=(_said(raw, event))[:MOST_TEXT],
        asked=_asked(raw),
        source=_text(raw, "source"),
        tool=line(_text(raw, "tool_name"), 128),
        brief=_brief(raw.get("tool_input")),
        transcript=_text(raw, "transcript_path") or None,
    )


def _decoded(told: bytes) -> Any:
    """Decode JSON; tolerates truncated UTF-8 characters."""
    try:
        return json.loads(told.decode(errors="replace"))
    except (ValueError, RecursionError):
        raise Invalid("event: not valid JSON") from None


def _said(raw: dict[str, Any], event: Event) -> str:
    if event == "prompt":
        return _text(raw, "prompt")
    return _text(raw, "last_assistant_message") or _text(raw, "last-assistant-message")


def _asked(raw: dict[str, Any]) -> tuple[str, ...]:
    given = raw.get("input-messages")
    return tuple(one[:MOST_TEXT] for one in given if isinstance(one, str)) if isinstance(given, list) else ()


def _text(raw: dict[str, Any], name: str) -> str:
    value = raw.get(name)
    return value.encode(errors="replace").decode().replace("\x00", "") if isinstance(value, str) else ""


def _brief(given: Any) -> str:
    """Describe the target of a tool call: a file, a command or a URL, never the content."""
    if not isinstance(given, dict):
        return ""
    for name in ("file_path", "notebook_path", "path", "command", "pattern", "query", "url", "description"):
        value = given.get(name)
        if isinstance(value, list):
            value = " ".join(one for one in value if isinstance(one, str))
        if isinstance(value, str) and value.strip():
            return line(value, LONGEST_BRIEF)
    return ""


def answer(name: str, text: str) -> dict[str, Any]:
    """Build the answer that adds context to a session; the same for both hosts."""
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}


def is_asked(memory: Memory) -> bool:
    """Return whether a memory is a captured prompt: it resembles similar prompts but answers none."""
    return memory.speaker == "user" and "host" in memory.metadata

"""What the hosts of agents tell their hooks, and what they take for an answer. Pure."""

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
"""By which names the hosts call each; the first is answered if none is told."""
OVER = ("SessionEnd",)
"""After this a session is over; after the others it may go on."""
ANEW = ("clear", "compact", "startup")
"""Where a session starts without what it was given before."""
MOST_TEXT = 1 << 20
LONGEST_BRIEF = 200
MOST_ANSWER = 9500
"""Characters: Claude Code shows no more than 10,000 of a context."""
_COMMAND = re.compile(r"\s*/[A-Za-z][\w:-]*(?:\s|\Z)")


class Happened(NamedTuple):
    """What a host tells of, as far as anything is done about it."""

    event: Event
    name: str
    host: Host
    session: str
    folder: str | None
    text: str = ""
    """What was asked, or answered."""
    asked: tuple[str, ...] = ()
    """What was asked before an answer, where the host tells both at once."""
    source: str = ""
    tool: str = ""
    brief: str = ""
    transcript: str | None = None

    @property
    def is_command(self) -> bool:
        """Whether it is for the host itself, such as /clear."""
        return bool(_COMMAND.match(self.text))


def happened(event: Event, told: bytes, host: Host | None) -> Happened:
    """What a host tells, in its own words: a JSON object. What it says beside is of no concern."""
    raw = _decoded(told)
    if not isinstance(raw, dict):
        raise Invalid("what the host told is no JSON object")
    name = _text(raw, "hook_event_name") or _text(raw, "type") or NAMES[event][0]
    if name not in NAMES[event]:
        raise Invalid(f"{line(name, 64)!r} is no {event}: correct the settings of the host")
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
    """JSON; also with half of a sign in it, as an editor may cut one."""
    try:
        return json.loads(told.decode(errors="replace"))
    except (ValueError, RecursionError):
        raise Invalid("what the host told is not JSON") from None


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
    """What a tool was used on, in a few words: a file, a command, an address; never what it wrote."""
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
    """What is said into a session, as both hosts take it."""
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}


def is_asked(memory: Memory) -> bool:
    """Whether it is a prompt that a host told of: that resembles the next one like it, and says nothing."""
    return memory.speaker == "user" and "host" in memory.metadata

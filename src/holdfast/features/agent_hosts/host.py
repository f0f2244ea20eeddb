"""Parse hook events of agent hosts and format the answers. Pure."""

import json
import re
from typing import Any, Literal, NamedTuple, get_args

from holdfast.features.importers.model import to_one_line
from holdfast.kernel.errors import Invalid

Event = Literal["session-start", "prompt", "tool", "session-end"]
EVENTS: tuple[str, ...] = get_args(Event)
Host = Literal["claude-code", "codex"]
HOSTS: tuple[str, ...] = get_args(Host)

EVENT_NAMES: dict[Event, tuple[str, ...]] = {
    "session-start": ("SessionStart",),
    "prompt": ("UserPromptSubmit",),
    "tool": ("PostToolUse", "PostToolUseFailure"),
    "session-end": ("Stop", "SessionEnd", "StopFailure", "agent-turn-complete"),
}
"""Event names of the hosts; the first is the default."""
ENDING_EVENTS = ("SessionEnd",)
"""Events after which a session is over."""
FRESH_SOURCES = ("clear", "compact", "startup")
"""Session sources that start without the earlier context."""
MAX_TEXT = 1 << 20
MAX_BRIEF = 200
MAX_ANSWER = 9500
"""Characters; Claude Code shows at most 10,000 of a context."""
_COMMAND = re.compile(r"\s*/[A-Za-z][\w:-]*(?:\s|\Z)")


class HostEvent(NamedTuple):
    """A hook event of a host, reduced to the fields in use."""

    event: Event
    name: str
    host: Host
    session: str
    folder: str | None
    text: str = ""
    """The prompt or the answer."""
    prompts: tuple[str, ...] = ()
    """Prompts before the answer, if the host sends both at once."""
    source: str = ""
    tool: str = ""
    brief: str = ""
    transcript: str | None = None

    @property
    def is_command(self) -> bool:
        """Whether the prompt is a command for the host, such as /clear."""
        return bool(_COMMAND.match(self.text))


def parse_event(event: Event, payload: bytes, host: Host | None) -> HostEvent:
    """Parse the JSON object of a host; unknown fields are ignored."""
    raw = _decode_json(payload)
    if not isinstance(raw, dict):
        raise Invalid("event: must be a JSON object")
    name = _text(raw, "hook_event_name") or _text(raw, "type") or EVENT_NAMES[event][0]
    if name not in EVENT_NAMES[event]:
        raise Invalid(f"event: {to_one_line(name, 64)!r} is not a {event} event. Correct the hook settings of the host")
    session = _text(raw, "session_id") or _text(raw, "thread-id")
    if not session:
        raise Invalid("session_id: required")
    return HostEvent(
        event=event,
        name=name,
        host=host or ("codex" if "turn_id" in raw or "turn-id" in raw else "claude-code"),
        session=to_one_line(session, 256),
        folder=_text(raw, "cwd") or None,
        text=(_extract_text(raw, event))[:MAX_TEXT],
        prompts=_extract_prompts(raw),
        source=_text(raw, "source"),
        tool=to_one_line(_text(raw, "tool_name"), 128),
        brief=_describe_tool_input(raw.get("tool_input")),
        transcript=_text(raw, "transcript_path") or None,
    )


def _decode_json(payload: bytes) -> Any:
    """Decode JSON; tolerates truncated UTF-8 characters."""
    try:
        return json.loads(payload.decode(errors="replace"))
    except (ValueError, RecursionError):
        raise Invalid("event: not valid JSON") from None


def _extract_text(raw: dict[str, Any], event: Event) -> str:
    if event == "prompt":
        return _text(raw, "prompt")
    return _text(raw, "last_assistant_message") or _text(raw, "last-assistant-message")


def _extract_prompts(raw: dict[str, Any]) -> tuple[str, ...]:
    messages = raw.get("input-messages")
    return tuple(one[:MAX_TEXT] for one in messages if isinstance(one, str)) if isinstance(messages, list) else ()


def _text(raw: dict[str, Any], name: str) -> str:
    value = raw.get(name)
    return value.encode(errors="replace").decode().replace("\x00", "") if isinstance(value, str) else ""


def _describe_tool_input(tool_input: Any) -> str:
    """Describe the target of a tool call: a file, a command or a URL, never the content."""
    if not isinstance(tool_input, dict):
        return ""
    for name in ("file_path", "notebook_path", "path", "command", "pattern", "query", "url", "description"):
        value = tool_input.get(name)
        if isinstance(value, list):
            value = " ".join(one for one in value if isinstance(one, str))
        if isinstance(value, str) and value.strip():
            return to_one_line(value, MAX_BRIEF)
    return ""


def build_answer(name: str, text: str) -> dict[str, Any]:
    """Build the answer that adds context to a session; the same for both hosts."""
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}

"""Capture conversation turns from an agent host while they happen, each once."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct

from holdfast.features.importers.model import Turn, to_one_line
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers.blocks import is_own_tool
from holdfast.features.importers.report import Outcome
from holdfast.features.importers.writer import RecordWriter
from holdfast.kernel.context import Context

Role = Literal["user", "assistant", "tool_use", "tool_result", "system", "other"]
_SPEAKERS = {"tool_use": "assistant", "tool_result": "tool"}
"""Speaker names of transcripts, by role."""


class HostTurn(Struct, frozen=True, kw_only=True):
    """A turn as reported by an agent host."""

    session: str
    index: int
    role: Role
    content: str
    at: str | None
    host: str
    tools: tuple[str, ...]
    metadata: dict[str, Any]


class CaptureOutcome(NamedTuple):
    memory: str | None
    outcome: Outcome | Literal["left_out"]
    notes: list[str]


def capture_turn(ctx: Context, turn: HostTurn, options: Options) -> CaptureOutcome:
    """Store a turn once. Reporting it again with other text updates the memory."""
    if turn.role == "tool_result" and any(map(is_own_tool, turn.tools)):
        return CaptureOutcome(None, "left_out", [])
    report = RecordWriter(ctx, "capture", options).write_records([_make_turn(turn)])
    if report.first_error is not None:
        raise report.first_error
    outcome = next((name for name, number in report.outcomes.items() if number), None)
    return CaptureOutcome(report.first_memory, outcome or "left_out", [problem.what for problem in report.problems])


def _make_turn(turn: HostTurn) -> Turn:
    session, host = to_one_line(turn.session, 256), to_one_line(turn.host, 64) or "unknown"
    return Turn(
        key=f"capture/{session}/{turn.index}",
        thread=session,
        name=f"{host} session",
        speaker=_SPEAKERS.get(turn.role, turn.role),
        content=turn.content,
        at=turn.at,
        place=turn.index,
        uri=f"uri:{host}:{session}#{turn.index}",
        where=f"turn {turn.index}",
        metadata=turn.metadata,
    )

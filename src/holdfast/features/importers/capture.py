"""Capture conversation turns from an agent host while they happen, each once."""

from typing import Any, Literal

from msgspec import Struct

from holdfast.features.importers.model import Turn, to_one_line
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers.blocks import is_own_tool
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


class CaptureResult(Struct, frozen=True, kw_only=True):
    memory_id: str | None
    """Null: nothing was stored, because the turn contains only recalled text."""
    dedup_hit: bool
    """The turn was already stored."""
    layer: Literal["L4"]
    outcome: Literal["stored", "updated", "unchanged", "joined", "left", "left_out"]
    """stored: new. updated: other text than before. unchanged: reported before. joined: already imported from a
    transcript. left: archived or edited here, not changed. left_out: only repeats recalled text."""
    notes: list[str]


def capture_turn(ctx: Context, turn: HostTurn, options: Options) -> CaptureResult:
    """Store a turn once. Reporting it again with other text updates the memory."""
    if turn.role == "tool_result" and any(map(is_own_tool, turn.tools)):
        return CaptureResult(memory_id=None, dedup_hit=False, layer="L4", outcome="left_out", notes=[])
    report = RecordWriter(ctx, "capture", options).write_records([_make_turn(turn)])
    if report.first_error is not None:
        raise report.first_error
    outcome = next((name for name, number in report.outcomes.items() if number), None) or "left_out"
    return CaptureResult(
        memory_id=report.first_memory,
        dedup_hit=outcome not in ("stored", "left_out"),
        layer="L4",
        outcome=outcome,
        notes=[problem.what for problem in report.problems],
    )


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

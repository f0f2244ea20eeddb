"""Capture conversation turns from an agent host while they happen, each once."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct

from holdfast.features.importers.model import Turn, line
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers.blocks import is_ours
from holdfast.features.importers.report import Outcome
from holdfast.features.importers.writer import Keeper
from holdfast.kernel.context import Hold

Role = Literal["user", "assistant", "tool_use", "tool_result", "system", "other"]
_SPEAKERS = {"tool_use": "assistant", "tool_result": "tool"}
"""Speaker names of transcripts, by role."""


class Told(Struct, frozen=True, kw_only=True):
    """A turn as reported by an agent host."""

    session: str
    index: int
    role: Role
    content: str
    at: str | None
    host: str
    tools: tuple[str, ...]
    metadata: dict[str, Any]


class Captured(NamedTuple):
    memory: str | None
    outcome: Outcome | Literal["left_out"]
    notes: list[str]


def capture(hold: Hold, told: Told, options: Options) -> Captured:
    """Store a turn once. Reporting it again with other text updates the memory."""
    if told.role == "tool_result" and any(map(is_ours, told.tools)):
        return Captured(None, "left_out", [])
    report = Keeper(hold, "capture", options).take([_turn(told)])
    if report.fault is not None:
        raise report.fault
    outcome = next((name for name, number in report.outcomes.items() if number), None)
    return Captured(report.first, outcome or "left_out", [problem.what for problem in report.problems])


def _turn(told: Told) -> Turn:
    session, host = line(told.session, 256), line(told.host, 64) or "unknown"
    return Turn(
        key=f"capture/{session}/{told.index}",
        thread=session,
        name=f"{host} session",
        speaker=_SPEAKERS.get(told.role, told.role),
        content=told.content,
        at=told.at,
        place=told.index,
        uri=f"uri:{host}:{session}#{told.index}",
        where=f"turn {told.index}",
        metadata=told.metadata,
    )

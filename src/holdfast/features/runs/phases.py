"""State machine of runs and phases: no completed phase is lost or repeated."""

from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Conflict
from holdfast.kernel.records.fields import (
    Agent,
    Count,
    Hash,
    LongText,
    Mark,
    OptionalShortText,
    ShortText,
    Text,
    Timestamp,
)
from holdfast.kernel.records.merge import canonical_json

RunState = Literal["running", "completed", "failed"]
PhaseState = Literal["pending", "in_progress", "completed", "failed"]

TRANSITIONS: dict[PhaseState, tuple[PhaseState, ...]] = {
    "pending": ("in_progress",),
    "in_progress": ("in_progress", "completed", "failed"),
    "failed": ("in_progress",),
    "completed": (),
}
"""Allowed transitions of a phase. A completed phase is final and keeps its output."""


class Phase(Struct, frozen=True, kw_only=True):
    run: Annotated[str, Mark.LOCAL] = ""
    name: ShortText
    place: Annotated[int, Mark.LOCAL, Mark.FIXED] = 0
    """Position among the phases of the run, from 0; an export lists them in this order."""
    state: PhaseState
    attempt: Count
    output: Annotated[str, Meta(max_length=1 << 20)] | None = None
    error: LongText | None = None
    started_at: Timestamp | None = None
    updated_at: Timestamp


class Run(Struct, frozen=True, kw_only=True):
    """Long work in phases, under a lease."""

    id: Text
    principal: Annotated[ShortText, Mark.FIXED]
    agent: Annotated[Agent, Mark.FIXED]
    namespace: Annotated[str, Mark.FIXED]
    topology: Annotated[ShortText, Mark.FIXED]
    topology_hash: Annotated[Hash, Mark.FIXED]
    inputs: Annotated[dict[str, Any], Mark.FIXED] = {}
    state: RunState
    owner: Annotated[str | None, Mark.LOCAL] = None
    token: Count = 0
    lease_until: Annotated[int | None, Mark.LOCAL] = None
    error: LongText | None = None
    created_at: Annotated[Timestamp, Mark.FIXED]
    updated_at: Timestamp


class ProviderSession(Struct, frozen=True, kw_only=True):
    """The current session at a model provider, of a channel, principal and namespace."""

    channel: OptionalShortText = ""
    principal: ShortText
    namespace: str
    agent: Agent
    provider: ShortText
    session: ShortText
    expires_at: Timestamp | None = None
    created_at: Timestamp
    updated_at: Timestamp


class RunPlan(NamedTuple):
    """Plan of a run: name, ordered phases and definition. Its hash identifies it."""

    topology: str
    phases: tuple[str, ...]
    definition: dict[str, Any]

    @property
    def hash(self) -> str:
        return sha256(canonical_json([self.topology, list(self.phases), self.definition])).hexdigest()


def advance_phase(phase: Phase, state: PhaseState, now: int, *, output: str | None, error: str | None) -> Phase:
    """Move a phase to a new state. Raises Conflict for a transition that is not allowed."""
    if state not in TRANSITIONS[phase.state]:
        raise Conflict(f"{phase.name} is {phase.state.replace('_', ' ')}: it cannot become {state.replace('_', ' ')}.")
    begins = state == "in_progress" and phase.state != "in_progress"
    return replace(
        phase,
        state=state,
        attempt=phase.attempt + begins,
        output=output if output is not None else phase.output,
        error=error if state == "failed" else None,
        started_at=now if begins else phase.started_at,
        updated_at=now,
    )

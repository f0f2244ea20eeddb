"""State machine of runs and phases: no completed phase is lost or repeated."""

from hashlib import sha256
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from holdfast.kernel.errors import Conflict
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


class Phase(Struct, frozen=True):
    name: str
    place: int
    state: PhaseState
    attempt: int
    output: str | None
    error: str | None
    started_at: int | None
    updated_at: int


class Run(Struct, frozen=True):
    """Long work in phases, under a lease."""

    id: str
    principal: str
    agent: str
    namespace: str
    topology: str
    topology_hash: str
    inputs: dict[str, Any]
    state: RunState
    owner: str | None
    token: int
    lease_until: int | None
    error: str | None
    created_at: int
    updated_at: int


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
    return Phase(
        name=phase.name,
        place=phase.place,
        state=state,
        attempt=phase.attempt + begins,
        output=output if output is not None else phase.output,
        error=error if state == "failed" else None,
        started_at=now if begins else phase.started_at,
        updated_at=now,
    )

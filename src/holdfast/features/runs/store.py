"""Runs, their phases and provider sessions: records, state machine and tables.

No completed phase is lost or repeated.
"""

from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.records import validate
from holdfast.kernel.records.fields import (
    PRIVATE,
    SPARSE,
    Agent,
    Count,
    Hash,
    LongText,
    Mark,
    Named,
    OptionalShortText,
    ShortText,
    Text,
    Timestamp,
    computed,
)
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.storage.local_table import Export, LocalTable, NestedRows, Owner, Retention
from holdfast.kernel.storage.port import Session, SqlPart
from holdfast.kernel.timestamps import Time

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
    run: Annotated[str, Mark.LOCAL, PRIVATE] = ""
    name: ShortText
    place: Annotated[int, Mark.LOCAL, Mark.FIXED, PRIVATE] = 0
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
    inputs: Annotated[dict[str, Any], Mark.FIXED, SPARSE] = {}
    state: RunState
    owner: Annotated[str | None, Mark.LOCAL] = None
    token: Annotated[Count, PRIVATE] = 0
    """Fencing token of the lease; only run open returns it."""
    lease_until: Annotated[Time | None, Mark.LOCAL] = None
    error: LongText | None = None
    created_at: Annotated[Timestamp, Mark.FIXED]
    updated_at: Timestamp


class RunDetails(Struct, frozen=True, kw_only=True):
    """A run with its phases."""

    run: Run
    phases: list[Phase]
    token: int | None = None
    """Fencing token of the lease; only run open returns it."""
    resumed: bool | None = None

    @computed
    def next(self) -> str | None:
        """The first phase that is not completed yet."""
        return next((phase.name for phase in self.phases if phase.state != "completed"), None)


class ProviderSession(Struct, frozen=True, kw_only=True):
    """The current session at a model provider, of a channel, principal and namespace."""

    channel: OptionalShortText = ""
    principal: ShortText
    namespace: str
    agent: Annotated[Agent, PRIVATE]
    provider: ShortText
    session: Annotated[ShortText, Named("session_id")]
    expires_at: Timestamp | None = None
    created_at: Annotated[Timestamp, PRIVATE]
    updated_at: Annotated[Timestamp, PRIVATE]


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


class Scope(NamedTuple):
    """Channel, principal and namespace of a provider session."""

    channel: str
    principal: str
    namespace: str


def _validate_run(run: Run) -> Run:
    validate.foreign_json("inputs", run.inputs)
    return run


RUNS = LocalTable(
    Run,
    "run",
    plural="runs",
    owner=Owner("created_at"),
    retention=Retention("runs", "updated_at", part="run.ended"),
    export=Export(
        "runs",
        latest=lambda run: run.updated_at,
        release=lambda run: replace(run, owner=None, lease_until=None),
        is_leased=lambda run, now: run.state == "running" and (run.lease_until or 0) > now,
        validate=_validate_run,
    ),
)
PHASES = LocalTable(
    Phase, "run_phase", ("run", "name"), plural="phases", parent=(RUNS, "run"), nested=NestedRows("phases", "place")
)
PROVIDER_SESSIONS = LocalTable(
    ProviderSession,
    "provider_session",
    ("channel", "principal", "namespace"),
    plural="sessions",
    owner=Owner("created_at"),
    export=Export("provider_sessions", latest=lambda one: one.updated_at),
)


def save_provider_session(session: Session, fresh: ProviderSession) -> None:
    """Save the current session of a scope; replacing one keeps its creation time."""
    former = PROVIDER_SESSIONS.get(session, *PROVIDER_SESSIONS.key_of(fresh))
    PROVIDER_SESSIONS.put(session, replace(fresh, created_at=former.created_at) if former else fresh)


def find_provider_sessions(
    session: Session, caller: Caller, principal: str, scope: Scope | None, now: int | None = None
) -> list[ProviderSession]:
    """Sessions of a principal that the caller saved or owns; an admin sees all. With a time: the one current then."""
    parts, params = ["provider_session.of_principal"], dict[str, Any](principals=list(list_names(session, principal)))
    if not caller.has_right("admin"):
        parts.append("provider_session.of_agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if scope is not None:
        parts.append("provider_session.in_scope")
        params |= {"channel": scope.channel, "namespace": scope.namespace}
    if now is not None:
        parts.append("provider_session.current")
        params["now"] = now
    return PROVIDER_SESSIONS.select(session, parts, params)


def get_visible_run(session: Session, caller: Caller, id: str) -> Run:
    """Load a run that the caller created or owns; an admin sees all."""
    run = RUNS.get(session, id)
    if run is None or not (_can_see(session, caller, run) and caller.can_access(run.namespace)):
        raise NotFound(f"You have no run {id!r}.")
    return run


def _can_see(session: Session, caller: Caller, run: Run) -> bool:
    return caller.has_right("admin") or caller.agent == run.agent or run.principal in list_names(session, caller.agent)


def list_phases(session: Session, run: str) -> list[Phase]:
    return PHASES.select(session, ("run_phase.of_run",), {"run": run})


def select_runs(
    session: Session, caller: Caller, principals: tuple[str, ...], state: RunState | None, limit: int, skip: int
) -> list[Run]:
    """Visible runs, most recently updated first."""
    parts: list[SqlPart] = []
    params: dict[str, Any] = {"limit": limit, "skip": skip}
    if not caller.has_right("admin"):
        parts.append("run.of_agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if principals:
        parts.append("run.of_principal")
        params["principals"] = list(list_all_names(session, principals))
    if state is not None:
        parts.append("run.state")
        params["state"] = state
    return [run for run in RUNS.select(session, [*parts, "run.page"], params) if caller.can_access(run.namespace)]

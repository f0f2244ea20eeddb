"""Storage of runs, phases and provider sessions."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.features.runs.phases import Phase, ProviderSession, Run, RunState
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.records import validate
from holdfast.kernel.storage.local_table import Export, LocalTable, Nested, Owner, Retention
from holdfast.kernel.storage.port import Session, SqlPart


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
    Phase, "run_phase", ("run", "name"), plural="phases", parent=(RUNS, "run"), nested=Nested("phases", "place")
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

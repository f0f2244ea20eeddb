"""Storage of runs, phases and provider sessions."""

from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.features.runs.phases import Phase, Run, RunState
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.storage.port import Row, Session, SqlPart


class Scope(NamedTuple):
    """Channel, principal and namespace of a provider session."""

    channel: str
    principal: str
    namespace: str


class ProviderSession(NamedTuple):
    scope: Scope
    provider: str
    session: str
    expires_at: int | None
    updated_at: int


def run_from_row(row: Row) -> Run:
    values = list(row)
    values[6] = msgspec.json.decode(row[6])
    return Run(*values)


def put_run(session: Session, run: Run) -> None:
    session.do("run_put", **{**asdict(run), "inputs": msgspec.json.encode(run.inputs).decode()})


def put_phase(session: Session, run: str, phase: Phase) -> None:
    session.do("run_phase_put", run=run, **asdict(phase))


def get_run(session: Session, id: str) -> Run | None:
    row = session.row("run_get", id=id)
    return run_from_row(row) if row else None


def get_visible_run(session: Session, caller: Caller, id: str) -> Run:
    """Load a run that the caller created or owns; an admin sees all."""
    run = get_run(session, id)
    if run is None or not (_can_see(session, caller, run) and caller.can_access(run.namespace)):
        raise NotFound(f"You have no run {id!r}.")
    return run


def _can_see(session: Session, caller: Caller, run: Run) -> bool:
    return caller.has_right("admin") or caller.agent == run.agent or run.principal in list_names(session, caller.agent)


def list_phases(session: Session, run: str) -> list[Phase]:
    return [Phase(*row) for row in session.rows("run_phases", run=run)]


def select_runs(
    session: Session, caller: Caller, principals: tuple[str, ...], state: RunState | None, limit: int, skip: int
) -> list[Run]:
    """Visible runs, most recently updated first."""
    parts: list[SqlPart] = ["run_select"]
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
    found = [run_from_row(row) for row in session.select([*parts, "run.page"], params)]
    return [run for run in found if caller.can_access(run.namespace)]


def delete_run(session: Session, id: str) -> None:
    session.do("run_phases_drop", run=id)
    session.do("run_drop", id=id)

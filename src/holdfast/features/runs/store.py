"""Storage of runs, phases and provider sessions."""

from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from holdfast.features.people.store import all_known_as, known_as
from holdfast.features.runs.phases import Phase, Run, RunState
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.storage.port import Part, Row, Session


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


def run_of(row: Row) -> Run:
    values = list(row)
    values[6] = msgspec.json.decode(row[6])
    return Run(*values)


def put(session: Session, run: Run) -> None:
    session.do("run_put", **{**asdict(run), "inputs": msgspec.json.encode(run.inputs).decode()})


def put_phase(session: Session, run: str, phase: Phase) -> None:
    session.do("run_phase_put", run=run, **asdict(phase))


def get(session: Session, id: str) -> Run | None:
    row = session.row("run_get", id=id)
    return run_of(row) if row else None


def seen(session: Session, caller: Caller, id: str) -> Run:
    """Load a run that the caller created or owns; an admin sees all."""
    run = get(session, id)
    if run is None or not (_may(session, caller, run) and caller.reaches(run.namespace)):
        raise NotFound(f"You have no run {id!r}.")
    return run


def _may(session: Session, caller: Caller, run: Run) -> bool:
    return caller.may("admin") or caller.agent == run.agent or run.principal in known_as(session, caller.agent)


def phases(session: Session, run: str) -> list[Phase]:
    return [Phase(*row) for row in session.rows("run_phases", run=run)]


def select(
    session: Session, caller: Caller, principals: tuple[str, ...], state: RunState | None, limit: int, skip: int
) -> list[Run]:
    """Visible runs, most recently updated first."""
    parts: list[Part] = ["run_select"]
    params: dict[str, Any] = {"limit": limit, "skip": skip}
    if not caller.may("admin"):
        parts.append("run.of_agent")
        params |= {"agent": caller.agent, "mine": list(known_as(session, caller.agent))}
    if principals:
        parts.append("run.of_principal")
        params["principals"] = list(all_known_as(session, principals))
    if state is not None:
        parts.append("run.state")
        params["state"] = state
    found = [run_of(row) for row in session.assembled([*parts, "run.page"], params)]
    return [run for run in found if caller.reaches(run.namespace)]


def drop(session: Session, id: str) -> None:
    session.do("run_phases_drop", run=id)
    session.do("run_drop", id=id)

"""Runs: resumable long work with one lease holder at a time. Also saved provider sessions."""

import uuid
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.people.store import known_as
from holdfast.features.runs import store as runs
from holdfast.features.runs.phases import Phase, PhaseState, Run, RunState, Shape, stepped
from holdfast.features.runs.store import ProviderSession, Scope
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Invalid, LeaseLost
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import SECOND

LONGEST_OUTPUT = 1 << 20


class Opened(NamedTuple):
    """The leased run with its phases, and whether it was resumed."""

    run: Run
    phases: list[Phase]
    resumed: bool


class Wanted(NamedTuple):
    """Arguments of run open."""

    shape: Shape
    owner: str
    seconds: int
    id: str | None = None
    principal: str | None = None
    namespace: str | None = None
    inputs: dict[str, Any] = {}


def open_run(hold: Hold, wanted: Wanted) -> Opened:
    """Start a run, or resume a free one with the same plan and inputs. The token invalidates older ones."""
    if len(set(wanted.shape.phases)) != len(wanted.shape.phases):
        raise Invalid("phases: names must be unique", fields=["phases"])
    with hold.store.writing(hold.progress.commit) as session:
        known = runs.get(session, wanted.id) if wanted.id is not None else None
        if known is None:
            return _begun(hold, session, wanted)
        run = runs.seen(session, hold.caller, known.id)
        _must_be_same(run, wanted)
        _must_be_free(run, wanted.owner, hold.now())
        leased_run = _held(replace(run, state="running", error=None), wanted.owner, wanted.seconds, hold.now())
        runs.put(session, leased_run)
        return Opened(leased_run, runs.phases(session, run.id), resumed=True)


def _begun(hold: Hold, session: Session, wanted: Wanted) -> Opened:
    now = hold.now()
    fresh = Run(
        id=wanted.id or str(uuid.uuid4()),
        principal=wanted.principal or hold.caller.agent,
        agent=hold.caller.agent,
        namespace=wanted.namespace or hold.namespace,
        topology=wanted.shape.topology,
        topology_hash=wanted.shape.hash,
        inputs=wanted.inputs,
        state="running",
        owner=None,
        token=0,
        lease_until=None,
        error=None,
        created_at=now,
        updated_at=now,
    )
    run = _held(fresh, wanted.owner, wanted.seconds, now)
    phases = [Phase(name, place, "pending", 0, None, None, None, now) for place, name in enumerate(wanted.shape.phases)]
    runs.put(session, run)
    for phase in phases:
        runs.put_phase(session, run.id, phase)
    return Opened(run, phases, resumed=False)


def _held(run: Run, owner: str, seconds: int, now: int) -> Run:
    return replace(run, owner=owner, token=run.token + 1, lease_until=now + seconds * SECOND, updated_at=now)


def _must_be_same(run: Run, wanted: Wanted) -> None:
    if run.topology_hash != wanted.shape.hash:
        raise Conflict("The run belongs to another plan: start a new run.", id=run.id)
    if run.inputs != wanted.inputs:
        raise Conflict("The run has other inputs: start a new run.", id=run.id)
    if run.state == "completed":
        raise Conflict("The run is already completed.", id=run.id)


def _must_be_free(run: Run, owner: str, now: int) -> None:
    if run.owner not in (None, owner) and (run.lease_until or 0) > now:
        raise Conflict(f"The run is leased by {run.owner}: try again later.", id=run.id, retryable=True)


def step(
    hold: Hold,
    id: str,
    token: int,
    name: str,
    state: PhaseState,
    *,
    output: str | None,
    error: str | None,
    seconds: int,
) -> tuple[Run, Phase]:
    """Record the new state of a phase and extend the lease, in one transaction."""
    if state == "failed" and error is None:
        raise Invalid("error: required when the state is failed", fields=["error"])
    with hold.store.writing(hold.progress.commit) as session:
        now = hold.now()
        run = _holding(session, hold, id, token, now)
        found = {phase.name: phase for phase in runs.phases(session, id)}
        if name not in found:
            raise Invalid(f"phase: unknown; this run has {', '.join(found)}", fields=["phase"])
        _must_be_next(list(found.values()), name)
        phase = stepped(found[name], state, now, output=output, error=error)
        runs.put_phase(session, id, phase)
        updated_run = replace(run, lease_until=now + seconds * SECOND, updated_at=now)
        runs.put(session, updated_run)
    return updated_run, phase


def _must_be_next(phases: list[Phase], name: str) -> None:
    for phase in phases:
        if phase.name == name:
            return
        if phase.state != "completed":
            raise Conflict(f"{phase.name} comes before {name} and is {phase.state.replace('_', ' ')}.")


def beat(hold: Hold, id: str, token: int, seconds: int) -> Run:
    """Extend the lease of a run."""
    with hold.store.writing(hold.progress.commit) as session:
        now = hold.now()
        updated_run = replace(
            _holding(session, hold, id, token, now), lease_until=now + seconds * SECOND, updated_at=now
        )
        runs.put(session, updated_run)
    return updated_run


def close(hold: Hold, id: str, token: int, error: str | None) -> tuple[Run, list[Phase]]:
    """End a run and its lease: completed if all phases are, or failed with an error."""
    with hold.store.writing(hold.progress.commit) as session:
        now = hold.now()
        run = _holding(session, hold, id, token, now)
        found = runs.phases(session, id)
        remaining = [phase.name for phase in found if phase.state != "completed"]
        if error is None and remaining:
            raise Conflict(f"Not completed yet: {', '.join(remaining)}", id=id)
        state: RunState = "completed" if error is None else "failed"
        ended_run = replace(run, state=state, error=error, owner=None, lease_until=None, updated_at=now)
        runs.put(session, ended_run)
    return ended_run, found


def _holding(session: Session, hold: Hold, id: str, token: int, now: int) -> Run:
    run = runs.seen(session, hold.caller, id)
    if run.state != "running" or run.token != token or (run.lease_until or 0) <= now:
        raise LeaseLost("The lease of this run has ended: open the run again to continue.")
    return run


def show(hold: Hold, id: str) -> tuple[Run, list[Phase]]:
    with hold.reading() as session:
        run = runs.seen(session, hold.caller, id)
        return run, runs.phases(session, run.id)


def browse(hold: Hold, principals: tuple[str, ...], state: RunState | None, limit: int, skip: int) -> list[Run]:
    with hold.reading() as session:
        return runs.select(session, hold.caller, principals, state, limit, skip)


def clear(hold: Hold, id: str) -> Run:
    """Delete a run with its phases. Raises Conflict while its lease is live."""
    with hold.store.writing(hold.progress.commit) as session:
        run = runs.seen(session, hold.caller, id)
        if run.state == "running" and (run.lease_until or 0) > hold.now():
            raise Conflict(f"The run is leased by {run.owner}: try again later.", id=id, retryable=True)
        runs.drop(session, id)
    return run


def keep_session(hold: Hold, scope: Scope, provider: str, session_id: str, expires_at: int | None) -> None:
    """Save the current provider session of a scope, replacing the previous one."""
    if expires_at is not None and expires_at <= hold.now():
        raise Invalid("expires_at: must be in the future", fields=["expires_at"])
    with hold.store.writing(hold.progress.commit) as session:
        session.do(
            "provider_session_put",
            **scope._asdict(),
            agent=hold.caller.agent,
            provider=provider,
            session=session_id,
            expires_at=expires_at,
            now=hold.now(),
        )


def session_of(hold: Hold, scope: Scope, provider: str | None) -> ProviderSession | None:
    """The current session of a scope; None if it has expired or belongs to another provider."""
    with hold.reading() as session:
        row = session.row(
            "provider_session_get",
            channel=scope.channel,
            principals=list(known_as(session, scope.principal)),
            namespace=scope.namespace,
            now=hold.now(),
            **_eyes(hold, session),
        )
    if row is None or (provider is not None and row[0] != provider):
        return None
    return ProviderSession(scope, *row)


def clear_sessions(hold: Hold, principal: str, scope: Scope | None) -> int:
    """Delete the session of a scope, or all sessions of a principal. Returns their number."""
    with hold.store.writing(hold.progress.commit) as session:
        names = list(known_as(session, principal))
        if scope is None:
            return len(session.rows("provider_session_drop_all", principals=names, **_eyes(hold, session)))
        params = {"channel": scope.channel, "namespace": scope.namespace, **_eyes(hold, session)}
        return len(session.rows("provider_session_drop", principals=names, **params))


def _eyes(hold: Hold, session: Session) -> dict[str, Any]:
    """SQL parameters of visibility: sessions that the caller saved or owns; an admin sees all."""
    caller = hold.caller
    return {"admin": caller.may("admin"), "agent": caller.agent, "mine": list(known_as(session, caller.agent))}

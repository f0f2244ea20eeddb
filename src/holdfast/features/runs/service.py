"""Runs: resumable long work with one lease holder at a time. Also saved provider sessions."""

import uuid
from typing import Any

from msgspec.structs import replace

from holdfast.features.runs import store
from holdfast.features.runs.store import (
    PHASES,
    PROVIDER_SESSIONS,
    RUNS,
    Phase,
    PhaseState,
    ProviderSession,
    Run,
    RunDetails,
    RunPlan,
    RunState,
    Scope,
    advance_phase,
)
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Invalid, LeaseLost
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import SECOND


def open_run(
    ctx: Context,
    plan: RunPlan,
    inputs: dict[str, Any],
    *,
    owner: str,
    seconds: int,
    id: str | None = None,
    principal: str | None = None,
    namespace: str | None = None,
) -> RunDetails:
    """Start a run, or resume a free one with the same plan and inputs. The token invalidates older ones."""
    if len(set(plan.phases)) != len(plan.phases):
        raise Invalid("phases: names must be unique", fields=["phases"])
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        now = ctx.now()
        if id is not None and RUNS.get(session, id) is not None:
            run = store.get_visible_run(session, ctx.caller, id)
            _must_be_same(run, plan, inputs)
            _must_be_free(run, owner, now)
            run = RUNS.put(session, _take_lease(replace(run, state="running", error=None), owner, seconds, now))
            return RunDetails(run=run, phases=store.list_phases(session, id), token=run.token, resumed=True)
        fresh = Run(
            id=id or str(uuid.uuid4()),
            principal=principal or ctx.caller.agent,
            agent=ctx.caller.agent,
            namespace=namespace or ctx.namespace,
            topology=plan.topology,
            topology_hash=plan.hash,
            inputs=inputs,
            state="running",
            created_at=now,
            updated_at=now,
        )
        run = RUNS.put(session, _take_lease(fresh, owner, seconds, now))
        phases = [
            Phase(run=run.id, name=name, place=place, state="pending", attempt=0, updated_at=now)
            for place, name in enumerate(plan.phases)
        ]
        PHASES.put_many(session, phases)
    return RunDetails(run=run, phases=phases, token=run.token, resumed=False)


def _take_lease(run: Run, owner: str, seconds: int, now: int) -> Run:
    return replace(run, owner=owner, token=run.token + 1, lease_until=now + seconds * SECOND, updated_at=now)


def _must_be_same(run: Run, plan: RunPlan, inputs: dict[str, Any]) -> None:
    if run.topology_hash != plan.hash:
        raise Conflict("The run belongs to another plan: start a new run.", id=run.id)
    if run.inputs != inputs:
        raise Conflict("The run has other inputs: start a new run.", id=run.id)
    if run.state == "completed":
        raise Conflict("The run is already completed.", id=run.id)


def _must_be_free(run: Run, owner: str, now: int) -> None:
    if run.owner not in (None, owner) and (run.lease_until or 0) > now:
        raise Conflict(f"The run is leased by {run.owner}: try again later.", id=run.id, retryable=True)


def step_run(
    ctx: Context,
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
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        now = ctx.now()
        run = _require_lease(session, ctx, id, token, now)
        found = {phase.name: phase for phase in store.list_phases(session, id)}
        if name not in found:
            raise Invalid(f"phase: unknown; this run has {', '.join(found)}", fields=["phase"])
        _must_be_next(list(found.values()), name)
        phase = advance_phase(found[name], state, now, output=output, error=error)
        PHASES.put(session, phase)
        return RUNS.put(session, replace(run, lease_until=now + seconds * SECOND, updated_at=now)), phase


def _must_be_next(phases: list[Phase], name: str) -> None:
    for phase in phases:
        if phase.name == name:
            return
        if phase.state != "completed":
            raise Conflict(f"{phase.name} comes before {name} and is {phase.state.replace('_', ' ')}.")


def extend_lease(ctx: Context, id: str, token: int, seconds: int) -> Run:
    """Extend the lease of a run."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        now = ctx.now()
        run = _require_lease(session, ctx, id, token, now)
        return RUNS.put(session, replace(run, lease_until=now + seconds * SECOND, updated_at=now))


def close_run(ctx: Context, id: str, token: int, error: str | None) -> RunDetails:
    """End a run and its lease: completed if all phases are, or failed with an error."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        now = ctx.now()
        run = _require_lease(session, ctx, id, token, now)
        found = store.list_phases(session, id)
        remaining = [phase.name for phase in found if phase.state != "completed"]
        if error is None and remaining:
            raise Conflict(f"Not completed yet: {', '.join(remaining)}", id=id)
        state: RunState = "completed" if error is None else "failed"
        run = replace(run, state=state, error=error, owner=None, lease_until=None, updated_at=now)
        return RunDetails(run=RUNS.put(session, run), phases=found)


def _require_lease(session: Session, ctx: Context, id: str, token: int, now: int) -> Run:
    run = store.get_visible_run(session, ctx.caller, id)
    if run.state != "running" or run.token != token or (run.lease_until or 0) <= now:
        raise LeaseLost("The lease of this run has ended: open the run again to continue.")
    return run


def get_run(ctx: Context, id: str) -> RunDetails:
    with ctx.reading() as session:
        run = store.get_visible_run(session, ctx.caller, id)
        return RunDetails(run=run, phases=store.list_phases(session, id))


def list_runs(ctx: Context, principals: tuple[str, ...], state: RunState | None, limit: int, skip: int) -> list[Run]:
    with ctx.reading() as session:
        return store.select_runs(session, ctx.caller, principals, state, limit, skip)


def delete_run(ctx: Context, id: str) -> Run:
    """Delete a run with its phases. Raises Conflict while its lease is live."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        run = store.get_visible_run(session, ctx.caller, id)
        if run.state == "running" and (run.lease_until or 0) > ctx.now():
            raise Conflict(f"The run is leased by {run.owner}: try again later.", id=id, retryable=True)
        RUNS.delete(session, id)
    return run


def keep_session(ctx: Context, scope: Scope, provider: str, session_id: str, expires_at: int | None) -> ProviderSession:
    """Save the current provider session of a scope, replacing the previous one."""
    now = ctx.now()
    if expires_at is not None and expires_at <= now:
        raise Invalid("expires_at: must be in the future", fields=["expires_at"])
    fresh = ProviderSession(
        **scope._asdict(),
        agent=ctx.caller.agent,
        provider=provider,
        session=session_id,
        expires_at=expires_at,
        created_at=now,
        updated_at=now,
    )
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        store.save_provider_session(session, fresh)
    return fresh


def find_session(ctx: Context, scope: Scope, provider: str | None) -> ProviderSession | None:
    """The current session of a scope, under the name that was asked; None if it expired or is of another provider."""
    with ctx.reading() as session:
        found = store.find_provider_sessions(session, ctx.caller, scope.principal, scope, ctx.now())
    fits = found and provider in (None, found[0].provider)
    return replace(found[0], principal=scope.principal) if fits else None


def clear_sessions(ctx: Context, principal: str, scope: Scope | None) -> int:
    """Delete the session of a scope, or all sessions of a principal. Returns their number."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        found = store.find_provider_sessions(session, ctx.caller, principal, scope)
        for one in found:
            PROVIDER_SESSIONS.delete(session, *PROVIDER_SESSIONS.key_of(one))
    return len(found)

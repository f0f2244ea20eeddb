"""Import scheduled tasks and runs, with their phases."""

from typing import cast, get_args

from msgspec.structs import replace

from holdfast.features.runs.store import PHASES, RUNS, Phase, PhaseState, Run, RunPlan, RunState, list_phases
from holdfast.features.tasks.model import State, Status, Task, TaskRun
from holdfast.features.tasks.schedule import NAMED_RULES, parse_due, parse_schedule
from holdfast.features.tasks.store import TASK_RUNS, TASKS
from holdfast.integrations.kernex.import_state import ImportState
from holdfast.integrations.kernex.rows import Row
from holdfast.kernel.errors import Conflict, Invalid
from holdfast.kernel.journal.transaction import Transaction


def import_task(state: ImportState, write: Transaction, row: Row) -> str | None:
    at, task_state = parse_due(row.text("due_at"), "UTC"), _STATES[row.one_of("status", _STATES, "pending")]
    repeat = _read_repeat(state, row)
    parse_schedule(repeat, "UTC", at)
    if not row.text("description").strip():
        raise Invalid("description: must not be empty")
    made = row.timestamp("created_at")
    task = Task(
        id=row.label("id"),
        principal=row.sender,
        agent=state.ctx.caller.agent,
        namespace=state.namespace_of(row),
        channel=row.label("channel", ""),
        reply_to=row.text("reply_target", ""),
        title=row.text("description"),
        kind=row.text("task_type", "reminder"),
        payload={
            "kernex": row.other_values("description", "channel", "reply_target", "project", "sender_id", "task_type")
        },
        first_at=at,
        repeat=repeat,
        due_at=at,
        ready_at=at if task_state == "pending" else None,
        state=task_state,
        attempts=row.integer("retry_count", 0),
        most_attempts=max(5, row.integer("retry_count", 0) + 1),
        last_error=row.optional_text("last_error"),
        created_at=made,
        updated_at=row.optional_timestamp("delivered_at") or made,
    )
    TASKS.put(write.session, task)
    state.tasks.add(task.id)
    return task.id


def _read_repeat(state: ImportState, row: Row) -> str | None:
    """Return the repeat rule of a task; kernex treats an unknown word as daily."""
    repeat = row.optional_text("repeat")
    if repeat in (None, "", "once"):
        return None
    if repeat not in NAMED_RULES:
        state.report.add_problem(
            row.where, f"repeat: {repeat!r} is unknown and imported as daily, as in kernex", rejected=False
        )
        return "daily"
    return repeat


def import_task_run(state: ImportState, write: Transaction, row: Row) -> str | None:
    if (task := row.text("task_id")) not in state.tasks:
        raise Invalid("task_id: the task was not imported")
    started = row.timestamp("started_at")
    while (task, started) in state.seen_runs:
        started += 1
    state.seen_runs.add((task, started))
    status = cast(Status, row.one_of("status", ("completed", "failed")))
    run = TaskRun(
        id=state.row_id(row),
        task=task,
        due_at=started,
        attempt=1,
        owner="kernex",
        token=0,
        started_at=started,
        finished_at=row.timestamp("finished_at"),
        status=status,
        final=status == "completed",
        result=row.optional_text("result"),
        error=row.optional_text("error"),
        tokens=None if row.values.get("tokens_used") is None else row.integer("tokens_used"),
    )
    TASK_RUNS.add(write.session, run)
    return run.id


def order_phases(state: ImportState) -> None:
    started: dict[str, list[tuple[str, int, str]]] = {}
    for number, values in state.read_rows("phase_checkpoints") if "phase_checkpoints" in state.file.tables else ():
        if values is not None and values["status"] in get_args(PhaseState):
            named = (str(values["created_at"]), number, str(values["phase_name"]))
            started.setdefault(str(values["run_id"]), []).append(named)
    state.phases = {run: [name for _, _, name in sorted(phases)] for run, phases in started.items()}


def import_checkpoint(state: ImportState, write: Transaction, row: Row) -> str | None:
    """Import a phase of a run; the first one creates the run, and the phases decide its state."""
    id, name, now = row.label("run_id"), row.label("phase_name"), row.timestamp("updated_at")
    status = cast(PhaseState, row.one_of("status", get_args(PhaseState), "pending"))
    run = RUNS.get(write.session, id) or _build_run(state, row, id, now)
    if run.token:
        raise Conflict("run_id: the run has continued here")
    phase = Phase(
        run=id,
        name=name,
        place=state.phases[id].index(name),
        state=status,
        attempt=row.integer("attempt", 0),
        output=row.optional_text("output"),
        error=row.optional_text("error_message") if status == "failed" else None,
        started_at=row.timestamp("created_at"),
        updated_at=now,
    )
    RUNS.put(write.session, _with_phases(run, [*list_phases(write.session, id), phase], now))
    PHASES.put(write.session, phase)
    return f"{id} {name}"


def _build_run(state: ImportState, row: Row, id: str, now: int) -> Run:
    return Run(
        id=id,
        principal=row.sender,
        agent=state.ctx.caller.agent,
        namespace=state.namespace_of(row),
        topology=row.label("topology_name"),
        topology_hash=RunPlan(row.label("topology_name"), tuple(state.phases[id]), {}).hash,
        state="running",
        created_at=row.timestamp("created_at"),
        updated_at=now,
    )


_STATES: dict[str, State] = {
    "pending": "pending",
    "claimed": "pending",
    "delivered": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""Task states here; a claimed task becomes pending, since its claimant does not run here."""


def _with_phases(run: Run, phases: list[Phase], now: int) -> Run:
    """Set a run's state from its phases: completed, failed or running."""
    states = {phase.state for phase in phases}
    state: RunState = "failed" if "failed" in states else "completed" if states == {"completed"} else "running"
    error = next((phase.error for phase in phases if phase.error), None)
    return replace(run, state=state, error=error, updated_at=max(now, run.updated_at))

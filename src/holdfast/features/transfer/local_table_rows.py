"""Envelope rows of local tables: conversations, tasks, costs, runs and outcomes.

A row contains the complete record, with times as text and exact money. Leases are omitted: a lease holds in one store,
and an imported record is free.
"""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from holdfast.features.conversations.onboarding import STEPS, Step
from holdfast.features.recall.utility import Verdict
from holdfast.features.runs.phases import PhaseState, RunState
from holdfast.features.tasks.model import Handler, Status, unclaimed
from holdfast.features.tasks.model import State as TaskState
from holdfast.features.tasks.schedule import Misfire, schedule
from holdfast.features.transfer.schema_v1 import Count, Moment, RowId, Text
from holdfast.features.usage import price
from holdfast.features.usage.price import Period
from holdfast.kernel import ids
from holdfast.kernel.errors import Invalid
from holdfast.kernel.model_allowance import PARTS, amount
from holdfast.kernel.records import validate as door
from holdfast.kernel.timestamps import DAY, from_text, to_text

Kept = dict[str, Any]
"""A record by column name."""

Who = Annotated[str, Meta(min_length=1, max_length=512)]
Word = Annotated[str, Meta(max_length=512)]
Long = Annotated[str, Meta(max_length=65_536)]
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Money = Annotated[str, Meta(min_length=1, max_length=40)]
MOST_COST = (1 << 63) - 1


class ConversationRow(Struct, frozen=True, kw_only=True):
    id: Text
    channel: Word = ""
    principal: Who
    agent_id: str
    namespace: str
    state: Literal["active", "closing", "closed"]
    started_at: Moment
    last_at: Moment
    closed_at: Moment | None = None
    turns: Count
    covered: Count = 0
    summary: Text | None = None
    pruned: bool = False


class OutcomeRow(Struct, frozen=True, kw_only=True):
    id: Text
    at: Moment
    principal: Who
    agent_id: str
    namespace: str
    domain: Who
    score: Literal[-1, 0, 1]
    what: Long
    source: Word = ""
    lesson: Text | None = None
    archived_at: Moment | None = None


class TaskRow(Struct, frozen=True, kw_only=True):
    id: Annotated[Text, Meta(min_length=6)]
    principal: Who
    agent_id: str
    namespace: str
    channel: Word = ""
    reply_to: Word = ""
    title: Annotated[Long, Meta(min_length=1)]
    kind: Who = "reminder"
    handler: Handler = "none"
    target: Long = ""
    payload: dict[str, Any] = {}
    zone: Who = "UTC"
    first_at: Moment
    repeat: Who | None = None
    misfire: Misfire = "once"
    due_at: Moment
    ready_at: Moment | None = None
    state: TaskState
    attempts: Count = 0
    most_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    timeout: Annotated[int, Meta(ge=1, le=86_400)] = 300
    token: Count = 0
    last_error: Long | None = None
    unique_key: Who | None = None
    created_at: Moment
    updated_at: Moment


class TaskRunRow(Struct, frozen=True, kw_only=True):
    id: Text
    task: Text
    due_at: Moment
    attempt: Count
    owner: Word = ""
    token: Count = 0
    started_at: Moment
    finished_at: Moment
    status: Status
    final: bool
    result: Long | None = None
    error: Long | None = None
    tokens: Count | None = None


class UsageRow(Struct, frozen=True, kw_only=True):
    id: Text
    at: Moment
    principal: Who
    agent_id: str
    session: Word = ""
    model: Who
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost: Money | None = None
    """None: there was no price for this model."""
    currency: Word | None = None
    unique_key: Who | None = None


class PriceRow(Struct, frozen=True, kw_only=True):
    model: Who
    since: Moment
    currency: Word
    input: Money | None = None
    output: Money | None = None
    cache_read: Money | None = None
    cache_write: Money | None = None
    set_by: str
    set_at: Moment


class BudgetRow(Struct, frozen=True, kw_only=True):
    principal: Who
    model: Who
    period: Period
    tokens: Count | None = None
    cost: Money | None = None
    currency: Word | None = None
    set_by: str
    set_at: Moment


class PhaseRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown fields are rejected: there is no place to store them."""

    name: Who
    state: PhaseState
    attempt: Count
    output: Annotated[str, Meta(max_length=1 << 20)] | None = None
    error: Long | None = None
    started_at: Moment | None = None
    updated_at: Moment


class RunRow(Struct, frozen=True, kw_only=True):
    id: Text
    principal: Who
    agent_id: str
    namespace: str
    topology: Who
    topology_hash: Hash
    inputs: dict[str, Any] = {}
    state: RunState
    token: Count = 0
    error: Long | None = None
    phases: Annotated[list[PhaseRow], Meta(min_length=1, max_length=1000)]
    """In order."""
    created_at: Moment
    updated_at: Moment


class ProviderSessionRow(Struct, frozen=True, kw_only=True):
    channel: Word = ""
    principal: Who
    namespace: str
    agent_id: str
    provider: Who
    session: Who
    expires_at: Moment | None = None
    created_at: Moment
    updated_at: Moment


class OnboardingRow(Struct, frozen=True, kw_only=True):
    principal: Who
    step: Step
    at: Moment
    agent_id: str


class ForgottenRow(Struct, frozen=True, kw_only=True):
    id: RowId
    """A digest of a name, never the name."""
    at: Moment
    agent_id: str
    counts: dict[str, Count]
    ordered_at: Moment | None = None


class MinedRow(Struct, frozen=True, kw_only=True):
    key: Text
    memory: Annotated[str, Meta(max_length=128)]
    route: Literal["mine", "capture"]
    said: Text | None = None
    digest: Word
    text_digest: Word


class FeedbackRow(Struct, frozen=True, kw_only=True):
    recall: Text
    memory: RowId
    agent_id: str
    verdict: Verdict
    given_at: Moment


class Ledger(NamedTuple):
    """One array of the envelope, its table, and the rules for importing its records."""

    array: str
    table: str
    shape: type[Struct]
    key: tuple[str, ...]
    changes: tuple[str, ...] = ()
    """Columns that may differ between two states of a record. Empty: records are immutable."""
    later: tuple[str, ...] = ()
    """Columns that decide which of two states is the later."""
    untold: Kept = {}
    """Columns that are not exported, with their values in a free record."""
    money: tuple[str, ...] = ()
    memory: str | None = None
    """Column with a memory id."""
    belongs: bool = False
    """Whether that memory must exist: the records belong to it."""
    admitted: Callable[[Kept], Kept] = lambda kept: kept
    """Validates and completes a record."""

    @property
    def columns(self) -> tuple[str, ...]:
        names = (_COLUMNS.get(name, name) for name in self.shape.__struct_fields__ if name != "phases")
        return tuple(dict.fromkeys((*names, *self.untold)))

    @property
    def author(self) -> str | None:
        """Column with the agent that created a record."""
        return next((name for name in ("agent", "set_by") if name in self.columns), None)

    @property
    def placed(self) -> bool:
        """Whether its records have a namespace."""
        return "namespace" in self.columns

    def id_of(self, kept: Kept) -> tuple[Any, ...]:
        return tuple(kept[name] for name in self.key)

    def free(self, kept: Kept) -> Kept:
        """Remove lease and local state from a record."""
        own = {name: value for name, value in self.untold.items() if name not in _DERIVED}
        return {**(unclaimed(kept) if self.table == "task" else kept), **own}

    def rank(self, kept: Kept) -> tuple[Any, ...]:
        """Rank of a state: the later one of a record ranks higher."""
        return tuple(_order(kept[name]) for name in self.later)

    def row(self, kept: Kept) -> dict[str, Any]:
        """Convert a record to an envelope row; None is omitted."""
        free, row = self.free(kept), dict[str, Any]()
        for name in self.shape.__struct_fields__:
            value = free[_COLUMNS.get(name, name)]
            if value is not None:
                row[name] = self._told(name, value)
        return row

    def kept(self, row: Struct) -> Kept:
        """Convert an envelope row to a record. Raises Invalid if the store would reject it."""
        record = dict(self.untold)
        for name in self.shape.__struct_fields__:
            value = getattr(row, name)
            record[_COLUMNS.get(name, name)] = None if value is None else self._read(name, value)
        return self.free(self.admitted(record))

    def _told(self, name: str, value: Any) -> Any:
        if name in self.money:
            return amount(value if name == "cost" else value * (PARTS // 1_000_000))
        match name:
            case "step":
                return STEPS[value]
            case "phases":
                return [_phase_told(phase) for phase in value]
        return to_text(value) if _is_moment(name) else value

    def _read(self, name: str, value: Any) -> Any:
        if name in self.money:
            return parts(value, name) if name == "cost" else price.rate(value, name)
        match name:
            case "step":
                return STEPS.index(value)
            case "phases":
                return [_phase_kept(phase, place) for place, phase in enumerate(value)]
        return from_text(value, name) if _is_moment(name) else value


_COLUMNS = {"agent_id": "agent"}
_DERIVED = ("id", "day")
_STATES = ("active", "closing", "closed")


def _is_moment(name: str) -> bool:
    return name in ("at", "since") or name.endswith("_at")


def _order(value: Any) -> Any:
    """Order of column values: known after unknown, conversation states by progress."""
    return _STATES.index(value) if value in _STATES else value if isinstance(value, int) else value is not None


def parts(text: str, field: str) -> int:
    """Convert a cost in currency units to the smallest parts, exactly."""
    try:
        exact = Decimal(text) * PARTS
    except InvalidOperation:
        raise Invalid(f"{field}: must be a number such as 0.30", fields=[field]) from None
    if not exact.is_finite() or not 0 <= exact <= MOST_COST or exact != int(exact):
        raise Invalid(f"{field}: must be from 0 to {MOST_COST // PARTS}, with at most twelve decimals", fields=[field])
    return int(exact)


def _phase_told(phase: Kept) -> dict[str, Any]:
    values = {name: value for name, value in phase.items() if value is not None and name != "place"}
    return {name: to_text(value) if _is_moment(name) else value for name, value in values.items()}


def _phase_kept(phase: PhaseRow, place: int) -> Kept:
    values = {name: getattr(phase, name) for name in PhaseRow.__struct_fields__}
    moments = {name: from_text(value, name) for name, value in values.items() if _is_moment(name) and value}
    return {**values, **moments, "place": place}


def _conversation(kept: Kept) -> Kept:
    if kept["covered"] > kept["turns"]:
        raise Invalid("covered: must not exceed turns", fields=["covered"])
    return kept


def _task(kept: Kept) -> Kept:
    """Check the schedule of a task and set `ready_at`."""
    schedule(kept["repeat"], kept["zone"], kept["first_at"])
    waits = kept["state"] in ("pending", "running")
    return {**kept, "ready_at": (kept["ready_at"] or kept["due_at"]) if waits else None}


def _task_run(kept: Kept) -> Kept:
    if kept["finished_at"] < kept["started_at"]:
        raise Invalid("finished_at: must not be before started_at", fields=["finished_at"])
    return kept


def _usage(kept: Kept) -> Kept:
    if (kept["cost"] is None) != (kept["currency"] is None):
        raise Invalid("currency: required with a cost, and only then", fields=["currency"])
    if kept["currency"] is not None:
        price.currency(kept["currency"])
    return {**kept, "day": kept["at"] // DAY}


def _price(kept: Kept) -> Kept:
    price.pattern(kept["model"])
    price.currency(kept["currency"])
    return kept


def _budget(kept: Kept) -> Kept:
    price.pattern(kept["model"])
    if kept["tokens"] is None and kept["cost"] is None:
        raise Invalid("tokens: a budget needs tokens, a cost, or both", fields=["tokens", "cost"])
    if kept["cost"] is not None or kept["currency"] is not None:
        price.currency(kept["currency"] or "")
    return {**kept, "id": ids.derived("budget", kept["principal"], kept["model"], kept["period"])}


def _run(kept: Kept) -> Kept:
    names = [phase["name"] for phase in kept["phases"]]
    if len({*names}) < len(names):
        raise Invalid("phases: names must be unique", fields=["phases"])
    door.foreign("inputs", kept["inputs"])
    return kept


def _forgotten(kept: Kept) -> Kept:
    """Default `ordered_at` to `at`."""
    return {**kept, "ordered_at": kept["at"] if kept["ordered_at"] is None else kept["ordered_at"]}


LEDGERS: dict[str, Ledger] = {
    one.array: one
    for one in (
        Ledger(
            "conversations",
            "conversation",
            ConversationRow,
            ("id",),
            changes=("state", "last_at", "closed_at", "turns", "covered", "summary", "pruned"),
            later=("last_at", "state", "covered", "pruned"),
            memory="summary",
            admitted=_conversation,
        ),
        Ledger(
            "outcomes",
            "outcome",
            OutcomeRow,
            ("id",),
            changes=("lesson", "archived_at"),
            later=("archived_at", "lesson"),
            memory="lesson",
        ),
        Ledger(
            "tasks",
            "task",
            TaskRow,
            ("id",),
            changes=(
                *(
                    "reply_to",
                    "title",
                    "kind",
                    "payload",
                    "zone",
                    "first_at",
                    "repeat",
                    "misfire",
                    "due_at",
                    "ready_at",
                ),
                *("state", "attempts", "most_attempts", "timeout", "token", "last_error", "updated_at"),
            ),
            later=("updated_at",),
            untold={"owner": None, "claimed_at": None, "cancel_asked": False},
            admitted=_task,
        ),
        Ledger("task_runs", "task_run", TaskRunRow, ("id",), admitted=_task_run),
        Ledger(
            "usage",
            "usage",
            UsageRow,
            ("id",),
            untold={"day": 0, "state": "kept", "ends_at": None},
            money=("cost",),
            admitted=_usage,
        ),
        Ledger(
            "prices",
            "price",
            PriceRow,
            ("model", "since"),
            changes=("currency", *price.KINDS, "set_by", "set_at"),
            later=("set_at",),
            money=price.KINDS,
            admitted=_price,
        ),
        Ledger(
            "budgets",
            "budget",
            BudgetRow,
            ("id",),
            changes=("tokens", "cost", "currency", "set_by", "set_at"),
            later=("set_at",),
            untold={"id": ""},
            money=("cost",),
            admitted=_budget,
        ),
        Ledger(
            "runs",
            "run",
            RunRow,
            ("id",),
            changes=("state", "token", "error", "phases", "updated_at"),
            later=("updated_at",),
            untold={"owner": None, "lease_until": None},
            admitted=_run,
        ),
        Ledger(
            "provider_sessions",
            "provider_session",
            ProviderSessionRow,
            ("channel", "principal", "namespace"),
            changes=("agent", "provider", "session", "expires_at", "created_at", "updated_at"),
            later=("updated_at",),
        ),
        Ledger("onboarding", "onboarding", OnboardingRow, ("principal", "step"), changes=("at", "agent")),
        Ledger(
            "forgotten",
            "forgotten",
            ForgottenRow,
            ("id",),
            changes=("at", "agent", "counts", "ordered_at"),
            later=("at",),
            admitted=_forgotten,
        ),
        Ledger(
            "mined", "mined", MinedRow, ("key",), changes=("memory", "said", "digest", "text_digest"), memory="memory"
        ),
        Ledger(
            "feedback",
            "recall_feedback",
            FeedbackRow,
            ("recall", "memory", "agent"),
            changes=("verdict", "given_at"),
            later=("given_at",),
            memory="memory",
            belongs=True,
        ),
    )
}
"""In import order: referenced records come first."""

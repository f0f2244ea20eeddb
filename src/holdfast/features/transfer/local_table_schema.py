"""Declare the local tables of an envelope: their keys, mutable columns, and how a record is validated and converted."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.features.conversations.onboarding import STEPS
from holdfast.features.tasks.model import Task, unclaim_task
from holdfast.features.tasks.schedule import parse_schedule
from holdfast.features.transfer.local_table_rows import (
    BudgetRow,
    ConversationRow,
    ErasureRow,
    FeedbackRow,
    ImportRecordRow,
    OnboardingRow,
    OutcomeRow,
    PhaseRow,
    PriceRow,
    ProviderSessionRow,
    RunRow,
    TaskRow,
    TaskRunRow,
    UsageRow,
)
from holdfast.features.usage import price
from holdfast.kernel.errors import Invalid
from holdfast.kernel.model_allowance import COST_UNITS, format_cost, parse_cost
from holdfast.kernel.records import validate
from holdfast.kernel.timestamps import DAY, derive_id, format_timestamp, parse_timestamp

LocalRecord = dict[str, Any]
"""A record by column name."""


class LocalTable(NamedTuple):
    """One array of the envelope, its table, and the rules for importing its records."""

    array: str
    table: str
    row_type: type[Struct]
    key: tuple[str, ...]
    mutable: tuple[str, ...] = ()
    """Columns that may differ between two states of a record. Empty: records are immutable."""
    rank_columns: tuple[str, ...] = ()
    """Columns that decide which of two states is the later."""
    local_columns: LocalRecord = {}
    """Columns that are not exported, with their values in a free record."""
    money_columns: tuple[str, ...] = ()
    memory_column: str | None = None
    """Column with a memory id."""
    requires_memory: bool = False
    """Whether that memory must exist: the records belong to it."""
    validate_record: Callable[[LocalRecord], LocalRecord] = lambda kept: kept
    """Validates and completes a record."""

    @property
    def columns(self) -> tuple[str, ...]:
        names = (_COLUMNS.get(name, name) for name in self.row_type.__struct_fields__ if name != "phases")
        return tuple(dict.fromkeys((*names, *self.local_columns)))

    @property
    def author_column(self) -> str | None:
        """Column with the agent that created a record."""
        return next((name for name in ("agent", "set_by") if name in self.columns), None)

    @property
    def has_namespace(self) -> bool:
        """Whether its records have a namespace."""
        return "namespace" in self.columns

    def get_key(self, record: LocalRecord) -> tuple[Any, ...]:
        return tuple(record[name] for name in self.key)

    def unclaim(self, record: LocalRecord) -> LocalRecord:
        """Remove lease and local state from a record."""
        own = {name: value for name, value in self.local_columns.items() if name not in _DERIVED}
        return {**(asdict(unclaim_task(Task(**record))) if self.table == "task" else record), **own}

    def rank(self, record: LocalRecord) -> tuple[Any, ...]:
        """Rank of a state: the later one of a record ranks higher."""
        return tuple(_rank_value(record[name]) for name in self.rank_columns)

    def to_row(self, record: LocalRecord) -> dict[str, Any]:
        """Convert a record to an envelope row; None is omitted."""
        free, row = self.unclaim(record), dict[str, Any]()
        for name in self.row_type.__struct_fields__:
            value = free[_COLUMNS.get(name, name)]
            if value is not None:
                row[name] = self._to_row_value(name, value)
        return row

    def from_row(self, row: Struct) -> LocalRecord:
        """Convert an envelope row to a record. Raises Invalid if the store would reject it."""
        record = dict(self.local_columns)
        for name in self.row_type.__struct_fields__:
            value = getattr(row, name)
            record[_COLUMNS.get(name, name)] = None if value is None else self._from_row_value(name, value)
        return self.unclaim(self.validate_record(record))

    def _to_row_value(self, name: str, value: Any) -> Any:
        if name in self.money_columns:
            return format_cost(value if name == "cost" else value * (COST_UNITS // 1_000_000))
        match name:
            case "step":
                return STEPS[value]
            case "phases":
                return [_phase_to_row(phase) for phase in value]
        return format_timestamp(value) if _is_timestamp(name) else value

    def _from_row_value(self, name: str, value: Any) -> Any:
        if name in self.money_columns:
            return parse_cost(value, name) if name == "cost" else price.parse_rate(value, name)
        match name:
            case "step":
                return STEPS.index(value)
            case "phases":
                return [_phase_from_row(phase, place) for place, phase in enumerate(value)]
        return parse_timestamp(value, name) if _is_timestamp(name) else value


_COLUMNS = {"agent_id": "agent", "said": "utterance_digest"}
_DERIVED = ("id", "day")
_STATES = ("active", "closing", "closed")


def _is_timestamp(name: str) -> bool:
    return name in ("at", "since") or name.endswith("_at")


def _rank_value(value: Any) -> Any:
    """Order of column values: known after unknown, conversation states by progress."""
    return _STATES.index(value) if value in _STATES else value if isinstance(value, int) else value is not None


def _phase_to_row(phase: LocalRecord) -> dict[str, Any]:
    values = {name: value for name, value in phase.items() if value is not None and name != "place"}
    return {name: format_timestamp(value) if _is_timestamp(name) else value for name, value in values.items()}


def _phase_from_row(phase: PhaseRow, place: int) -> LocalRecord:
    values = {name: getattr(phase, name) for name in PhaseRow.__struct_fields__}
    moments = {name: parse_timestamp(value, name) for name, value in values.items() if _is_timestamp(name) and value}
    return {**values, **moments, "place": place}


def _validate_conversation(record: LocalRecord) -> LocalRecord:
    if record["covered"] > record["turns"]:
        raise Invalid("covered: must not exceed turns", fields=["covered"])
    return record


def _validate_task(record: LocalRecord) -> LocalRecord:
    """Check the schedule of a task and set `ready_at`."""
    parse_schedule(record["repeat"], record["zone"], record["first_at"])
    waits = record["state"] in ("pending", "running")
    return {**record, "ready_at": (record["ready_at"] or record["due_at"]) if waits else None}


def _validate_task_run(record: LocalRecord) -> LocalRecord:
    if record["finished_at"] < record["started_at"]:
        raise Invalid("finished_at: must not be before started_at", fields=["finished_at"])
    return record


def _validate_usage(record: LocalRecord) -> LocalRecord:
    if (record["cost"] is None) != (record["currency"] is None):
        raise Invalid("currency: required with a cost, and only then", fields=["currency"])
    if record["currency"] is not None:
        price.parse_currency(record["currency"])
    return {**record, "day": record["at"] // DAY}


def _validate_price(record: LocalRecord) -> LocalRecord:
    price.parse_model_pattern(record["model"])
    price.parse_currency(record["currency"])
    return record


def _validate_budget(record: LocalRecord) -> LocalRecord:
    price.parse_model_pattern(record["model"])
    if record["tokens"] is None and record["cost"] is None:
        raise Invalid("tokens: a budget needs tokens, a cost, or both", fields=["tokens", "cost"])
    if record["cost"] is not None or record["currency"] is not None:
        price.parse_currency(record["currency"] or "")
    return {**record, "id": derive_id("budget", record["principal"], record["model"], record["period"])}


def _validate_run(record: LocalRecord) -> LocalRecord:
    names = [phase["name"] for phase in record["phases"]]
    if len({*names}) < len(names):
        raise Invalid("phases: names must be unique", fields=["phases"])
    validate.foreign_json("inputs", record["inputs"])
    return record


def _validate_erasure(record: LocalRecord) -> LocalRecord:
    """Default `ordered_at` to `at`."""
    return {**record, "ordered_at": record["at"] if record["ordered_at"] is None else record["ordered_at"]}


LOCAL_TABLES: dict[str, LocalTable] = {
    one.array: one
    for one in (
        LocalTable(
            "conversations",
            "conversation",
            ConversationRow,
            ("id",),
            mutable=("state", "last_at", "closed_at", "turns", "covered", "summary", "pruned"),
            rank_columns=("last_at", "state", "covered", "pruned"),
            memory_column="summary",
            validate_record=_validate_conversation,
        ),
        LocalTable(
            "outcomes",
            "outcome",
            OutcomeRow,
            ("id",),
            mutable=("lesson", "archived_at"),
            rank_columns=("archived_at", "lesson"),
            memory_column="lesson",
        ),
        LocalTable(
            "tasks",
            "task",
            TaskRow,
            ("id",),
            mutable=(
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
            rank_columns=("updated_at",),
            local_columns={"owner": None, "claimed_at": None, "cancel_asked": False},
            validate_record=_validate_task,
        ),
        LocalTable("task_runs", "task_run", TaskRunRow, ("id",), validate_record=_validate_task_run),
        LocalTable(
            "usage",
            "usage",
            UsageRow,
            ("id",),
            local_columns={"day": 0, "state": "kept", "ends_at": None, "task": None, "outcome": None, "spent": None},
            money_columns=("cost",),
            validate_record=_validate_usage,
        ),
        LocalTable(
            "prices",
            "price",
            PriceRow,
            ("model", "since"),
            mutable=("currency", *price.KINDS, "set_by", "set_at"),
            rank_columns=("set_at",),
            money_columns=price.KINDS,
            validate_record=_validate_price,
        ),
        LocalTable(
            "budgets",
            "budget",
            BudgetRow,
            ("id",),
            mutable=("tokens", "cost", "currency", "set_by", "set_at"),
            rank_columns=("set_at",),
            local_columns={"id": ""},
            money_columns=("cost",),
            validate_record=_validate_budget,
        ),
        LocalTable(
            "runs",
            "run",
            RunRow,
            ("id",),
            mutable=("state", "token", "error", "phases", "updated_at"),
            rank_columns=("updated_at",),
            local_columns={"owner": None, "lease_until": None},
            validate_record=_validate_run,
        ),
        LocalTable(
            "provider_sessions",
            "provider_session",
            ProviderSessionRow,
            ("channel", "principal", "namespace"),
            mutable=("agent", "provider", "session", "expires_at", "created_at", "updated_at"),
            rank_columns=("updated_at",),
        ),
        LocalTable("onboarding", "onboarding", OnboardingRow, ("principal", "step"), mutable=("at", "agent")),
        LocalTable(
            "forgotten",
            "erased_person",
            ErasureRow,
            ("id",),
            mutable=("at", "agent", "counts", "ordered_at"),
            rank_columns=("at",),
            validate_record=_validate_erasure,
        ),
        LocalTable(
            "mined",
            "imported_statement",
            ImportRecordRow,
            ("key",),
            mutable=("memory", "utterance_digest", "digest", "text_digest"),
            memory_column="memory",
        ),
        LocalTable(
            "feedback",
            "recall_feedback",
            FeedbackRow,
            ("recall", "memory", "agent"),
            mutable=("verdict", "given_at"),
            rank_columns=("given_at",),
            memory_column="memory",
            requires_memory=True,
        ),
    )
}
"""In import order: referenced records come first."""

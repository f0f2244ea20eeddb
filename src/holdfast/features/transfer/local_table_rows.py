"""Envelope rows of local tables: conversations, tasks, costs, runs and outcomes.

A row contains the complete record, with times as text and exact money. Leases are omitted: a lease holds in one store,
and an imported record is free.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.features.conversations.onboarding import Step
from holdfast.features.recall.recall_log import Verdict
from holdfast.features.runs.phases import PhaseState, RunState
from holdfast.features.tasks.model import Handler, Status
from holdfast.features.tasks.model import State as TaskState
from holdfast.features.tasks.schedule import Misfire
from holdfast.features.transfer.schema_v1 import Count, Moment, RowId, Text
from holdfast.features.usage.price import Period

ShortText = Annotated[str, Meta(min_length=1, max_length=512)]
OptionalShortText = Annotated[str, Meta(max_length=512)]
LongText = Annotated[str, Meta(max_length=65_536)]
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Money = Annotated[str, Meta(min_length=1, max_length=40)]


class ConversationRow(Struct, frozen=True, kw_only=True):
    id: Text
    channel: OptionalShortText = ""
    principal: ShortText
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
    principal: ShortText
    agent_id: str
    namespace: str
    domain: ShortText
    score: Literal[-1, 0, 1]
    what: LongText
    source: OptionalShortText = ""
    lesson: Text | None = None
    archived_at: Moment | None = None


class TaskRow(Struct, frozen=True, kw_only=True):
    id: Annotated[Text, Meta(min_length=6)]
    principal: ShortText
    agent_id: str
    namespace: str
    channel: OptionalShortText = ""
    reply_to: OptionalShortText = ""
    title: Annotated[LongText, Meta(min_length=1)]
    kind: ShortText = "reminder"
    handler: Handler = "none"
    target: LongText = ""
    payload: dict[str, Any] = {}
    zone: ShortText = "UTC"
    first_at: Moment
    repeat: ShortText | None = None
    misfire: Misfire = "once"
    due_at: Moment
    ready_at: Moment | None = None
    state: TaskState
    attempts: Count = 0
    most_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    timeout: Annotated[int, Meta(ge=1, le=86_400)] = 300
    token: Count = 0
    last_error: LongText | None = None
    unique_key: ShortText | None = None
    created_at: Moment
    updated_at: Moment


class TaskRunRow(Struct, frozen=True, kw_only=True):
    id: Text
    task: Text
    due_at: Moment
    attempt: Count
    owner: OptionalShortText = ""
    token: Count = 0
    started_at: Moment
    finished_at: Moment
    status: Status
    final: bool
    result: LongText | None = None
    error: LongText | None = None
    tokens: Count | None = None


class UsageRow(Struct, frozen=True, kw_only=True):
    id: Text
    at: Moment
    principal: ShortText
    agent_id: str
    session: OptionalShortText = ""
    model: ShortText
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost: Money | None = None
    """None: there was no price for this model."""
    currency: OptionalShortText | None = None
    unique_key: ShortText | None = None


class PriceRow(Struct, frozen=True, kw_only=True):
    model: ShortText
    since: Moment
    currency: OptionalShortText
    input: Money | None = None
    output: Money | None = None
    cache_read: Money | None = None
    cache_write: Money | None = None
    set_by: str
    set_at: Moment


class BudgetRow(Struct, frozen=True, kw_only=True):
    principal: ShortText
    model: ShortText
    period: Period
    tokens: Count | None = None
    cost: Money | None = None
    currency: OptionalShortText | None = None
    set_by: str
    set_at: Moment


class PhaseRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown fields are rejected: there is no place to store them."""

    name: ShortText
    state: PhaseState
    attempt: Count
    output: Annotated[str, Meta(max_length=1 << 20)] | None = None
    error: LongText | None = None
    started_at: Moment | None = None
    updated_at: Moment


class RunRow(Struct, frozen=True, kw_only=True):
    id: Text
    principal: ShortText
    agent_id: str
    namespace: str
    topology: ShortText
    topology_hash: Hash
    inputs: dict[str, Any] = {}
    state: RunState
    token: Count = 0
    error: LongText | None = None
    phases: Annotated[list[PhaseRow], Meta(min_length=1, max_length=1000)]
    """In order."""
    created_at: Moment
    updated_at: Moment


class ProviderSessionRow(Struct, frozen=True, kw_only=True):
    channel: OptionalShortText = ""
    principal: ShortText
    namespace: str
    agent_id: str
    provider: ShortText
    session: ShortText
    expires_at: Moment | None = None
    created_at: Moment
    updated_at: Moment


class OnboardingRow(Struct, frozen=True, kw_only=True):
    principal: ShortText
    step: Step
    at: Moment
    agent_id: str


class ErasureRow(Struct, frozen=True, kw_only=True):
    id: RowId
    """A digest of a name, never the name."""
    at: Moment
    agent_id: str
    counts: dict[str, Count]
    ordered_at: Moment | None = None


class ImportRecordRow(Struct, frozen=True, kw_only=True):
    key: Text
    memory: Annotated[str, Meta(max_length=128)]
    route: Literal["mine", "capture"]
    said: Text | None = None
    digest: OptionalShortText
    text_digest: OptionalShortText


class FeedbackRow(Struct, frozen=True, kw_only=True):
    recall: Text
    memory: RowId
    agent_id: str
    verdict: Verdict
    given_at: Moment

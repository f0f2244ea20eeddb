"""Export envelope, version 1: its arrays, and the typed row of each.

Known fields become a typed row; unknown fields are stored and written again. record_rows.py converts records to rows.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.people.model import Decision, Texts
from holdfast.features.reflections.invalidation import Cause, Status
from holdfast.features.skills.model import MAX_FILES
from holdfast.kernel.errors import Invalid
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records import validate
from holdfast.kernel.records.fields import Count, Moment, RowId, Text
from holdfast.kernel.records.memory import Category, Scope, Tier
from holdfast.kernel.records.validate import MAX_IMPORT_DEPTH
from holdfast.kernel.timestamps import format_timestamp, parse_timestamp

SCHEMA = "v1"
DB_SCHEMA = 54
"""Schema of ai-memory with these fields; its readers accept 7 and later."""
MIN_DB_SCHEMA = 7
ARRAYS = (
    "memories",
    "archived",
    "agents",
    "entities",
    "links",
    "namespaces",
    "grants",
    "notices",
    "policies",
    "principals",
    "interactions",
    "invalidations",
    "skill_versions",
    "skills",
    "conversations",
    "outcomes",
    "tasks",
    "task_runs",
    "usage",
    "prices",
    "budgets",
    "runs",
    "provider_sessions",
    "onboarding",
    "forgotten",
    "mined",
    "feedback",
)
"""In import order: referenced records come first."""
HEADER_FIELDS = ("schema_version", "source", "exported_at", "db_schema_version", "count")
Version = Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]


class Row(Struct, frozen=True, kw_only=True):
    """Fields that Holdfast adds to every row."""

    updated_at: Moment | None = None
    version: Version = 1
    origin: Text | None = None


class SpanRow(Struct, frozen=True):
    start: int
    end: int


class CitationRow(Struct, frozen=True, omit_defaults=True):
    uri: str
    accessed_at: str
    hash: str | None = None
    span: SpanRow | None = None


class MemoryRow(Row, frozen=True, kw_only=True):
    id: RowId
    title: str
    content: str
    namespace: str | None = None
    tier: Tier = "long"
    """Without `expires_at` a memory never expires; an import does not compute one."""
    tags: list[str] | None = None
    priority: int = 5
    confidence: float = 1.0
    source: str = "import"
    access_count: Count = 0
    created_at: Moment | None = None
    last_accessed_at: Moment | None = None
    expires_at: Moment | None = None
    metadata: dict[str, Any] | None = None
    memory_kind: str = "observation"
    reflection_depth: Annotated[int, Meta(ge=0, le=MAX_IMPORT_DEPTH)] = 0
    citations: list[CitationRow] | None = None
    source_uri: str | None = None
    source_span: SpanRow | None = None
    category: Category | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    speaker: str | None | UnsetType = UNSET
    occurred_at: Moment | None | UnsetType = UNSET
    thread: str | None | UnsetType = UNSET
    place: Count | None | UnsetType = UNSET
    agent_id: str | None = None
    scope: Scope | None = None
    archive_reason: Text | None = None
    archived_at: Moment | None = None
    original_tier: Tier | None = None
    original_expires_at: Moment | None = None


class LinkRow(Row, frozen=True, kw_only=True):
    source_id: RowId
    target_id: RowId
    relation: Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"]
    created_at: Moment | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    observed_by: Text | None = None
    signature: Annotated[str, Meta(max_length=4096)] | None = None


class InvalidationRow(Row, frozen=True, kw_only=True):
    invalidated_id: RowId
    invalidating_id: RowId
    dependent_id: RowId
    hop: Annotated[int, Meta(ge=1, le=1_000_000)]
    cause: Cause
    status: Status
    reason: Text | None = None
    resolver: str | None = None
    created_at: Moment | None = None


class EntityRow(Row, frozen=True, kw_only=True):
    entity_id: RowId
    alias: str
    created_at: Moment | None = None


class AgentRow(Row, frozen=True, kw_only=True):
    agent_id: str
    agent_type: str
    capabilities: Annotated[list[Annotated[str, Meta(min_length=1, max_length=128)]], Meta(max_length=64)] = []
    registered_at: Moment | None = None


class PrincipalRow(Row, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    stands_for: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    display: Annotated[str, Meta(max_length=256)] = ""
    created_at: Moment | None = None


class InteractionRow(Row, frozen=True, kw_only=True):
    id: RowId
    namespace: str
    agent_id: str
    principal: str
    status: Decision
    at: Moment
    texts: Texts
    name: str = ""
    channel: str = ""
    action: str = ""
    reason: str = ""
    provider: str = ""
    model: str = ""
    took_ms: Count | None = None
    conversation: str = ""
    input: str | None = None
    output: str | None = None
    input_digest: str | None = None
    output_digest: str | None = None
    created_at: Moment | None = None


class NamespaceRow(Row, frozen=True, kw_only=True):
    namespace: str
    standard_id: RowId | None = None
    parent_namespace: str | None = None
    created_at: Moment | None = None


class GrantRow(Row, frozen=True, kw_only=True):
    memory_id: RowId
    agent_id: str
    permission: Literal["read", "write", "admin"]
    granted_by: str
    created_at: Moment | None = None


class PolicyRow(Row, frozen=True, kw_only=True):
    namespace: str
    rules: dict[str, Any]
    decided_by: str
    created_at: Moment | None = None


class SkillFileRow(Struct, frozen=True, kw_only=True):
    path: Annotated[str, Meta(min_length=1, max_length=512)]
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"


class SkillVersionRow(Row, frozen=True, kw_only=True):
    namespace: str
    name: str
    digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    registered_by: str
    files: Annotated[list[SkillFileRow], Meta(max_length=MAX_FILES)]
    signature: Annotated[str, Meta(pattern=r"\A[0-9a-f]{128}\Z")] | None = None
    created_at: Moment | None = None


class SkillRow(Row, frozen=True, kw_only=True):
    namespace: str
    name: str
    current: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    """Digest of the current version."""
    registered_by: str
    created_at: Moment | None = None


class NoticeRow(Struct, frozen=True, kw_only=True):
    id: RowId
    sender: str
    recipient: str
    title: str
    body: str
    created_at: Moment
    priority: Annotated[int, Meta(ge=1, le=10)] = 5
    metadata: dict[str, Any] = {}
    read_at: Moment | None = None


R = TypeVar("R", bound=Struct)


def must_be_envelope(envelope: dict[str, Any]) -> None:
    """Raise unless this is an envelope of version 1 or the simple form without a version."""
    version = envelope.get("schema_version", SCHEMA)
    if version != SCHEMA:
        raise Invalid(f"schema_version: must be {SCHEMA} (got {version!r})", fields=["schema_version"])
    schema = envelope.get("db_schema_version", DB_SCHEMA)
    if not isinstance(schema, int) or schema < MIN_DB_SCHEMA:
        raise Invalid(f"db_schema_version: must be at least {MIN_DB_SCHEMA}", fields=["db_schema_version"])
    if "memories" not in envelope:
        raise Invalid("memories: required; this is not an export", fields=["memories"])
    for array in ARRAYS:
        if not isinstance(envelope.get(array, []), list):
            raise Invalid(f"{array}: must be a list", fields=[array])


def read_row(type_: type[R], raw: Any) -> tuple[R, dict[str, Any]]:
    """Parse a row. Returns it with its unknown fields."""
    register_type(type_)
    try:
        row = msgspec.convert(raw, type_)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        field = where.strip(".`")
        raise Invalid(f"{field}: {what}" if field else what, fields=[field] if field else []) from None
    for name, value in raw.items():
        validate.foreign_json(validate.foreign_json("field", name), value)
    return row, {name: value for name, value in raw.items() if name not in type_.__struct_fields__}


def read_timestamp(text: str | None | UnsetType, field: str) -> int | None:
    return parse_timestamp(text, field) if isinstance(text, str) else None


def stamp_fields(record: Any) -> dict[str, Any]:
    return {
        "created_at": format_timestamp(record.created_at),
        "updated_at": format_timestamp(record.updated_at),
        "version": record.version,
        "origin": record.origin,
    }


def format_optional_time(at: int | None) -> str | None:
    return None if at is None else format_timestamp(at)

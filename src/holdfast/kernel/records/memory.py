"""The memory record."""

from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.tombstone import PURGED

Tier = Literal["short", "mid", "long"]
State = Literal["live", "archived", "deleted"]
Scope = Literal["private", "team", "unit", "org", "collective"]
Kind = Literal[
    "observation",
    "reflection",
    "persona",
    "concept",
    "entity",
    "claim",
    "relation",
    "event",
    "conversation",
    "decision",
    "fact",
    "lesson",
    "limitation",
    "summary",
]
Category = Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
OnConflict = Literal["error", "merge", "version"]

TIERS: tuple[Tier, ...] = get_args(Tier)
SOURCES = (
    "user",
    "nhi",
    "claude",
    "hook",
    "api",
    "cli",
    "import",
    "consolidation",
    "system",
    "chaos",
    "notify",
    "mcp",
    "library",
)


IMPORTED_FROM = "imported_from_agent_id"
"""Metadata key: original author of a memory that another agent imported into this store."""


class Citation(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Source of a claim."""

    uri: str
    accessed_at: str
    hash: str | None = None
    span: "Span | None" = None


class Span(Struct, frozen=True, forbid_unknown_fields=True):
    """A half-open range of bytes."""

    start: int
    end: int


class Memory(Struct, frozen=True):
    """One remembered item. Timestamps are in microseconds."""

    id: str
    namespace: str
    title: str
    content: str
    kind: Kind
    category: Category | None
    tier: Tier
    priority: int
    confidence: float
    source: str
    scope: Scope
    agent: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    citations: tuple[Citation, ...]
    source_uri: str | None
    source_span: Span | None
    reflection_depth: int
    valid_from: int | None
    valid_until: int | None
    speaker: str | None
    occurred_at: int | None
    thread: str | None
    place: int | None
    expires_at: int | None
    state: State
    reason: str | None
    created_at: int
    updated_at: int
    origin: str
    version: int
    extra: dict[str, Any]
    """Unknown fields of an import; exported again unchanged."""


MEMORY_MERGE_SCHEMA = MergeSchema(
    conflict_fields=(
        "namespace",
        "title",
        "content",
        "kind",
        "category",
        "scope",
        "citations",
        "source_uri",
        "source_span",
        "valid_from",
        "valid_until",
        "speaker",
        "occurred_at",
        "thread",
        "place",
        "state",
    ),
    max_fields=("reflection_depth",),
    lww_fields=("tier", "priority", "confidence", "expires_at", "reason"),
    set_fields=("tags",),
    map_fields=("metadata", "extra"),
    reviving_fields=("content", "title", "namespace"),
    local_keys=(f"extra:{IMPORTED_FROM}",),
)


def higher_tier(a: Tier, b: Tier) -> Tier:
    """Return the longer-lived of two tiers."""
    return max(a, b, key=TIERS.index)


def audience(memory: Memory) -> str:
    """Return the audience of a title: private memories collide only with private ones of the same agent."""
    return memory.agent if memory.scope == "private" else ""


def erase_memory(memory: Memory) -> Memory:
    """A memory without its content."""
    return replace(
        memory,
        title=f"purged {memory.id}",
        content="",
        state="deleted",
        reason=PURGED,
        tags=(),
        metadata={},
        citations=(),
        source_uri=None,
        source_span=None,
        speaker=None,
        thread=None,
        extra={},
    )

"""Export envelope, version 1: converts rows to records and back.

Known fields become a typed row; unknown fields are stored and written again. A value that is stored in a simpler form
(an unknown source or kind, a citation with unknown parts) also keeps its original form, until the simple form changes.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.access.interaction import Decision, Interaction, Texts
from holdfast.features.access.model import Agent, Grant
from holdfast.features.access.notice import Notice
from holdfast.features.graph.model import Alias
from holdfast.features.namespaces.model import Policy, Standard
from holdfast.features.people.principal import Principal
from holdfast.features.reflections.invalidation import Cause, Invalidation, Status
from holdfast.features.skills.model import MAX_FILES, Skill, SkillVersion
from holdfast.kernel.errors import Invalid
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records import validate
from holdfast.kernel.records.lifetime import Lifetimes
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import SOURCES, Category, Citation, Kind, Memory, Scope, Span, Tier
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.records.validate import MAX_IMPORT_DEPTH, Draft, memory_from_draft
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
MAX_EXTRA_BYTES = 262_144

Text = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,512}\Z")]
RowId = Annotated[str, Meta(pattern=r"\A(?!.*\.\.)[A-Za-z0-9_:.@-]{1,128}\Z")]
Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Version = Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]
Moment = Annotated[str, Meta(min_length=4, max_length=64)]


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


def parse_memory(
    raw: Any,
    state: Literal["live", "archived"],
    *,
    agent: str,
    namespace: str,
    origin: str,
    now: int,
    lifetimes: Lifetimes,
) -> tuple[Memory, tuple[int, int]]:
    """Parse and validate a memory and its access count. Missing fields get the importer's values."""
    row, rest = read_row(MemoryRow, raw)
    metadata = row.metadata or {}
    owner = metadata.get("agent_id") or row.agent_id or agent
    if not isinstance(owner, str):
        raise Invalid("metadata.agent_id: must be a string", fields=["metadata.agent_id"])
    draft = _draft(row, namespace)
    base = memory_from_draft(
        draft, id=row.id, agent=owner, origin=row.origin or origin, now=now, lifetimes=lifetimes, imported=True
    )
    created = _value_or(read_timestamp(row.created_at, "created_at"), now)
    updated = _value_or(read_timestamp(row.updated_at, "updated_at"), created)
    if state == "archived":
        updated, rest = _archive_time(row, updated, rest)
    memory = replace(
        base,
        tier=row.original_tier or row.tier,
        expires_at=read_timestamp(row.original_expires_at or row.expires_at, "expires_at"),
        state=state,
        reason=row.archive_reason,
        reflection_depth=row.reflection_depth,
        created_at=created,
        updated_at=updated,
        version=row.version,
        extra=_check_extra(rest | _original_forms(raw)),
    )
    return memory, (row.access_count, _value_or(read_timestamp(row.last_accessed_at, "last_accessed_at"), 0))


def _archive_time(row: MemoryRow, updated: int, rest: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Archiving counts as the last change. A different `updated_at` is stored as an extra field."""
    at = _value_or(read_timestamp(row.archived_at, "archived_at"), updated)
    return at, rest if at == updated else {**rest, "original_updated_at": row.updated_at}


def _value_or(value: int | None, default: int) -> int:
    return default if value is None else value


def _draft(row: MemoryRow, namespace: str) -> Draft:
    scope = row.scope if row.scope is not None and not (row.metadata or {}).get("scope") else UNSET
    return Draft(
        title=row.title,
        content=row.content,
        namespace=row.namespace or namespace,
        tier=row.tier,
        kind=_kind(row.memory_kind),
        category=row.category,
        priority=row.priority,
        confidence=row.confidence,
        source=_source(row.source),
        scope=scope,
        tags=tuple(row.tags or ()),
        metadata=row.metadata or {},
        citations=msgspec.convert(msgspec.to_builtins(row.citations or []), tuple[Citation, ...]),
        source_uri=row.source_uri,
        source_span=Span(row.source_span.start, row.source_span.end) if row.source_span else None,
        valid_from=read_timestamp(row.valid_from, "valid_from"),
        valid_until=read_timestamp(row.valid_until, "valid_until"),
        speaker=row.speaker,
        occurred_at=row.occurred_at if row.occurred_at is UNSET else read_timestamp(row.occurred_at, "occurred_at"),
        thread=row.thread,
        place=row.place,
    )


def _source(value: Any) -> str:
    return value if value in SOURCES else "import"


def _kind(value: Any) -> Kind:
    return value if value in get_args(Kind) else "observation"


def _citations(value: Any) -> Any:
    return msgspec.to_builtins(msgspec.convert(value or [], list[CitationRow]))


def _span(value: Any) -> Any:
    return msgspec.to_builtins(msgspec.convert(value, SpanRow | None))


_NORMALIZERS: dict[str, Callable[[Any], Any]] = {
    "source": _source,
    "memory_kind": _kind,
    "citations": _citations,
    "source_span": _span,
}
"""Fields that may lose detail when stored, and how they are simplified."""


def _original_forms(raw: dict[str, Any]) -> dict[str, Any]:
    """Original values of fields that are stored in a simpler form."""
    return {
        name: raw[name]
        for name, simpler in _NORMALIZERS.items()
        if raw.get(name) and canonical_json(simpler(raw[name])) != canonical_json(raw[name])
    }


def _check_extra(extra: dict[str, Any]) -> dict[str, Any]:
    if len(msgspec.json.encode(extra)) > MAX_EXTRA_BYTES:
        raise Invalid(f"unknown fields: must not exceed {MAX_EXTRA_BYTES} bytes as JSON")
    return extra


def memory_row(memory: Memory, used: tuple[int, int]) -> dict[str, Any]:
    """Convert a memory to an envelope row."""
    row = {
        "id": memory.id,
        "tier": memory.tier,
        "namespace": memory.namespace,
        "title": memory.title,
        "content": memory.content,
        "tags": list(memory.tags),
        "priority": memory.priority,
        "confidence": memory.confidence,
        "source": memory.source,
        "access_count": used[0],
        "last_accessed_at": _format_time(used[1] or None),
        "expires_at": _format_time(memory.expires_at),
        "metadata": {**memory.metadata, "agent_id": memory.agent, "scope": memory.scope},
        "memory_kind": memory.kind,
        "reflection_depth": memory.reflection_depth,
        "citations": msgspec.to_builtins(list(memory.citations)),
        "source_uri": memory.source_uri,
        "source_span": msgspec.to_builtins(memory.source_span),
        "category": memory.category,
        "valid_from": _format_time(memory.valid_from),
        "valid_until": _format_time(memory.valid_until),
        "speaker": memory.speaker,
        "occurred_at": _format_time(memory.occurred_at),
        "thread": memory.thread,
        "place": memory.place,
        **_stamps(memory),
    }
    if memory.state == "archived":
        row |= {
            "archived_at": row["updated_at"],
            "original_tier": memory.tier,
            "original_expires_at": row["expires_at"],
        }
    if memory.state == "archived" or memory.reason is not None:
        row["archive_reason"] = memory.reason
    return row | _first_forms(memory.extra, row)


def _first_forms(extra: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Extra fields, without original values whose simple form has changed since."""
    return {
        name: value
        for name, value in extra.items()
        if name not in _NORMALIZERS or _NORMALIZERS[name](value) == row[name]
    }


def _stamps(record: Any) -> dict[str, Any]:
    return {
        "created_at": format_timestamp(record.created_at),
        "updated_at": format_timestamp(record.updated_at),
        "version": record.version,
        "origin": record.origin,
    }


def _format_time(at: int | None) -> str | None:
    return None if at is None else format_timestamp(at)


def link_row(link: Link) -> dict[str, Any]:
    return {
        "source_id": link.source,
        "target_id": link.target,
        "relation": link.relation,
        "valid_from": format_timestamp(link.valid_from),
        "valid_until": _format_time(link.valid_until),
        "observed_by": link.agent,
        "signature": link.signature,
        **_stamps(link),
    }


def invalidation_row(one: Invalidation) -> dict[str, Any]:
    return {
        "invalidated_id": one.invalidated,
        "invalidating_id": one.invalidating,
        "dependent_id": one.dependent,
        "hop": one.hop,
        "cause": one.cause,
        "status": one.status,
        "reason": one.reason,
        "resolver": one.resolver,
        **_stamps(one),
    }


def entity_row(alias: Alias) -> dict[str, Any]:
    return {"entity_id": alias.entity, "alias": alias.name, **_stamps(alias)}


def agent_row(agent: Agent) -> dict[str, Any]:
    stamps = _stamps(agent)
    return {
        "agent_id": agent.id,
        "agent_type": agent.agent_type,
        "capabilities": list(agent.capabilities),
        "registered_at": stamps.pop("created_at"),
        **stamps,
    }


def principal_row(principal: Principal) -> dict[str, Any]:
    fields = {"name": principal.name, "stands_for": principal.stands_for, "display": principal.display}
    return {**fields, **_stamps(principal)}


def interaction_row(one: Interaction) -> dict[str, Any]:
    fields = {name: getattr(one, name) for name in _INTERACTION if getattr(one, name) not in (None, "")}
    return {"agent_id": one.agent, "at": format_timestamp(one.at), **fields, **_stamps(one)}


_INTERACTION = (
    "id",
    "namespace",
    "principal",
    "name",
    "channel",
    "action",
    "status",
    "reason",
    "provider",
    "model",
    "took_ms",
    "conversation",
    "texts",
    "input",
    "output",
    "input_digest",
    "output_digest",
)


def namespace_row(namespace: str, standard: Standard | None) -> dict[str, Any]:
    if standard is None:
        return {"namespace": namespace, "standard_id": None}
    return {
        "namespace": namespace,
        "standard_id": standard.memory,
        "parent_namespace": standard.parent,
        **_stamps(standard),
    }


def grant_row(grant: Grant) -> dict[str, Any]:
    return {
        "memory_id": grant.memory,
        "agent_id": grant.agent,
        "permission": grant.permission,
        "granted_by": grant.granted_by,
        **_stamps(grant),
    }


def policy_row(policy: Policy) -> dict[str, Any]:
    return {"namespace": policy.id, "rules": policy.rules, "decided_by": policy.agent, **_stamps(policy)}


def skill_version_row(version: SkillVersion, contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Convert a skill version with its file contents to a row."""
    return {
        "namespace": version.namespace,
        "name": version.name,
        "digest": version.digest,
        "registered_by": version.agent,
        "signature": version.signature,
        "files": [{"path": path, **encode_content(content)} for path, content in sorted(contents.items())],
        **_stamps(version),
    }


def encode_content(content: bytes) -> dict[str, str]:
    """Encode file content as text, or as base64 if it is not UTF-8."""
    try:
        return {"content": content.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"content": b64encode(content).decode(), "encoding": "base64"}


def decode_content(content: str, encoding: str, field: str = "files") -> bytes:
    """Decode file content."""
    try:
        return content.encode() if encoding == "utf-8" else b64decode(content, validate=True)
    except ValueError:
        raise Invalid(f"{field}: must be base64", fields=[field]) from None


def skill_row(skill: Skill, digest: str) -> dict[str, Any]:
    return {
        "namespace": skill.namespace,
        "name": skill.name,
        "current": digest,
        "registered_by": skill.agent,
        **_stamps(skill),
    }


def notice_row(notice: Notice) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(notice),
        "created_at": format_timestamp(notice.created_at),
        "read_at": _format_time(notice.read_at),
    }

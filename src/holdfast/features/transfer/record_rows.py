"""Convert records to rows of an envelope, and memories back.

A value of a memory that is stored in a simpler form (an unknown source or kind, a citation with unknown parts) also
keeps its original form, until the simple form changes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.access.model import Agent, Notice
from holdfast.features.graph.model import Alias
from holdfast.features.memories.grant import Grant
from holdfast.features.namespaces.model import Policy, Standard
from holdfast.features.people.model import Interaction, Principal
from holdfast.features.reflections.invalidation import Invalidation
from holdfast.features.skills.files import encode_content
from holdfast.features.skills.model import Skill, SkillVersion
from holdfast.features.transfer.schema_v1 import (
    CitationRow,
    MemoryRow,
    SpanRow,
    format_optional_time,
    read_row,
    read_timestamp,
    stamp_fields,
)
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import SOURCES, Citation, Kind, Memory, Span
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.records.validate import Draft, Lifetimes, memory_from_draft
from holdfast.kernel.timestamps import format_timestamp


def link_row(link: Link) -> dict[str, Any]:
    return {
        "source_id": link.source,
        "target_id": link.target,
        "relation": link.relation,
        "valid_from": format_timestamp(link.valid_from),
        "valid_until": format_optional_time(link.valid_until),
        "observed_by": link.agent,
        "signature": link.signature,
        **stamp_fields(link),
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
        **stamp_fields(one),
    }


def entity_row(alias: Alias) -> dict[str, Any]:
    return {"entity_id": alias.entity, "alias": alias.name, **stamp_fields(alias)}


def agent_row(agent: Agent) -> dict[str, Any]:
    stamps = stamp_fields(agent)
    return {
        "agent_id": agent.id,
        "agent_type": agent.agent_type,
        "capabilities": list(agent.capabilities),
        "registered_at": stamps.pop("created_at"),
        **stamps,
    }


def principal_row(principal: Principal) -> dict[str, Any]:
    fields = {"name": principal.name, "stands_for": principal.stands_for, "display": principal.display}
    return {**fields, **stamp_fields(principal)}


def interaction_row(one: Interaction) -> dict[str, Any]:
    fields = {name: getattr(one, name) for name in _INTERACTION if getattr(one, name) not in (None, "")}
    return {"agent_id": one.agent, "at": format_timestamp(one.at), **fields, **stamp_fields(one)}


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
        **stamp_fields(standard),
    }


def grant_row(grant: Grant) -> dict[str, Any]:
    return {
        "memory_id": grant.memory,
        "agent_id": grant.agent,
        "permission": grant.permission,
        "granted_by": grant.granted_by,
        **stamp_fields(grant),
    }


def policy_row(policy: Policy) -> dict[str, Any]:
    return {"namespace": policy.id, "rules": policy.rules, "decided_by": policy.agent, **stamp_fields(policy)}


def skill_version_row(version: SkillVersion, contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Convert a skill version with its file contents to a row."""
    return {
        "namespace": version.namespace,
        "name": version.name,
        "digest": version.digest,
        "registered_by": version.agent,
        "signature": version.signature,
        "files": [{"path": path, **encode_content(content)} for path, content in sorted(contents.items())],
        **stamp_fields(version),
    }


def skill_row(skill: Skill, digest: str) -> dict[str, Any]:
    return {
        "namespace": skill.namespace,
        "name": skill.name,
        "current": digest,
        "registered_by": skill.agent,
        **stamp_fields(skill),
    }


def notice_row(notice: Notice) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(notice),
        "created_at": format_timestamp(notice.created_at),
        "read_at": format_optional_time(notice.read_at),
    }


MAX_EXTRA_BYTES = 262_144


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
        "last_accessed_at": format_optional_time(used[1] or None),
        "expires_at": format_optional_time(memory.expires_at),
        "metadata": {**memory.metadata, "agent_id": memory.agent, "scope": memory.scope},
        "memory_kind": memory.kind,
        "reflection_depth": memory.reflection_depth,
        "citations": msgspec.to_builtins(list(memory.citations)),
        "source_uri": memory.source_uri,
        "source_span": msgspec.to_builtins(memory.source_span),
        "category": memory.category,
        "valid_from": format_optional_time(memory.valid_from),
        "valid_until": format_optional_time(memory.valid_until),
        "speaker": memory.speaker,
        "occurred_at": format_optional_time(memory.occurred_at),
        "thread": memory.thread,
        "place": memory.place,
        **stamp_fields(memory),
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

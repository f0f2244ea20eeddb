"""Convert records other than memories to rows of an envelope."""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.features.access.model import Agent, Notice
from holdfast.features.graph.model import Alias
from holdfast.features.memories.grant import Grant
from holdfast.features.namespaces.model import Policy, Standard
from holdfast.features.people.model import Interaction, Principal
from holdfast.features.reflections.invalidation import Invalidation
from holdfast.features.skills.files import encode_content
from holdfast.features.skills.model import Skill, SkillVersion
from holdfast.features.transfer.schema_v1 import format_optional_time, stamp_fields
from holdfast.kernel.records.link import Link
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

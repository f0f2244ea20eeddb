"""Import agents, principals, interactions, grants, notices, namespaces and policies."""

from typing import Any

import msgspec

from holdfast.features.access.model import AGENT, Agent
from holdfast.features.memories.grant import GRANT, Grant
from holdfast.features.namespaces.model import POLICY, STANDARD, Policy, Standard, validate_rules
from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.features.namespaces.service import normalize_namespace, require_standard_access
from holdfast.features.people import model as principals
from holdfast.features.people.model import INTERACTION, PRINCIPAL, Interaction, validate_interaction
from holdfast.features.transfer import schema_v1
from holdfast.features.transfer.import_state import ImportState
from holdfast.features.transfer.model import Outcome
from holdfast.features.transfer.schema_v1 import read_timestamp
from holdfast.kernel.context import validate_agent_id, validate_agent_type
from holdfast.kernel.records import validate
from holdfast.kernel.timestamps import derive_id


def import_agent(state: ImportState, raw: Any) -> Outcome:
    row, rest = state.read_row(schema_v1.AgentRow, raw)
    agent = Agent(
        id=validate_agent_id(row.agent_id),
        agent_type=validate_agent_type(row.agent_type),
        capabilities=tuple(row.capabilities),
        **state.read_times(row, row.registered_at),
    )
    known = state.write.get(AGENT, agent.id)
    return state.keep_extras("agents", agent.id, rest, state.put_record(AGENT, known, state.set_times(agent)))


def import_principal(state: ImportState, raw: Any) -> Outcome:
    state.must_reach_all("principals")
    row, rest = state.read_row(schema_v1.PrincipalRow, raw)
    name = principals.validate_name(row.name, "name")
    stands_for = None if row.stands_for is None else principals.validate_name(row.stands_for, "stands_for")
    principal = principals.Principal(
        id=principals.principal_id(name),
        name=name,
        stands_for=stands_for,
        display=row.display,
        **state.read_times(row, row.created_at),
    )
    known = state.write.get(PRINCIPAL, principal.id)
    return state.keep_extras(
        "principals", principal.id, rest, state.put_record(PRINCIPAL, known, state.set_times(principal))
    )


def import_interaction(state: ImportState, raw: Any) -> Outcome:
    """Import an interaction unchanged. An existing one is not modified."""
    state.must_trust("interactions")
    row, rest = state.read_row(schema_v1.InteractionRow, raw)
    fields = {name: getattr(row, name) for name in Interaction.__struct_fields__ if hasattr(row, name)}
    at = read_timestamp(row.at, "at")
    assert at is not None, "required in a row"
    fields |= {"agent": validate_agent_id(row.agent_id), "at": at, **state.read_times(row, row.created_at)}
    one = validate_interaction(Interaction(**fields))
    state.must_reach(one.namespace)
    if state.write.get(INTERACTION, one.id) is not None:
        return state.keep_extras("interactions", one.id, rest, "unchanged")
    return state.keep_extras("interactions", one.id, rest, state.put_record(INTERACTION, None, state.set_times(one)))


def import_grant(state: ImportState, raw: Any) -> Outcome:
    state.must_trust("grants")
    row, rest = state.read_row(schema_v1.GrantRow, raw)
    memory, agent = state.resolve_memory(row.memory_id, "memory_id"), validate_agent_id(row.agent_id)
    grant = Grant(
        id=derive_id("grant", memory, agent),
        memory=memory,
        agent=agent,
        permission=row.permission,
        granted_by=validate_agent_id(row.granted_by, "granted_by"),
        **state.read_times(row, row.created_at),
    )
    known = state.write.get(GRANT, grant.id)
    return state.keep_extras("grants", grant.id, rest, state.put_record(GRANT, known, state.set_times(grant)))


def import_notice(state: ImportState, raw: Any) -> Outcome:
    state.must_trust("notices")
    state.must_reach_all("notices")
    row, rest = state.read_row(schema_v1.NoticeRow, raw)
    session = state.write.session
    known = session.row("notice_get", id=row.id) is not None
    if not known:
        session.do(
            "notice_add",
            id=row.id,
            sender=validate_agent_id(row.sender, "sender"),
            recipient=validate_agent_id(row.recipient, "recipient"),
            title=validate.title(state.apply_secret_policy(EVERYWHERE, "title", row.title)),
            body=validate.content(state.apply_secret_policy(EVERYWHERE, "body", row.body)),
            priority=row.priority,
            metadata=msgspec.json.encode(
                state.apply_secret_policy(EVERYWHERE, "metadata", validate.metadata(row.metadata))
            ).decode(),
            created_at=read_timestamp(row.created_at, "created_at"),
            read_at=read_timestamp(row.read_at, "read_at"),
        )
    return state.keep_extras("notices", row.id, rest, "unchanged" if known else "imported")


def import_namespace(state: ImportState, raw: Any) -> Outcome:
    row, rest = state.read_row(schema_v1.NamespaceRow, raw)
    name = row.namespace if row.namespace == EVERYWHERE else validate.namespace(row.namespace)
    state.must_reach(name)
    if row.standard_id is None:
        unknown = {"parent_namespace": row.parent_namespace, "updated_at": row.updated_at}
        rest |= {field: value for field, value in unknown.items() if value is not None}
        return state.keep_extras("namespaces", name, rest, "unchanged")
    parent = row.parent_namespace if row.parent_namespace is None else validate.namespace(row.parent_namespace)
    if parent is not None and state.options.check_rights:
        state.must_reach(parent)
    standard = Standard(
        id=name,
        memory=state.resolve_memory(row.standard_id, "standard_id"),
        parent=parent,
        **state.read_times(row, row.created_at or row.updated_at),
    )
    known = state.write.get(STANDARD, name)
    if known is not None and state.options.check_rights:
        require_standard_access(state.ctx, state.write, known)
    return state.keep_extras("namespaces", name, rest, state.put_record(STANDARD, known, state.set_times(standard)))


def import_policy(state: ImportState, raw: Any) -> Outcome:
    state.must_trust("policies")
    row, rest = state.read_row(schema_v1.PolicyRow, raw)
    place = normalize_namespace(row.namespace)
    state.must_reach(place)
    policy = Policy(
        id=place,
        rules=validate_rules(row.rules),
        agent=validate_agent_id(row.decided_by, "decided_by"),
        **state.read_times(row, row.created_at),
    )
    known = state.write.get(POLICY, place)
    return state.keep_extras("policies", place, rest, state.put_record(POLICY, known, state.set_times(policy)))

"""Import records other than memories, row by row."""

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.features.access.model import AGENT, Agent
from holdfast.features.graph import service as graph
from holdfast.features.graph.depth import check_link
from holdfast.features.graph.model import ALIAS, Alias
from holdfast.features.memories.grant import GRANT, Grant
from holdfast.features.namespaces.model import POLICY, STANDARD, Policy, Standard, validate_rules
from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.features.namespaces.service import normalize_namespace, require_standard_access
from holdfast.features.people import model as principals
from holdfast.features.people.model import INTERACTION, PRINCIPAL, Interaction, validate_interaction
from holdfast.features.reflections.invalidation import INVALIDATION, Invalidation, invalidation_id
from holdfast.features.skills import file_contents
from holdfast.features.skills import service as skill_service
from holdfast.features.skills.files import decode_content, validate_files
from holdfast.features.skills.model import SKILL, SKILL_VERSION, Skill, skill_id, version_id
from holdfast.features.transfer import schema_v1
from holdfast.features.transfer.exporter import Row
from holdfast.features.transfer.import_state import ImportState, Outcome
from holdfast.features.transfer.local_table_rows import LocalRecord, RowFormat
from holdfast.features.transfer.schema_v1 import read_timestamp
from holdfast.kernel.context import RESERVED_AGENTS, validate_agent_id, validate_agent_type
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from holdfast.kernel.journal.kinds import LINK, MEMORY
from holdfast.kernel.records import validate
from holdfast.kernel.records.fields import Mark
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM
from holdfast.kernel.text.words import fold_name
from holdfast.kernel.timestamps import derive_id


def import_agent(state: ImportState, raw: Any) -> Outcome:
    row, rest = state.read_row(schema_v1.AgentRow, raw)
    agent = Agent(
        id=validate_agent_id(row.agent_id),
        agent_type=validate_agent_type(row.agent_type),
        capabilities=tuple(row.capabilities),
        **state.read_times(row, row.registered_at),
    )
    return state.save_record("agents", AGENT, agent, rest)


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
    return state.save_record("principals", PRINCIPAL, principal, rest)


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
    return state.save_record("grants", GRANT, grant, rest)


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
    return state.save_record("policies", POLICY, policy, rest)


def import_link(state: ImportState, raw: Any) -> Outcome:
    row, rest = state.read_row(schema_v1.LinkRow, raw)
    source, target = (
        state.resolve_writable(row.source_id, "source_id"),
        state.resolve_memory(row.target_id, "target_id"),
    )
    if source == target:
        raise Invalid("target_id: must differ from source_id", fields=["target_id"])
    times = state.read_times(row, row.created_at)
    valid_from = read_timestamp(row.valid_from, "valid_from")
    link = Link(
        id=graph.link_id(source, target, row.relation),
        source=source,
        target=target,
        relation=row.relation,
        valid_from=times["created_at"] if valid_from is None else valid_from,
        valid_until=read_timestamp(row.valid_until, "valid_until"),
        agent=state.ctx.caller.agent,
        **times,
    )
    known = state.write.get(LINK, link.id)
    link, rest = _set_observer(state, link, known, row, rest)
    timed = state.set_times(link)
    outcome = state.put_record(LINK, known, timed, lambda link: check_link(state.write, known, link, "taken in"))
    return state.keep_extras("links", link.id, rest, outcome)


def _set_observer(
    state: ImportState, link: Link, known: Link | None, row: schema_v1.LinkRow, rest: Row
) -> tuple[Link, Row]:
    """Set the observer of a link: from the file if it is trusted, else the importer.

    A signature is kept only with the exact link that it signs.
    """
    observer = _validate_observer(row.observed_by) if row.observed_by else link.agent
    if state.options.trust_source or observer == link.agent:
        return replace(link, agent=observer, signature=row.signature), rest
    if known is None:
        return link, {IMPORTED_FROM: observer, **rest}
    is_same = all(getattr(known, name) == getattr(link, name) for name in LINK.merge_schema.conflict_fields)
    return replace(link, signature=known.signature if is_same else None), rest


def import_invalidation(state: ImportState, raw: Any) -> Outcome:
    """Import a notice. Its source may be missing: deleted memories are not exported."""
    row, rest = state.read_row(schema_v1.InvalidationRow, raw)
    invalidated, invalidating = (state.merged_ids.get(id, id) for id in (row.invalidated_id, row.invalidating_id))
    dependent = state.resolve_writable(row.dependent_id, "dependent_id")
    one = Invalidation(
        id=invalidation_id(invalidated, invalidating, dependent),
        invalidated=invalidated,
        invalidating=invalidating,
        dependent=dependent,
        hop=row.hop,
        cause=row.cause,
        status=row.status,
        reason=None if row.reason is None else validate.label("reason", row.reason),
        resolver=None if row.resolver is None else _get_resolver(state, row.resolver),
        **state.read_times(row, row.created_at),
    )
    return state.save_record("invalidations", INVALIDATION, one, rest)


def _get_resolver(state: ImportState, agent: str) -> str:
    """Who resolved a notice: from the file if it is trusted, else the importer."""
    return validate_agent_id(agent, "resolver") if state.options.trust_source else state.ctx.caller.agent


def import_entity(state: ImportState, raw: Any) -> Outcome:
    row, rest = state.read_row(schema_v1.EntityRow, raw)
    entity = state.resolve_writable(row.entity_id, "entity_id")
    name = validate.title(state.apply_secret_policy(_namespace_of(state, entity), "alias", row.alias), "alias")
    alias = Alias(
        id=derive_id("alias", entity, fold_name(name)),
        entity=entity,
        name=name,
        folded=fold_name(name),
        **state.read_times(row, row.created_at),
    )
    return state.save_record("entities", ALIAS, alias, rest)


def _namespace_of(state: ImportState, id: str) -> str:
    memory = state.write.get(MEMORY, id)
    return EVERYWHERE if memory is None else memory.namespace


def _validate_observer(agent: str) -> str:
    """Validate an observer. Reserved names are allowed, since no right follows from them."""
    return agent if agent in RESERVED_AGENTS else validate_agent_id(agent, "observed_by")


def import_skill_version(state: ImportState, raw: Any) -> Outcome:
    """Import a skill version. Its files must match its digest."""
    row, rest = state.read_row(schema_v1.SkillVersionRow, raw)
    contents = validate_files((one.path, decode_content(one.content, one.encoding)) for one in row.files)
    version = skill_service.build_version(contents, None, validate.namespace(row.namespace), row.name)
    state.must_reach(version.namespace)
    if version.digest != row.digest:
        raise Invalid("digest: does not match the files", fields=["digest"])
    skill_service.reject_secrets(state.write.session, version.namespace, contents)
    times = {**state.read_times(row, row.created_at), "version": 1}
    version = replace(version, agent=_get_registrar(state, row.registered_by), signature=row.signature or "", **times)
    version = skill_service.ensure_signed(state.write, version)
    known = state.write.get(SKILL_VERSION, version.id)
    outcome: Outcome = "unchanged"
    if known is None or known.state == "deleted":
        file_contents.store_contents(state.write.session, {file.digest: contents[file.path] for file in version.files})
        skill_service.save_version(state.write, known, version, "import")
        outcome = "imported"
    return state.keep_extras("skill_versions", version.id, rest, outcome)


def import_skill(state: ImportState, raw: Any) -> Outcome:
    row, rest = state.read_row(schema_v1.SkillRow, raw)
    namespace = validate.namespace(row.namespace)
    state.must_reach(namespace)
    current = state.write.get(SKILL_VERSION, version_id(row.current))
    if current is None or (current.namespace, current.name) != (namespace, row.name):
        raise NotFound(f"current: unknown version of {row.name!r}.", fields=["current"])
    skill = Skill(
        id=skill_id(namespace, row.name),
        namespace=namespace,
        name=row.name,
        current=current.id,
        agent=_get_registrar(state, row.registered_by),
        **state.read_times(row, row.created_at),
    )
    return state.save_record("skills", SKILL, skill, rest)


def _get_registrar(state: ImportState, agent: str) -> str:
    """Who registered a skill: from the file if it is trusted, else the importer."""
    return validate_agent_id(agent, "registered_by") if state.options.trust_source else state.ctx.caller.agent


def import_local_row(state: ImportState, raw: Any, format: RowFormat) -> Outcome:
    """Add a record, or replace an older state of it. Raises before anything is written. These are not journalled."""
    row, rest = state.read_row(format.row_type, raw)
    local = format.from_row(row)
    record = _set_author(state, format, _map_memories(state, format, _check_namespace(state, format, local.record)))
    outcome = _import_record(state, format, local._replace(record=record))
    return state.keep_extras(format.export.array, format.row_id(record), rest, outcome)


def _import_record(state: ImportState, format: RowFormat, local: LocalRecord) -> Outcome:
    stored = format.get(state.write.session, local.record)
    if stored is None:
        _put(state, format, local)
        return "imported"
    author = format.author_column
    if not state.options.trust_source and author is not None:
        local = local._replace(record=replace(local.record, **{author: getattr(stored.record, author)}))
    return _replace_older(state, format, stored, local)


def _replace_older(state: ImportState, format: RowFormat, stored: LocalRecord, local: LocalRecord) -> Outcome:
    """Keep the later of two states of a record."""
    free, table, export = format.release(stored), format.table, format.export
    if free == local:
        return "unchanged"
    fixed = (name for name in table.columns if name not in table.mutable)
    if any(getattr(free.record, name) != getattr(local.record, name) for name in fixed):
        raise _make_conflict(format, "but it is a different record")
    if export.latest(local.record) <= export.latest(free.record):
        return "older"
    if export.is_leased(stored.record, state.write.now):
        raise Conflict(f"A record of {export.array} has a live lease here: import it again later.", retryable=True)
    if state.options.on_conflict == "error":
        raise _make_conflict(format, "with other contents")
    _put(state, format, local)
    return "merged"


def _put(state: ImportState, format: RowFormat, local: LocalRecord) -> None:
    session = state.write.session
    record = format.export.admit(session, local.record, state.options.trust_source)
    format.put(session, local._replace(record=record))


def _make_conflict(format: RowFormat, why: str) -> Conflict:
    return Conflict(f"A record of {format.export.array} with this key exists, {why}. Nothing was changed.")


def _check_namespace(state: ImportState, format: RowFormat, record: Any) -> Any:
    """Check that the importer can write here: by the namespace of the record, or of the one it belongs to."""
    caller, table = state.ctx.caller, format.table
    if format.has_namespace:
        record = replace(record, namespace=validate.namespace(record.namespace))
        caller.require_access(record.namespace)
    elif table.parent is not None:
        parent, column = table.parent
        owner = parent.get(state.write.session, id := getattr(record, column))
        if owner is None or not caller.can_access(owner.namespace):
            raise NotFound(f"{column}: there is no {parent.name} {id!r}.", id=id, fields=[column])
    elif "*" not in caller.namespaces and not table.memories:
        raise Forbidden(f"{format.export.array}: importing requires a key for all namespaces.")
    return record


def _map_memories(state: ImportState, format: RowFormat, record: Any) -> Any:
    """Map memory ids of the file to those of this store. A memory that the record belongs to must exist."""
    for column in format.table.has_mark(Mark.MEMORY):
        if id := getattr(record, column):
            is_owner = column in format.table.memories
            here = state.resolve_memory(id, column) if is_owner else state.merged_ids.get(id, id)
            record = replace(record, **{column: here})
    return record


def _set_author(state: ImportState, format: RowFormat, record: Any) -> Any:
    """Set the author: from the file if it is trusted, else the importer."""
    column = format.author_column
    if column is None:
        return record
    author = getattr(record, column)
    trusted_author = author if author in RESERVED_AGENTS else validate_agent_id(author, column)
    return replace(record, **{column: trusted_author if state.options.trust_source else state.ctx.caller.agent})

"""Import links, entities and invalidation notices."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.graph import service as graph
from holdfast.features.graph.depth import check_link
from holdfast.features.graph.model import ALIAS, Alias
from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.features.reflections.invalidation import INVALIDATION, Invalidation, invalidation_id
from holdfast.features.transfer import schema_v1
from holdfast.features.transfer.exporter import Row
from holdfast.features.transfer.import_state import ImportState
from holdfast.features.transfer.model import Outcome
from holdfast.features.transfer.schema_v1 import read_timestamp
from holdfast.kernel.context import RESERVED_AGENTS, validate_agent_id
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import LINK, MEMORY
from holdfast.kernel.records import validate
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM
from holdfast.kernel.text.words import fold_name
from holdfast.kernel.timestamps import derive_id


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
    known = state.write.get(INVALIDATION, one.id)
    return state.keep_extras("invalidations", one.id, rest, state.put_record(INVALIDATION, known, state.set_times(one)))


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
    known = state.write.get(ALIAS, alias.id)
    return state.keep_extras("entities", alias.id, rest, state.put_record(ALIAS, known, state.set_times(alias)))


def _namespace_of(state: ImportState, id: str) -> str:
    memory = state.write.get(MEMORY, id)
    return EVERYWHERE if memory is None else memory.namespace


def _validate_observer(agent: str) -> str:
    """Validate an observer. Reserved names are allowed, since no right follows from them."""
    return agent if agent in RESERVED_AGENTS else validate_agent_id(agent, "observed_by")

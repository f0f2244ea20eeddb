"""Export a store as one v1 envelope. An import restores it without loss."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.features.access.agents import notice_of
from holdfast.features.access.model import AGENT
from holdfast.features.graph.model import ALIAS
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.grant import GRANT
from holdfast.features.namespaces.model import POLICY, STANDARD
from holdfast.features.people import interactions
from holdfast.features.people.model import INTERACTION, PRINCIPAL
from holdfast.features.reflections.invalidation import INVALIDATION, Invalidation
from holdfast.features.skills import file_contents
from holdfast.features.skills import read_skills as skills
from holdfast.features.skills.model import SkillVersion
from holdfast.features.transfer import record_rows, schema_v1
from holdfast.features.transfer.local_table_rows import RowFormat, list_formats
from holdfast.kernel.context import Context, is_under
from holdfast.kernel.journal.kinds import LINK, Kind, load_memory
from holdfast.kernel.records import validate
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import format_timestamp
from holdfast.version import __version__

PAGE_ROWS = 500
Row = dict[str, Any]
_MEMORY_ARRAYS: tuple[tuple[str, Kind[Any], Callable[[Any], Row], Callable[[Any], set[str]]], ...] = (
    ("links", LINK, record_rows.link_row, lambda link: {link.source, link.target}),
    ("entities", ALIAS, record_rows.entity_row, lambda alias: {alias.entity}),
    ("grants", GRANT, record_rows.grant_row, lambda grant: {grant.memory}),
)
"""Records that belong to memories: array, kind, row builder, ids of those memories."""


def export_envelope(ctx: Context, session: Session, under: str | None = None) -> Row:
    """Export everything within the caller's reach, private memories included. Equal stores give equal text.

    History and keys are not exported; a backup has them.
    """
    fields = export_rows(ctx, session, under)
    return _sort_keys({name: list(value) if isinstance(value, Iterator) else value for name, value in fields.items()})


def export_rows(ctx: Context, session: Session, under: str | None = None) -> Row:
    """Fields of an export. Arrays are iterators that read the store lazily."""
    whole = under is None and "*" in ctx.caller.namespaces
    extras, scope = ExtraFields(session), _find_scope(ctx, session, under)
    fields = {
        "schema_version": schema_v1.SCHEMA,
        "source": f"holdfast-v{__version__}",
        "exported_at": format_timestamp(ctx.now())[:-4] + "Z",
        "db_schema_version": schema_v1.DB_SCHEMA,
        "memories": (row for row in _memory_rows(ctx, session, under) if "archived_at" not in row),
        "archived": (row for row in _memory_rows(ctx, session, under) if "archived_at" in row),
        **_memory_arrays(ctx, session, extras, scope),
        "agents": _make_rows(
            extras,
            "agents",
            record_rows.agent_row,
            (agent for agent in _records(session, AGENT) if whole or agent.id in scope.owners),
        ),
        "namespaces": _namespace_rows(ctx, session, under, scope, extras),
        "notices": _make_rows(
            extras,
            "notices",
            record_rows.notice_row,
            (notice_of(row) for row in _pages(session, "notice_all")) if whole else iter(()),
        ),
        "policies": _make_rows(
            extras,
            "policies",
            record_rows.policy_row,
            (one for one in _records(session, POLICY) if _is_in_scope(ctx, one.id, under)),
        ),
        "principals": _make_rows(
            extras, "principals", record_rows.principal_row, _records(session, PRINCIPAL) if whole else iter(())
        ),
        "interactions": _make_rows(
            extras,
            "interactions",
            record_rows.interaction_row,
            (
                one
                for one in _records(session, INTERACTION)
                if interactions.may_see(session, ctx.caller, one) and _is_in_scope(ctx, one.namespace, under)
            ),
        ),
        **_skills(ctx, session, under, extras),
        **{
            name: _local_table_rows(ctx, session, under, extras, scope, format)
            for name, format in list_formats().items()
        },
    }
    return {**_unknown_fields(fields, extras), **fields} if whole else fields


class ExportScope(NamedTuple):
    """Exported memories with their owners and namespaces."""

    ids: set[str]
    owners: set[str]
    namespaces: set[str]


def _find_scope(ctx: Context, session: Session, under: str | None) -> ExportScope:
    scope = ExportScope(set(), set(), set())
    for row in _memory_rows(ctx, session, under):
        scope.ids.add(row["id"])
        scope.owners.add(row["metadata"]["agent_id"])
        scope.namespaces.add(row["namespace"])
    return scope


def _is_in_scope(ctx: Context, namespace: str, under: str | None) -> bool:
    return ctx.caller.can_access(namespace) and (under is None or is_under(namespace, under))


def _make_rows(
    extras: "ExtraFields", array: str, row_of: Callable[[Any], Row], records: Iterator[Any]
) -> Iterator[Row]:
    return (extras.add_to(array, one.id, row_of(one)) for one in records)


def _memory_arrays(
    ctx: Context, session: Session, extras: "ExtraFields", scope: ExportScope
) -> dict[str, Iterator[Row]]:
    """Arrays of records that belong to exported memories."""
    arrays = {
        name: _make_rows(extras, name, row_of, _find_belonging(session, kind, ends, scope))
        for name, kind, row_of, ends in _MEMORY_ARRAYS
    }
    invalidations = _invalidations(ctx, session, scope.ids)
    return arrays | {
        "invalidations": _make_rows(extras, "invalidations", record_rows.invalidation_row, iter(invalidations))
    }


def _find_belonging(
    session: Session, kind: Kind[Any], ends: Callable[[Any], set[str]], scope: ExportScope
) -> Iterator[Any]:
    return (one for one in _records(session, kind) if ends(one) <= scope.ids)


def _local_table_rows(
    ctx: Context, session: Session, under: str | None, extras: "ExtraFields", scope: ExportScope, format: RowFormat
) -> Iterator[Row]:
    """Rows of a local table, by namespace or by memory; other tables only in a full export."""
    whole, table = under is None and "*" in ctx.caller.namespaces, format.table

    def is_exported(record: Any) -> bool:
        if table.memories:
            return getattr(record, table.memories[0]) in scope.ids
        return whole or _is_in_scope(ctx, _namespace_of(session, format, record), under)

    if whole or table.memories or format.has_namespace or table.parent is not None:
        for local in format.list_records(session):
            if is_exported(local.record):
                yield extras.add_to(format.export.array, format.row_id(local.record), format.to_row(local))


def _namespace_of(session: Session, format: RowFormat, record: Any) -> str:
    """Namespace of a record, or of the one it belongs to."""
    if format.table.parent is not None:
        parent, column = format.table.parent
        record = parent.get(session, getattr(record, column))
    return str(record.namespace)


def _unknown_fields(fields: Row, extras: "ExtraFields") -> Row:
    """Envelope fields of other programs. If such a field is a known array today, its rows follow ours."""
    for name, rows in (unknown := extras.list_top_level()).items():
        if name in fields and isinstance(rows, list) and isinstance(fields[name], Iterator):
            fields[name] = _append_others(fields[name], rows)
    return {name: value for name, value in unknown.items() if name not in fields}


def _append_others(own: Iterator[Row], others: list[Row]) -> Iterator[Row]:
    """Own rows, then the other rows that are not among them."""
    remaining = {canonical_json(row): row for row in others}
    for row in own:
        remaining.pop(canonical_json(row), None)
        yield row
    yield from remaining.values()


def simplify(exported: Row) -> Row:
    """Reduce an export to live memories and the links between them."""
    ids = {row["id"] for row in exported["memories"]}
    return {
        "count": len(ids),
        "exported_at": exported["exported_at"],
        "links": [link for link in exported["links"] if {link["source_id"], link["target_id"]} <= ids],
        "memories": exported["memories"],
    }


def _sort_keys(value: Row) -> Row:
    """Sort the keys of all objects, at every depth."""
    return dict(msgspec.to_builtins(value, order="sorted"))


class ExtraFields:
    """Unknown fields of imported rows, by row, written again on export."""

    def __init__(self, session: Session) -> None:
        self._fields: dict[str, Any] = {name: msgspec.json.decode(body) for name, body in session.rows("meta_list")}

    def add_to(self, array: str, id: str, row: Row) -> Row:
        """Add the unknown fields to a row."""
        return {**self._fields.get(make_extra_key(array, id), {}), **row}

    def list_top_level(self) -> Row:
        """Unknown top-level fields of an envelope."""
        return {name[1:]: value for name, value in self._fields.items() if name.startswith("/")}

    def list_ids(self, array: str) -> set[str]:
        return {name.partition("/")[2] for name in self._fields if name.startswith(f"{array}/")}


def make_extra_key(array: str, id: str) -> str:
    """Key of the unknown fields of a row; a top-level field has an empty array name."""
    return f"{array}/{id}"


def _memory_rows(ctx: Context, session: Session, under: str | None) -> Iterator[Row]:
    """Rows of all memories that are not deleted, by id, expired ones included."""
    parts, params = memories.namespace_clauses(ctx.caller)
    if under is not None:
        parts, params = [*parts, "memory.under"], params | {"under": validate.namespace(under)}
    after, done = "", 0
    while page := session.select(
        ("memory_select", *parts, "transfer.page"), params | {"after": after, "limit": PAGE_ROWS}
    ):
        uses = memories.read_access_counts(session, [row[0] for row in page])
        for row in page:
            yield record_rows.memory_row(load_memory(row), uses.get(row[0], (0, 0)))
        after, done = page[-1][0], done + len(page)
        ctx.progress(done, done, "exporting")


def _invalidations(ctx: Context, session: Session, exported_ids: set[str]) -> list[Invalidation]:
    """Invalidation notices of exported memories whose sources are within the caller's reach."""
    found = [one for one in _records(session, INVALIDATION) if one.dependent in exported_ids]
    if "*" in ctx.caller.namespaces:
        return found
    parts, params = memories.namespace_clauses(ctx.caller)
    source_ids = sorted({id for one in found for id in (one.invalidated, one.invalidating)})
    visible = {row[0] for row in session.select(("memory_ids", *parts, "memory.some"), params | {"ids": source_ids})}
    return [one for one in found if {one.invalidated, one.invalidating} <= visible]


def _records(session: Session, kind: Kind[Any]) -> Iterator[Any]:
    """Records of a kind that are not deleted, by id."""
    found = (kind.load(row) for row in _pages(session, f"{kind.name}_all"))
    return (record for record in found if record.state == "live")


def _pages(session: Session, statement: str) -> Iterator[Any]:
    after = ""
    while page := session.rows(statement, after=after, limit=PAGE_ROWS):
        yield from page
        after = page[-1][0]


def _namespace_rows(
    ctx: Context, session: Session, under: str | None, scope: ExportScope, extras: ExtraFields
) -> Iterator[Row]:
    """Namespaces with a memory, a standard or unknown fields."""
    standards = {standard.id: standard for standard in _records(session, STANDARD) if standard.memory in scope.ids}
    names = scope.namespaces | standards.keys()
    if under is None:
        names |= {name for name in extras.list_ids("namespaces") if ctx.caller.can_access(name)}
    defaults = {"parent_namespace": None, "updated_at": None}
    return (
        {**defaults, **extras.add_to("namespaces", name, record_rows.namespace_row(name, standards.get(name)))}
        for name in sorted(names)
    )


def _skills(ctx: Context, session: Session, under: str | None, extras: ExtraFields) -> dict[str, Iterator[Row]]:
    """Current skills and all their versions with file contents, read lazily."""
    current_skills = list(skills.iterate_versions(session, ctx.caller, under))
    versions = {one.version.id: one.version for one in current_skills}
    by_id = {one.skill.id: one.skill for one in current_skills}

    def version_row(version: SkillVersion) -> Row:
        return record_rows.skill_version_row(
            version, {file.path: file_contents.read_content(session, file) for file in version.files}
        )

    return {
        "skill_versions": _make_rows(extras, "skill_versions", version_row, iter(versions.values())),
        "skills": _make_rows(
            extras,
            "skills",
            lambda one: record_rows.skill_row(one, versions[one.current].digest),
            iter(sorted(by_id.values(), key=lambda skill: skill.id)),
        ),
    }

"""Export a store as one v1 envelope. An import restores it without loss."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.features.access import interaction_store as interactions
from holdfast.features.access.agents import notice_of
from holdfast.features.access.interaction import INTERACTION
from holdfast.features.access.model import AGENT, GRANT
from holdfast.features.graph.model import ALIAS
from holdfast.features.memories import store as memories
from holdfast.features.namespaces.model import POLICY, STANDARD
from holdfast.features.people.principal import PRINCIPAL
from holdfast.features.reflections.invalidation import INVALIDATION, Invalidation
from holdfast.features.skills import store as skills
from holdfast.features.skills.model import SkillVersion
from holdfast.features.transfer import local_tables as ledgers
from holdfast.features.transfer import schema_v1 as envelope
from holdfast.features.transfer.local_table_rows import LEDGERS, Kept, Ledger
from holdfast.kernel.caller import under as within
from holdfast.kernel.context import Hold
from holdfast.kernel.journal.kinds import LINK, Kind, memory_of
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.merge import canonical
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import to_text
from holdfast.version import __version__

PAGE = 500
Row = dict[str, Any]

_AROUND: tuple[tuple[str, Kind[Any], Callable[[Any], Row], Callable[[Any], set[str]]], ...] = (
    ("links", LINK, envelope.link_row, lambda link: {link.source, link.target}),
    ("entities", ALIAS, envelope.entity_row, lambda alias: {alias.entity}),
    ("grants", GRANT, envelope.grant_row, lambda grant: {grant.memory}),
)
"""Records that belong to memories: array, kind, row builder, ids of those memories."""


def export(hold: Hold, session: Session, under: str | None = None) -> Row:
    """Export everything within the caller's reach, private memories included. Equal stores give equal text.

    History and keys are not exported; a backup has them.
    """
    fields = told(hold, session, under)
    return _sorted({name: list(value) if isinstance(value, Iterator) else value for name, value in fields.items()})


def told(hold: Hold, session: Session, under: str | None = None) -> Row:
    """Fields of an export. Arrays are iterators that read the store lazily."""
    whole = under is None and "*" in hold.caller.namespaces
    extras, scope = Beside(session), _held(hold, session, under)
    fields = {
        "schema_version": envelope.SCHEMA,
        "source": f"holdfast-v{__version__}",
        "exported_at": to_text(hold.now())[:-4] + "Z",
        "db_schema_version": envelope.DB_SCHEMA,
        "memories": (row for row in _memory_rows(hold, session, under) if "archived_at" not in row),
        "archived": (row for row in _memory_rows(hold, session, under) if "archived_at" in row),
        **_around(hold, session, extras, scope),
        "agents": _rows(
            extras,
            "agents",
            envelope.agent_row,
            (agent for agent in _records(session, AGENT) if whole or agent.id in scope.owners),
        ),
        "namespaces": _namespace_rows(hold, session, under, scope, extras),
        "notices": _rows(
            extras,
            "notices",
            envelope.notice_row,
            (notice_of(row) for row in _pages(session, "notice_all")) if whole else iter(()),
        ),
        "policies": _rows(
            extras,
            "policies",
            envelope.policy_row,
            (one for one in _records(session, POLICY) if _within(hold, one.id, under)),
        ),
        "principals": _rows(
            extras, "principals", envelope.principal_row, _records(session, PRINCIPAL) if whole else iter(())
        ),
        "interactions": _rows(
            extras,
            "interactions",
            envelope.interaction_row,
            (
                one
                for one in _records(session, INTERACTION)
                if interactions.may_see(session, hold.caller, one) and _within(hold, one.namespace, under)
            ),
        ),
        **_skills(hold, session, under, extras),
        **{name: _ledger_rows(hold, session, under, extras, scope, ledger) for name, ledger in LEDGERS.items()},
    }
    return {**_kept_before(fields, extras), **fields} if whole else fields


class Held(NamedTuple):
    """Exported memories with their owners and namespaces."""

    ids: set[str]
    owners: set[str]
    namespaces: set[str]


def _held(hold: Hold, session: Session, under: str | None) -> Held:
    scope = Held(set(), set(), set())
    for row in _memory_rows(hold, session, under):
        scope.ids.add(row["id"])
        scope.owners.add(row["metadata"]["agent_id"])
        scope.namespaces.add(row["namespace"])
    return scope


def _within(hold: Hold, namespace: str, under: str | None) -> bool:
    return hold.caller.reaches(namespace) and (under is None or within(namespace, under))


def _rows(beside: "Beside", array: str, row_of: Callable[[Any], Row], records: Iterator[Any]) -> Iterator[Row]:
    return (beside.added(array, one.id, row_of(one)) for one in records)


def _around(hold: Hold, session: Session, beside: "Beside", held: Held) -> dict[str, Iterator[Row]]:
    """Arrays of records that belong to exported memories."""
    arrays = {
        name: _rows(beside, name, row_of, _belonging(session, kind, ends, held)) for name, kind, row_of, ends in _AROUND
    }
    invalidations = _invalidations(hold, session, held.ids)
    return arrays | {"invalidations": _rows(beside, "invalidations", envelope.invalidation_row, iter(invalidations))}


def _belonging(session: Session, kind: Kind[Any], ends: Callable[[Any], set[str]], held: Held) -> Iterator[Any]:
    return (one for one in _records(session, kind) if ends(one) <= held.ids)


def _ledger_rows(
    hold: Hold, session: Session, under: str | None, beside: "Beside", held: Held, ledger: Ledger
) -> Iterator[Row]:
    """Rows of a local table, by namespace or by memory; other tables only in a full export."""
    whole = under is None and "*" in hold.caller.namespaces

    def is_told(kept: Kept) -> bool:
        if ledger.belongs:
            return kept["memory"] in held.ids
        return whole or _within(hold, _place_of(session, ledger, kept), under)

    if whole or ledger.belongs or ledger.placed or ledger is LEDGERS["task_runs"]:
        for kept in ledgers.every(session, ledger):
            if is_told(kept) and kept.get("state") != "reserved":
                yield beside.added(ledger.array, name_of(ledger, kept), ledger.row(kept))


def _place_of(session: Session, ledger: Ledger, kept: Kept) -> str:
    """Namespace of a record; a task run has that of its task."""
    if ledger.placed:
        return str(kept["namespace"])
    task = ledgers.get(session, LEDGERS["tasks"], (kept["task"],))
    assert task is not None, "a task run has a task"
    return str(task["namespace"])


def name_of(ledger: Ledger, kept: Kept) -> str:
    """Id of a record in an envelope."""
    key = ledger.id_of(kept)
    return str(key[0]) if len(key) == 1 else canonical(list(key)).decode()


def _kept_before(fields: Row, beside: "Beside") -> Row:
    """Envelope fields of other programs. If such a field is a known array today, its rows follow ours."""
    for name, rows in (unknown := beside.top()).items():
        if name in fields and isinstance(rows, list) and isinstance(fields[name], Iterator):
            fields[name] = _with_others(fields[name], rows)
    return {name: value for name, value in unknown.items() if name not in fields}


def _with_others(own: Iterator[Row], others: list[Row]) -> Iterator[Row]:
    """Own rows, then the other rows that are not among them."""
    remaining = {canonical(row): row for row in others}
    for row in own:
        remaining.pop(canonical(row), None)
        yield row
    yield from remaining.values()


def simple(exported: Row) -> Row:
    """Reduce an export to live memories and the links between them."""
    ids = {row["id"] for row in exported["memories"]}
    return {
        "count": len(ids),
        "exported_at": exported["exported_at"],
        "links": [link for link in exported["links"] if {link["source_id"], link["target_id"]} <= ids],
        "memories": exported["memories"],
    }


def _sorted(value: Row) -> Row:
    """Sort the keys of all objects, at every depth."""
    return dict(msgspec.to_builtins(value, order="sorted"))


class Beside:
    """Unknown fields of imported rows, by row, written again on export."""

    def __init__(self, session: Session) -> None:
        self._said: dict[str, Any] = {name: msgspec.json.decode(body) for name, body in session.rows("kept_all")}

    def added(self, array: str, id: str, row: Row) -> Row:
        """Add the unknown fields to a row."""
        return {**self._said.get(place(array, id), {}), **row}

    def top(self) -> Row:
        """Unknown top-level fields of an envelope."""
        return {name[1:]: value for name, value in self._said.items() if name.startswith("/")}

    def ids(self, array: str) -> set[str]:
        return {name.partition("/")[2] for name in self._said if name.startswith(f"{array}/")}


def place(array: str, id: str) -> str:
    """Key of the unknown fields of a row; a top-level field has an empty array name."""
    return f"{array}/{id}"


def _memory_rows(hold: Hold, session: Session, under: str | None) -> Iterator[Row]:
    """Rows of all memories that are not deleted, by id, expired ones included."""
    parts, params = memories.reached(hold.caller)
    if under is not None:
        parts, params = [*parts, "memory.under"], params | {"under": door.namespace(under)}
    after, done = "", 0
    while page := session.assembled(
        ("memory_select", *parts, "transfer.page"), params | {"after": after, "limit": PAGE}
    ):
        uses = memories.uses(session, [row[0] for row in page])
        for row in page:
            yield envelope.memory_row(memory_of(row), uses.get(row[0], (0, 0)))
        after, done = page[-1][0], done + len(page)
        hold.progress(done, done, "exporting")


def _invalidations(hold: Hold, session: Session, held: set[str]) -> list[Invalidation]:
    """Invalidation notices of exported memories whose sources are within the caller's reach."""
    found = [one for one in _records(session, INVALIDATION) if one.dependent in held]
    if "*" in hold.caller.namespaces:
        return found
    parts, params = memories.reached(hold.caller)
    source_ids = sorted({id for one in found for id in (one.invalidated, one.invalidating)})
    visible = {row[0] for row in session.assembled(("memory_ids", *parts, "memory.some"), params | {"ids": source_ids})}
    return [one for one in found if {one.invalidated, one.invalidating} <= visible]


def _records(session: Session, kind: Kind[Any]) -> Iterator[Any]:
    """Records of a kind that are not deleted, by id."""
    found = (kind.load(row) for row in _pages(session, f"{kind.name}_all"))
    return (record for record in found if record.state == "live")


def _pages(session: Session, statement: str) -> Iterator[Any]:
    after = ""
    while page := session.rows(statement, after=after, limit=PAGE):
        yield from page
        after = page[-1][0]


def _namespace_rows(hold: Hold, session: Session, under: str | None, held: Held, beside: Beside) -> Iterator[Row]:
    """Namespaces with a memory, a standard or unknown fields."""
    standards = {standard.id: standard for standard in _records(session, STANDARD) if standard.memory in held.ids}
    names = held.namespaces | standards.keys()
    if under is None:
        names |= {name for name in beside.ids("namespaces") if hold.caller.reaches(name)}
    defaults = {"parent_namespace": None, "updated_at": None}
    return (
        {**defaults, **beside.added("namespaces", name, envelope.namespace_row(name, standards.get(name)))}
        for name in sorted(names)
    )


def _skills(hold: Hold, session: Session, under: str | None, beside: Beside) -> dict[str, Iterator[Row]]:
    """Current skills and all their versions with file contents, read lazily."""
    current_skills = list(skills.every(session, hold.caller, under))
    versions = {one.version.id: one.version for one in current_skills}
    by_id = {one.skill.id: one.skill for one in current_skills}

    def said(version: SkillVersion) -> Row:
        return envelope.skill_version_row(version, {file.path: skills.content(session, file) for file in version.files})

    return {
        "skill_versions": _rows(beside, "skill_versions", said, iter(versions.values())),
        "skills": _rows(
            beside,
            "skills",
            lambda one: envelope.skill_row(one, versions[one.current].digest),
            iter(sorted(by_id.values(), key=lambda skill: skill.id)),
        ),
    }

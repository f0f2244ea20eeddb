"""Read skills, and check what is stored of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.features.memories.read_memories import namespace_clauses
from holdfast.features.skills.model import SKILL, SKILL_VERSION, Skill, SkillVersion, skill_id
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import AmbiguousId, NotFound
from holdfast.kernel.journal.journal import Entry
from holdfast.kernel.storage.port import Row, Session, SqlPart

PAGE_SIZE = 500
VERSION_COLUMNS = len(SkillVersion.__struct_fields__)


class SkillEntry(NamedTuple):
    """A skill version and its skill."""

    version: SkillVersion
    skill: Skill

    @property
    def is_current(self) -> bool:
        return self.skill.state == "live" and self.skill.current == self.version.id


def entry_of(row: Row) -> SkillEntry:
    return SkillEntry(SKILL_VERSION.load(row[:VERSION_COLUMNS]), SKILL.load(row[VERSION_COLUMNS:]))


def find_versions(
    session: Session, caller: Caller, parts: Iterable[SqlPart], params: Mapping[str, Any]
) -> list[SkillEntry]:
    """Select versions in the caller's namespaces by SQL clauses."""
    reach, where = namespace_clauses(caller)
    return [entry_of(row) for row in session.select(("skill_with_version", *reach, *parts), {**where, **params})]


def list_current(session: Session, caller: Caller, under: str | None, *, limit: int) -> list[SkillEntry]:
    """List the current versions by name."""
    return find_versions(
        session,
        caller,
        ("skill.current", *_under_clause(under), "skill.in_order"),
        _under_params(under) | {"limit": limit},
    )


def list_page(session: Session, caller: Caller, after: str, *, limit: int) -> list[SkillEntry]:
    """List the current versions by id, after a given id."""
    return find_versions(session, caller, ("skill.current", "skill.after"), {"after": after, "limit": limit})


def iterate_versions(session: Session, caller: Caller, under: str | None) -> Iterator[SkillEntry]:
    """Iterate all versions of live skills, by id."""
    after, parts = "", ("skill.live", *_under_clause(under), "skill.after")
    while entries := find_versions(session, caller, parts, _under_params(under) | {"after": after, "limit": PAGE_SIZE}):
        yield from entries
        after = entries[-1].version.id


def count_skills(session: Session, caller: Caller, under: str | None = None) -> int:
    """Count the live skills."""
    reach, where = namespace_clauses(caller)
    parts = ("skill_count", *reach, "skill.current", *_under_clause(under))
    return int(session.select(parts, {**where, **_under_params(under)})[0][0])


def _under_clause(place: str | None) -> tuple[SqlPart, ...]:
    return () if place is None else ("memory.under",)


def _under_params(place: str | None) -> dict[str, str]:
    return {} if place is None else {"under": place}


def find_current(session: Session, caller: Caller, namespace: str, name: str) -> SkillEntry | None:
    """Return the current version of a name in a namespace, or None."""
    rows = find_versions(session, caller, ("skill.current", "skill.by_path"), {"namespace": namespace, "name": name})
    return rows[0] if rows else None


def list_versions(session: Session, caller: Caller, skill: Skill, *, limit: int) -> list[SkillVersion]:
    """List all versions of a skill, newest first."""
    rows = find_versions(session, caller, ("skill.of_skill",), {"skill": skill.id, "limit": limit})
    return [entry.version for entry in rows]


def list_changes(session: Session, skill: Skill, *, limit: int) -> list[Entry]:
    """List the journal entries that changed the current version, newest first."""
    return [Entry(*row) for row in session.rows("skill_changes", skill=skill.id, limit=limit)]


def resolve(session: Session, caller: Caller, id: str, *, deleted_too: bool = False) -> SkillEntry:
    """Find a version by id, unique id prefix, namespace/name, or unique name."""
    alive: tuple[SqlPart, ...] = () if deleted_too else ("skill.live",)
    rows = find_versions(session, caller, (*alive, "skill.by_id"), {"id": id})
    rows = rows or _find_by_name(session, caller, id, deleted_too=deleted_too)
    if not rows and 4 <= len(id) < 32:
        rows = find_versions(session, caller, (*alive, "skill.by_prefix"), {"prefix": id})
    if len(rows) > 1:
        raise AmbiguousId(
            f"skill_id: {id!r} matches several skills. Use the id or namespace/name.",
            candidates=[entry.version.id for entry in rows[:10]],
        )
    if not rows:
        raise NotFound(f"No skill {id!r}.", id=id)
    return rows[0]


def _find_by_name(session: Session, caller: Caller, id: str, *, deleted_too: bool) -> list[SkillEntry]:
    namespace, slash, name = id.rpartition("/")
    if not slash:
        rows = find_versions(session, caller, ("skill.current", "skill.by_name"), {"name": name})
        return rows or (
            find_versions(session, caller, ("skill.last", "skill.by_name"), {"name": name}) if deleted_too else []
        )
    rows = find_versions(session, caller, ("skill.current", "skill.by_path"), {"namespace": namespace, "name": name})
    if rows or not deleted_too:
        return rows
    row = session.row("skill_get", id=skill_id(namespace, name))
    return find_versions(session, caller, ("skill.by_id",), {"id": SKILL.load(row).current}) if row else []

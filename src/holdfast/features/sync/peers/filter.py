"""Namespace filter of a peer: which records it may read and write."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.features.graph.model import Alias
from holdfast.features.memories.grant import Grant
from holdfast.features.namespaces.model import Policy, Standard
from holdfast.features.people.model import Interaction
from holdfast.features.reflections.invalidation import Invalidation
from holdfast.features.skills.model import Skill, SkillVersion
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.namespace_patterns import EVERYWHERE
from holdfast.kernel.storage.port import Session


class Concerns(NamedTuple):
    """What a record belongs to: its own namespaces, and memories whose namespaces count."""

    namespaces: tuple[str, ...]
    memories: tuple[str, ...] = ()


def find_concerns(record: Struct) -> Concerns:
    """Return everything that a record reveals. A record without a namespace belongs to all."""
    match record:
        case Memory() | Skill() | SkillVersion() | Interaction():
            return Concerns((record.namespace,))
        case Policy():
            return Concerns((record.id,))
        case Standard():
            return Concerns((record.id, record.parent) if record.parent else (record.id,), (record.memory,))
        case Link():
            return Concerns((), (record.source, record.target))
        case Alias():
            return Concerns((), (record.entity,))
        case Grant():
            return Concerns((), (record.memory,))
        case Invalidation():
            return Concerns((), (record.invalidated, record.invalidating, record.dependent))
        case _:
            return Concerns((EVERYWHERE,))


def read_record(session: Session, kind: str, id: str) -> Any:
    """Return a record of any known kind, or None."""
    if kind == "memory":
        rows = session.select(("memory_select", "memory.one"), {"id": id})
    else:
        rows = session.rows(f"{kind}_get", id=id) if kind in KINDS else []
    return KINDS[kind].load(rows[0]) if rows else None


class NamespaceFilter:
    """Decide which records match namespace patterns now. A missing memory does not match."""

    def __init__(self, session: Session, fits: Callable[[str], bool]) -> None:
        self._session = session
        self._fits = fits

    def contains(self, record: Struct) -> bool:
        namespaces, memories = find_concerns(record)
        places = self._find_namespaces(memories)
        return len(places) == len(set(memories)) and all(map(self._fits, (*namespaces, *places)))

    def contains_id(self, kind: str, id: str) -> bool:
        """Whether a record exists and matches."""
        record = read_record(self._session, kind, id)
        return record is not None and self.contains(record)

    def _find_namespaces(self, memories: Iterable[str]) -> list[str]:
        ids = sorted(set(memories))
        return [row[1] for row in self._session.rows("memory_namespaces", ids=ids)] if ids else []

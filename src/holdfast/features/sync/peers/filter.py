"""Namespace filter of a peer: which records it may read and write."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.features.access.interaction import Interaction
from holdfast.features.access.model import Grant
from holdfast.features.graph.model import Alias
from holdfast.features.namespaces.model import Policy, Standard
from holdfast.features.reflections.invalidation import Invalidation
from holdfast.features.skills.model import Skill, SkillVersion
from holdfast.features.sync.record_snapshots import state_of
from holdfast.features.sync.snapshot import State
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.namespace_patterns import EVERYWHERE, Scope
from holdfast.kernel.storage.port import Row, Session


class Concerns(NamedTuple):
    """What a record belongs to: its own namespaces, and memories whose namespaces count."""

    namespaces: tuple[str, ...]
    memories: tuple[str, ...] = ()


def concerns(record: Struct) -> Concerns:
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


def read(session: Session, kind: str, id: str) -> Any:
    """Return a record of any known kind, or None."""
    if kind == "memory":
        rows = session.assembled(("memory_select", "memory.one"), {"id": id})
    else:
        rows = session.rows(f"{kind}_get", id=id) if kind in KINDS else []
    return KINDS[kind].load(rows[0]) if rows else None


class Bounds:
    """Decide which records match namespace patterns now. A missing memory does not match."""

    def __init__(self, session: Session, fits: Callable[[str], bool]) -> None:
        self._session = session
        self._fits = fits

    def hold(self, record: Struct) -> bool:
        named, memories = concerns(record)
        places = self._places(memories)
        return len(places) == len(set(memories)) and all(map(self._fits, (*named, *places)))

    def hold_one(self, kind: str, id: str) -> bool:
        """Whether a record exists and matches."""
        record = read(self._session, kind, id)
        return record is not None and self.hold(record)

    def _places(self, memories: Iterable[str]) -> list[str]:
        ids = sorted(set(memories))
        return [row[1] for row in self._session.rows("memory_namespaces", ids=ids)] if ids else []


class _Placed(Struct):
    """The namespace of a journalled memory."""

    namespace: str


_placed = msgspec.json.Decoder(_Placed)
_written = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Telling:
    """Decide which changes a peer may read, in the order of the journal."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session = session
        self._scope = scope
        self._within: dict[tuple[str, str], bool] = {}

    def told(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bool]]:
        """Yield journal rows, each with whether the peer may read it."""
        if self._scope.tells_all:
            return ((row, True) for row in rows)
        self._look_up({row[8] for row in rows if row[7] == "memory"})
        return ((row, self._tells(row)) for row in rows)

    def tells(self, kind: str, id: str) -> bool:
        """Whether the peer may read a record now."""
        return self._scope.tells_all or self._is_within(kind, id)

    def entering(self, row: Row) -> list[State]:
        """Return snapshots of records that a change makes visible to the peer: a moved memory and its referrers."""
        if self._scope.tells_all or row[7] != "memory" or "namespace" not in _written.decode(row[11] or "{}"):
            return []
        found = [("memory", row[8]), *((kind, id) for kind, id in self._session.rows("memory_hangers", id=row[8]))]
        states = [state_of(self._session, kind, id) for kind, id in found if self._is_within(kind, id)]
        return [state for state in states if state is not None]

    def _tells(self, row: Row) -> bool:
        """Whether the peer may read a change: its memory must match both now and after the change."""
        kind, id, body = row[7], row[8], row[10]
        if not self._is_within(kind, id):
            return False
        return kind != "memory" or body is None or self._scope.tells(_placed.decode(body).namespace)

    def _is_within(self, kind: str, id: str) -> bool:
        if (kind, id) not in self._within:
            self._within[kind, id] = self._holds(kind, id)
        return self._within[kind, id]

    def _holds(self, kind: str, id: str) -> bool:
        if kind == "memory":
            self._look_up({id})
            return self._within.get((kind, id), False)
        return Bounds(self._session, self._scope.tells).hold_one(kind, id)

    def _look_up(self, memories: set[str]) -> None:
        ids = sorted(id for id in memories if ("memory", id) not in self._within)
        for id, namespace in self._session.rows("memory_namespaces", ids=ids) if ids else []:
            self._within["memory", id] = self._scope.tells(namespace)

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
from holdfast.features.sync.record_snapshots import read_snapshot
from holdfast.features.sync.snapshot import RecordSnapshot
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.namespace_patterns import EVERYWHERE, PeerScope
from holdfast.kernel.storage.port import Row, Session


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


class _NamespaceField(Struct):
    """The namespace of a journalled memory."""

    namespace: str


_namespace_decoder = msgspec.json.Decoder(_NamespaceField)
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OutgoingFilter:
    """Decide which changes a peer may read, in the order of the journal."""

    def __init__(self, session: Session, scope: PeerScope) -> None:
        self._session = session
        self._scope = scope
        self._within: dict[tuple[str, str], bool] = {}

    def mark_visible(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bool]]:
        """Yield journal rows, each with whether the peer may read it."""
        if self._scope.sends_everything:
            return ((row, True) for row in rows)
        self._load_namespaces({row[8] for row in rows if row[7] == "memory"})
        return ((row, self._is_row_visible(row)) for row in rows)

    def is_visible(self, kind: str, id: str) -> bool:
        """Whether the peer may read a record now."""
        return self._scope.sends_everything or self._is_within(kind, id)

    def list_entering(self, row: Row) -> list[RecordSnapshot]:
        """Return snapshots of records that a change makes visible to the peer: a moved memory and its referrers."""
        if (
            self._scope.sends_everything
            or row[7] != "memory"
            or "namespace" not in _fields_decoder.decode(row[11] or "{}")
        ):
            return []
        records = [("memory", row[8]), *((kind, id) for kind, id in self._session.rows("memory_referrers", id=row[8]))]
        states = [read_snapshot(self._session, kind, id) for kind, id in records if self._is_within(kind, id)]
        return [state for state in states if state is not None]

    def _is_row_visible(self, row: Row) -> bool:
        """Whether the peer may read a change: its memory must match both now and after the change."""
        kind, id, body = row[7], row[8], row[10]
        if not self._is_within(kind, id):
            return False
        return kind != "memory" or body is None or self._scope.can_send(_namespace_decoder.decode(body).namespace)

    def _is_within(self, kind: str, id: str) -> bool:
        if (kind, id) not in self._within:
            self._within[kind, id] = self._check_record(kind, id)
        return self._within[kind, id]

    def _check_record(self, kind: str, id: str) -> bool:
        if kind == "memory":
            self._load_namespaces({id})
            return self._within.get((kind, id), False)
        return NamespaceFilter(self._session, self._scope.can_send).contains_id(kind, id)

    def _load_namespaces(self, memories: set[str]) -> None:
        ids = sorted(id for id in memories if ("memory", id) not in self._within)
        for id, namespace in self._session.rows("memory_namespaces", ids=ids) if ids else []:
            self._within["memory", id] = self._scope.can_send(namespace)

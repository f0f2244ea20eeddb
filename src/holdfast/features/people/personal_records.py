"""Records of people that a transaction receives from other stores, for the erasures that concern them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from holdfast.features.people.model import ERASED_NAMESPACE, ErasureOrder, Interaction, Principal, find_people
from holdfast.kernel.journal.kinds import Kind
from holdfast.kernel.records.change import Change
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.tombstone import has_content

PersonalRecord = Memory | Interaction | Principal
"""Records that may belong to a person."""


class ReceivedRecord(NamedTuple):
    """A record that a transaction received from another store."""

    kind: Kind[Any]
    before: Any
    """The record here before; None if there was none."""
    record: Any
    field_versions: bytes
    former_names: tuple[str, ...] = ()
    """The names of a person before this record erased them."""


class PersonalRecords:
    """The personal records and the erasure orders that one transaction received."""

    def __init__(self, received: Iterable[ReceivedRecord | Change]) -> None:
        """Collect them from what a transaction received: records, each followed by the change that wrote it."""
        self.orders: set[str] = set()
        """Received erasure orders."""
        self.forgotten: dict[tuple[str, str], dict[str, int]] = {}
        """Records of erased people; per origin, when it wrote data that came back."""
        self.former_names: dict[str, tuple[str, ...]] = {}
        """The former names of people whose names were erased."""
        self.before: dict[tuple[str, str], PersonalRecord] = {}
        """Records of erased people, as they were before this transaction erased them."""
        self.new: set[tuple[str, str]] = set()
        """Personal records that had no content here before."""
        self._received: list[tuple[str, PersonalRecord]] = []
        """Received records that may belong to people, with their kinds."""
        for one in received:
            if isinstance(one, Change):
                self._note_returned(one)
            else:
                self._add(one)

    def _add(self, received: ReceivedRecord) -> None:
        kind, before, record, field_versions, former_names = received
        match record:
            case ErasureOrder():
                self.orders.add(record.id)
            case Principal() if record.name:
                self._add_personal(kind, before, record)
            case Principal():
                self._add_forgotten(kind, before, record)
                if former_names:
                    self.former_names.setdefault(record.id, former_names)
            case Memory() if ERASED_NAMESPACE.encode() in field_versions:
                self._add_forgotten(kind, before, record)
            case Memory():
                self._add_personal(kind, before, record)
            case Interaction() if record.state == "live":
                self._add_personal(kind, before, record)
            case Interaction():
                self._note_before(kind, before, record.id, lost=True)

    def _note_returned(self, change: Change) -> None:
        """Note that a store wrote content to a record, in case the record belongs to an erased person."""
        if change.op == "purge" or not change.content:
            return
        if (returned := self.forgotten.get((change.kind, change.record))) is not None:
            returned[change.origin] = max(change.at, returned.get(change.origin, 0))

    def by_person(self) -> dict[str, set[tuple[str, str]]]:
        """Return the received records, by the names of the people they belong to."""
        records: dict[str, set[tuple[str, str]]] = {}
        for kind, record in self._received:
            for name in list_people_of(record):
                records.setdefault(name, set()).add((kind, record.id))
        return records

    def _add_personal(self, kind: Kind[Any], before: PersonalRecord | None, record: PersonalRecord) -> None:
        self._note_before(kind, before, record.id, lost=False)
        self._received.append((kind.name, record))

    def _add_forgotten(self, kind: Kind[Any], before: PersonalRecord | None, record: PersonalRecord) -> None:
        self._note_before(kind, before, record.id, lost=True)
        self.forgotten.setdefault((kind.name, record.id), {})

    def _note_before(self, kind: Kind[Any], before: PersonalRecord | None, id: str, *, lost: bool) -> None:
        """Note whether a record had content before this transaction, and that content if it was erased."""
        if (before is None or not has_content(before)) and (kind.name, id) not in self.before:
            self.new.add((kind.name, id))
        elif before is not None and lost and (kind.name, id) not in self.new:
            self.before.setdefault((kind.name, id), before)


def list_people_of(record: PersonalRecord) -> set[str]:
    """Return the names of the people a record belongs to."""
    match record:
        case Memory():
            return find_people(record.namespace, record.metadata)
        case Interaction():
            return {record.principal}
        case Principal():
            return {record.name, record.stands_for or record.name}

"""Records of people that a transaction receives from other stores, for the erasures that concern them."""

from typing import Any

from holdfast.features.people.erasure_order import ErasureOrder
from holdfast.features.people.interaction import Interaction
from holdfast.features.people.person_namespace import ERASED_NAMESPACE, find_people
from holdfast.features.people.principal import Principal
from holdfast.features.people.resolve_names import list_names
from holdfast.kernel.journal.kinds import Kind
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.tombstone import has_content
from holdfast.kernel.storage.port import Session

PersonalRecord = Memory | Interaction | Principal
"""Records that may belong to a person."""


class PersonalRecords:
    """The personal records and the erasure orders that one transaction received."""

    def __init__(self, session: Session) -> None:
        self._session = session
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

    def add(self, kind: Kind[Any], own: Any, record: Any, packed: bytes) -> None:
        """Add a received record before it is written. `own`: the record here so far; `packed`: its field versions."""
        match record:
            case ErasureOrder():
                self.orders.add(record.id)
            case Principal() if record.name:
                self._add_personal(kind, own, record)
            case Principal():
                self._add_forgotten(kind, own, record)
                if own is not None and own.name:
                    self.former_names.setdefault(record.id, list_names(self._session, own.name))
            case Memory() if ERASED_NAMESPACE.encode() in packed:
                self._add_forgotten(kind, own, record)
            case Memory():
                self._add_personal(kind, own, record)
            case Interaction() if record.state == "live":
                self._add_personal(kind, own, record)
            case Interaction():
                self._note_before(kind, own, record.id, lost=True)

    def note_returned(self, kind: str, id: str, origin: str, at: int) -> None:
        """Note that a store wrote content to a record, in case the record belongs to an erased person."""
        if (returned := self.forgotten.get((kind, id))) is not None:
            returned[origin] = max(at, returned.get(origin, 0))

    def needs_erasure(self) -> bool:
        """Whether an erasure may concern these records: one was received, or this store applied one before."""
        is_known = bool(self._received) and self._session.row("erased_person_any") is not None
        return bool(self.orders or self.forgotten) or is_known

    def by_person(self) -> dict[str, set[tuple[str, str]]]:
        """Return the received records, by the names of the people they belong to."""
        records: dict[str, set[tuple[str, str]]] = {}
        for kind, record in self._received:
            for name in list_people_of(record):
                records.setdefault(name, set()).add((kind, record.id))
        return records

    def _add_personal(self, kind: Kind[Any], own: PersonalRecord | None, record: PersonalRecord) -> None:
        self._note_before(kind, own, record.id, lost=False)
        self._received.append((kind.name, record))

    def _add_forgotten(self, kind: Kind[Any], own: PersonalRecord | None, record: PersonalRecord) -> None:
        self._note_before(kind, own, record.id, lost=True)
        self.forgotten.setdefault((kind.name, record.id), {})

    def _note_before(self, kind: Kind[Any], own: PersonalRecord | None, id: str, *, lost: bool) -> None:
        """Note whether a record had content before this transaction, and that content if it was erased."""
        if (own is None or not has_content(own)) and (kind.name, id) not in self.before:
            self.new.add((kind.name, id))
        elif own is not None and lost and (kind.name, id) not in self.new:
            self.before.setdefault((kind.name, id), own)


def list_people_of(record: PersonalRecord) -> set[str]:
    """Return the names of the people a record belongs to."""
    match record:
        case Memory():
            return find_people(record.namespace, record.metadata)
        case Interaction():
            return {record.principal}
        case Principal():
            return {record.name, record.stands_for or record.name}

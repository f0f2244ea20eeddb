"""Apply changes of other stores: merge each per field with the local record and journal it as its author wrote it."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.access.interaction import Interaction, admit_interaction
from holdfast.features.access.model import Grant
from holdfast.features.llm import store as consulted
from holdfast.features.namespaces.model import STANDARD, Policy, Standard
from holdfast.features.people.erasure_order import Erasure
from holdfast.features.people.person_namespace import FORGOTTEN, named
from holdfast.features.people.principal import Principal
from holdfast.features.people.store import known_as
from holdfast.features.reflections.invalidation import ChangeSet
from holdfast.features.skills import store as skills
from holdfast.features.skills.model import File, SkillVersion, digest_of, version_id
from holdfast.features.sync.peer_record import must_be_storable, must_be_typed, must_be_unknown
from holdfast.features.sync.peers.filter import Bounds
from holdfast.features.sync.record_snapshots import ends_of
from holdfast.features.sync.snapshot import State, must_be_whole
from holdfast.features.sync.snapshot import ahead as state_ahead
from holdfast.features.sync.snapshot import read as read_state
from holdfast.kernel.clock import STATE, too_far
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import conflicts as merge_conflicts
from holdfast.kernel.journal import journal
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.kinds import KINDS, Kind
from holdfast.kernel.journal.kinds import tombstone_of as stub
from holdfast.kernel.journal.transaction import Transaction, body_text
from holdfast.kernel.msgspec_lock import learn
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records import validate as admit
from holdfast.kernel.records.change import Change, Name, ahead, digest, must_agree, node_of
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import AWAITED, Cell, join
from holdfast.kernel.records.namespace_patterns import ALL, EVERYTHING, Scope
from holdfast.kernel.records.tombstone import has_content as says

Outcome = Literal["new", "updated", "noop", "conflict"]
Reason = Literal[
    "future", "waits", "unknown_kind", "invalid", "forged", "unsigned", "forked", "scope", "governance", "dropped"
]


OF_ANOTHER_RECORD = "Its content belongs to a different record."
GOVERNING = (Policy, Grant, Standard, Erasure)
"""Records that govern other users, or erase their data."""

UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError)
"""Errors of decoding malformed input."""

OfSomebody = Memory | Interaction | Principal
"""Records that may belong to a person."""


class Refused(Exception):
    """A change is rejected, for now or for good."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Held(NamedTuple):
    """A record of this store."""

    row: Any
    """The record as its columns show it (merged with its title group)."""
    own: Any
    """The record on its own, without its title group."""
    cells: cells.Cells


class Taking:
    """Merge remote changes into one transaction. Title groups are recomputed at its end."""

    def __init__(
        self,
        write: Transaction,
        *,
        owner: str | None = None,
        files: Mapping[str, bytes] | None = None,
        scope: Scope = ALL,
    ) -> None:
        self._write = write
        self._files = files or {}
        self._owner = owner
        """The owner of new memories; None keeps the author."""
        self._scope = scope
        self._bounds = Bounds(write.session, scope.takes)
        self._touched: set[str] = set()
        self._left: set[titles.Slot] = set()
        self._purged = False
        self._skills_changed = False
        self.links: set[str] = set()
        """Applied links."""
        self.risen: set[str] = set()
        """Memories with a greater reflection depth than before."""
        self.erasures: set[str] = set()
        """Applied erasure requests."""
        self.people: dict[str, set[tuple[str, str]]] = {}
        """Applied records, by the names of the people they belong to."""
        self.remains: dict[tuple[str, str], dict[str, int]] = {}
        """Records of erased people; per origin, when it wrote data that came back."""
        self.known: dict[str, tuple[str, ...]] = {}
        """The former names of people whose names were erased."""
        self.lost: dict[tuple[str, str], OfSomebody] = {}
        """Records of erased people, as they were before this transaction erased them."""
        self.came: set[tuple[str, str]] = set()
        """Personal records that had no content here before."""
        self._unproven: dict[tuple[str, str], dict[Name, Change]] = {}
        """Erased changes whose purge has not arrived, by record."""
        self._proven: set[Name] = set()
        """Erased changes that were journalled when their purge arrived."""
        self._was_gone: dict[str, bool] = {}
        """Whether each written memory was deleted before this transaction."""
        self._came_gone: dict[str, bool] = {}
        """Whether it was deleted by its last write."""

    def take(self, change: Change) -> Outcome:
        """Apply one well-formed change. Raises Refused before it writes anything."""
        kind = KINDS.get(change.kind)
        if kind is None:
            raise Refused("unknown_kind", f"This release does not know the kind {change.kind}.")
        created, written = self._read(kind, change)
        held = self._held(kind, change.record)
        if ahead(change, written, self._write.now // 1000):
            if isinstance(created, SkillVersion):
                self._admit_files(created)  # the file contents are not sent again later
            raise Refused("future", "Its clock is more than seven days ahead.")
        if change.erased is not None:
            return self._take_erased(kind, change, held)
        if held is None:
            if change.op == "purge":
                return self._bury(kind, change, written)
            if created is None:
                raise Refused("waits", f"The {change.kind} that it edits is missing here.")
            return self._add(kind, change, created, written)
        if created is not None:
            _must_be_storable(created)  # its values may lose and are kept as conflicts
        return self._join(kind, change, held, written)

    def _take_erased(self, kind: Kind[Any], change: Change, held: Held | None) -> Outcome:
        """Journal an erased change without its text, if the purge that erased it is here; else it waits."""
        name, purge = Name(change.origin, change.n), held.cells.own.get(cells.PURGED) if held else None
        if held is None or purge is None or not _has_seen(purge, change):
            self._unproven.setdefault((change.kind, change.record), {})[name] = change
            raise Refused("waits", "The purge that erased it is missing here.")
        _must_be_about(kind, change, held.own)
        if name not in self._proven:
            self._enter(change, None, None)
        return "noop"

    def _enter_erased(self, kind: Kind[Any], record: Any, purge: Cell) -> None:
        """Journal the changes that waited for a purge before the purge, in their author's order."""
        for name, change in self._unproven.pop((kind.name, record.id), {}).items():
            if _has_seen(purge, change) and change.about == kind.about(record):
                self._enter(change, None, None)
                self._proven.add(name)

    def take_state(self, state: State) -> Outcome:
        """Merge a full record snapshot. Raises Refused before it writes anything."""
        try:
            must_be_whole(state)
        except HoldfastError as error:
            raise Refused("invalid", error.message) from None
        kind = KINDS.get(state.kind)
        if kind is None:
            raise Refused("unknown_kind", f"This release does not know the kind {state.kind}.")
        theirs, written = self._read_state(kind, state)
        if state_ahead(state, written, self._write.now // 1000):
            raise Refused("future", "Its clock is more than seven days ahead.")
        held = self._held(kind, state.record)
        if held is None:
            return self._add_state(kind, state, theirs, written)
        return self._join_state(kind, state, theirs, held, written)

    def _read_state(self, kind: Kind[Any], state: State) -> tuple[Any, dict[str, Cell]]:
        try:
            written = read_state(state)
            must_be_typed(kind.type, kind.shape, written)
            raw = _decode_body(kind, state.body)
            learn(kind.type)
            values = cells.shows(kind.shape, {name: [cell] for name, cell in written.items()})
            record = cells.rebuilt(kind.shape, msgspec.convert(raw, kind.type), values)
        except HoldfastError as error:
            raise Refused("invalid", error.message) from None
        except UNREADABLE as error:
            raise Refused("invalid", f"It cannot be read: {error}") from None
        if record.id != state.record or kind.about(record) != state.about:
            raise Refused("invalid", OF_ANOTHER_RECORD)
        _must_leave(kind, state.record, state.about, written)
        return record, written

    def _add_state(self, kind: Kind[Any], state: State, theirs: Any, written: dict[str, Cell]) -> Outcome:
        record = self._owned(replace(theirs, version=1))
        self._admit(record)
        shows = cells.flatten(kind.shape, record)
        self._put(kind, None, None, record, cells.pack(cells.least(cells.Cells(state.base, written), shows), shows))
        self._skills_changed |= isinstance(record, SkillVersion) and record.state != "live"
        self._enter_state(state, record, written, "purge" if cells.PURGED in written else None)
        held = cells.Cells(state.base, written)
        if _doubtful(held, held):
            merge_conflicts.found_in(self._write.session, self._write.now, kind, record, held)
        return "new"

    def _join_state(self, kind: Kind[Any], state: State, theirs: Any, held: Held, written: dict[str, Cell]) -> Outcome:
        before = held.cells.all(cells.flatten(kind.shape, held.own))
        purged = cells.PURGED in written and cells.PURGED not in before
        after, said = _after(kind, held, written, theirs if purged else held.own)
        if after.own == before:
            return "noop"
        newest = max(held.own.updated_at, theirs.updated_at)
        record = replace(said, version=held.own.version + 1, updated_at=newest)
        changed = self._put_again(kind, held, record, after, written[cells.PURGED] if purged else None)
        self._enter_state(state, record, written, "purge" if purged else None)
        return self._outcome(kind, held, record, after, changed=changed)

    def _enter_state(self, state: State, record: Any, written: dict[str, Cell], op: str | None = None) -> None:
        """Journal a snapshot. It has no number of an author; its sequence here is its number."""
        author = journal.Author(STATE, 0, self._write.actor, 0)
        at = max((stamp.time for cell in written.values() for stamp in cell.values), default=state.at)
        op = op or (STATE if state.covered else "moved")
        said = (body_text(record), state.cells, author)
        self._write.enter(journal.Pending(at, op, state.kind, state.record, state.about, *said))

    def finish(self) -> None:
        """Recompute the touched title groups and remove every trace of purged text from indexes and caches."""
        titles.settle(self._write, self._touched, self._left)
        if self._skills_changed:
            skills.sweep(self._write.session)
        if self._purged:
            consulted.forget(self._write.session)
            self._write.session.forget_words()

    def fates(self) -> tuple[list[str], list[str]]:
        """Return the memories that were deleted (or arrived deleted), and those that live again."""
        is_gone = self._came_gone
        if self.erasures or self.people or self.remains:  # an erasure may have deleted more since
            is_gone = {id: self._write.said[id].state == "deleted" for id in self._was_gone}
        lost = [id for id, was in self._was_gone.items() if is_gone[id] and not was]
        return lost, [id for id, was in self._was_gone.items() if was and not is_gone[id]]

    def _held(self, kind: Kind[Any], id: str) -> Held | None:
        row = self._write.get(kind, id)
        if row is None:
            return None
        own = titles.own(self._write, id) if isinstance(row, Memory) and self._shows_more(row) else row
        self._must_be_within(own)
        return Held(row, own, self._write.cells_of(kind, row))

    def _shows_more(self, memory: Memory) -> bool:
        """Whether the columns of a memory may merge several; its group may have changed in this transaction."""
        return titles.slot_of(memory) in self._left or bool(self._write.session.row("title_sharers", id=memory.id))

    def _read(self, kind: Kind[Any], change: Change) -> tuple[Any, dict[str, Cell]]:
        """Return the record that a change creates, if any, and the fields it writes."""
        if change.erased is not None:
            return None, {}
        try:
            created, written = self._read_words(kind, change)
        except HoldfastError as error:
            raise Refused("invalid", error.message) from None
        except UNREADABLE as error:
            raise Refused("invalid", f"It cannot be read: {error}") from None
        if created is not None and (created.id != change.record or kind.about(created) != change.about):
            raise Refused("invalid", OF_ANOTHER_RECORD)
        if (change.op == "purge") != (cells.PURGED in written):
            raise Refused("invalid", "A purge says what it leaves, and nothing else does.")
        _must_leave(kind, change.record, change.about, written)
        return created, written

    def _read_words(self, kind: Kind[Any], change: Change) -> tuple[Any, dict[str, Cell]]:
        if change.body is None:
            written = cells.decode((change.delta or "").encode())
            must_agree(change, written)
            must_be_typed(kind.type, kind.shape, written)
            return None, written
        raw = _decode_body(kind, change.body)
        learn(kind.type)
        record = msgspec.convert(raw, kind.type)
        unknown = {name: value for name, value in raw.items() if name not in record.__struct_fields__}
        must_be_unknown(kind.shape, unknown.keys())
        return record, cells.made(kind.shape, record, change.stamp, unknown)

    def _add(self, kind: Kind[Any], change: Change, created: Any, written: dict[str, Cell]) -> Outcome:
        record = self._owned(replace(created, version=1))
        self._admit(record)
        shows = cells.flatten(kind.shape, record)
        held = cells.least(cells.Cells(change.stamp, written), shows)
        self._put(kind, None, None, record, cells.pack(held, shows))
        self._enter(change, record, body_text(record))
        return "new"

    def _bury(self, kind: Kind[Any], change: Change, written: dict[str, Cell]) -> Outcome:
        """Store the tombstone of a record that was purged before it arrived; other records may point to it."""
        try:
            (left,) = written[cells.PURGED].values.values()
            values = cells.shows(kind.shape, {name: [cell] for name, cell in written.items()})
            record = replace(cells.rebuilt(kind.shape, msgspec.convert(left, kind.type), values), version=1)
        except UNREADABLE as error:
            raise Refused("invalid", f"It cannot be read: {error}") from None
        self._admit(record)
        shows = cells.flatten(kind.shape, record)
        self._put(kind, None, None, record, cells.pack(cells.Cells(change.stamp, written), shows))
        self._write.unsay(kind, record.id, written[cells.PURGED].seen)
        self._skills_changed |= isinstance(record, SkillVersion)
        self._enter_erased(kind, record, written[cells.PURGED])
        self._enter(change, record, body_text(record))
        return "new"

    def _owned(self, record: Any) -> Any:
        """Assign a new memory to the configured owner; its first author is kept in `extra`."""
        if self._owner is None or not isinstance(record, Memory) or record.agent == self._owner:
            return record
        named = (record.extra.get(IMPORTED_FROM), record.metadata.get(IMPORTED_FROM))
        first = next((name for name in named if name and isinstance(name, str)), record.agent)
        return replace(record, agent=self._owner, extra={**record.extra, IMPORTED_FROM: first})

    def _join(self, kind: Kind[Any], change: Change, held: Held, written: dict[str, Cell]) -> Outcome:
        after, said = _after(kind, held, written, held.own)
        if change.op == "purge" and said.state == "deleted":
            said = stub(said)
        newest = max(held.own.updated_at, (change.at >> 16) * 1000)
        record = replace(said, version=held.own.version + 1, updated_at=newest)
        _must_be_about(kind, change, record)
        changed = self._put_again(kind, held, record, after, written.get(cells.PURGED))
        if cells.PURGED in written:
            self._enter_erased(kind, record, written[cells.PURGED])
        self._enter(change, record, body_text(record))
        return self._outcome(kind, held, record, after, changed=changed)

    def _put_again(self, kind: Kind[Any], held: Held, record: Any, after: cells.Cells, purge: Cell | None) -> bool:
        """Update an existing record and redact what a purge covers. Return whether its values changed."""
        self._admit(record)
        shows = cells.flatten(kind.shape, record)
        self._put(kind, held.row, held.own, record, cells.pack(cells.least(after, shows), shows))
        if purge is not None:
            self._write.unsay(kind, record.id, purge.seen)
            self._purged = True
        return shows != cells.flatten(kind.shape, held.own)

    def _outcome(self, kind: Kind[Any], held: Held, record: Any, after: cells.Cells, *, changed: bool) -> Outcome:
        if _doubtful(held.cells, after) and merge_conflicts.found_in(
            self._write.session, self._write.now, kind, record, after
        ):
            return "conflict"
        return "updated" if changed else "noop"

    def _admit(self, record: Struct) -> None:
        """Validate a record exactly as local writes are validated, then check its references and scope."""
        _must_be_storable(record)
        try:
            if isinstance(record, Memory):
                admit.whole(record)
            elif isinstance(record, Interaction):
                admit_interaction(record)
        except HoldfastError as error:
            raise Refused("invalid", error.message) from None
        if isinstance(record, Erasure) and self._is_ahead(record):
            raise Refused("future", "Its clock is more than seven days ahead.")
        for kind, end in ends_of(record):
            if self._write.get(kind, end) is None:
                raise Refused("waits", f"The {kind.name} {end} is missing here.")
        self._must_be_within(record)
        if isinstance(record, SkillVersion) and record.state == "live":
            self._admit_files(record)

    def _is_ahead(self, order: Erasure) -> bool:
        """Whether an erasure request, or an acknowledgement of it, has a timestamp from a wrong clock."""
        moments = [order.ordered_at, *order.heard.values()]
        return any(too_far(moment // 1000 << 16, self._write.now // 1000) for moment in moments)

    def _must_be_within(self, record: Struct) -> None:
        """Raise Refused if the record is outside the peer's namespaces, or is governance from a non-admin peer."""
        if isinstance(record, GOVERNING) and not self._scope.admin:
            raise Refused("governance", "It is a governance record, and the peer that sent it is not marked admin.")
        if EVERYTHING not in self._scope.take and not self._bounds.hold(record):
            raise Refused("scope", "The peer that sent it may not write to its namespace.")

    def _admit_files(self, version: SkillVersion) -> None:
        """Verify the digest of a skill version and of each of its files."""
        named = digest_of(version.namespace, version.frontmatter, version.files)
        if (named, version_id(named)) != (version.digest, version.id):
            raise Refused("invalid", "Its content does not match its digest.")
        contents = {}
        for file in version.files:
            if file.digest in self._files:
                contents[file.digest] = _said(self._files[file.digest], file)
            elif skills.kept(self._write.session, file.digest, file.size) is None:
                raise Refused("waits", f"The content of {file.path} is missing here.")
        skills.keep(self._write.session, contents)

    def _put(self, kind: Kind[Any], row: Any, own: Any, record: Any, packed: bytes) -> None:
        self._look_for_people(kind, own, record, packed)
        self._write.put_unshown(kind, row, record, packed)
        self._skills_changed |= row is not None and isinstance(record, SkillVersion)
        if isinstance(record, Link):
            self.links.add(record.id)
        if not isinstance(record, Memory):
            return
        self._was_gone.setdefault(record.id, isinstance(own, Memory) and own.state == "deleted")
        self._came_gone[record.id] = record.state == "deleted"
        if isinstance(own, Memory) and own.reflection_depth < record.reflection_depth:
            self.risen.add(record.id)
        self._write.said[record.id] = record
        if isinstance(own, Memory):
            self._left.add(titles.slot_of(own))
            if (own.title, own.content) != (record.title, record.content) and record.state != "deleted":
                self._write.local(ChangeSet).changed.add(record.id)
        self._touched.add(record.id)

    def _look_for_people(self, kind: Kind[Any], own: Any, record: Any, packed: bytes) -> None:
        """Record which people a record belongs to, before it is written."""
        match record:
            case Erasure():
                self.erasures.add(record.id)
            case Principal() if record.name:
                self._is_of(kind, own, record)
            case Principal():
                self._remains(kind, own, record)
                if own is not None and own.name:
                    self.known.setdefault(record.id, known_as(self._write.session, own.name))
            case Memory() if FORGOTTEN.encode() in packed:
                self._remains(kind, own, record)
            case Memory():
                self._is_of(kind, own, record)
            case Interaction() if record.state == "live":
                self._is_of(kind, own, record)
            case Interaction():
                self._note_before(kind, own, record.id, lost=True)

    def _is_of(self, kind: Kind[Any], own: OfSomebody | None, record: OfSomebody) -> None:
        self._note_before(kind, own, record.id, lost=False)
        for name in whose(record):
            self.people.setdefault(name, set()).add((kind.name, record.id))

    def _remains(self, kind: Kind[Any], own: OfSomebody | None, record: OfSomebody) -> None:
        self._note_before(kind, own, record.id, lost=True)
        self.remains.setdefault((kind.name, record.id), {})

    def _note_before(self, kind: Kind[Any], own: OfSomebody | None, id: str, *, lost: bool) -> None:
        """Record whether a record had content before this transaction, and that content if it was erased."""
        if (own is None or not says(own)) and (kind.name, id) not in self.lost:
            self.came.add((kind.name, id))
        elif own is not None and lost and (kind.name, id) not in self.came:
            self.lost.setdefault((kind.name, id), own)

    def _enter(self, change: Change, record: Any, body: str | None) -> None:
        if change.op != "purge" and change.words and (change.kind, change.record) in self.remains:
            back = self.remains[change.kind, change.record]
            back[change.origin] = max(change.at, back.get(change.origin, 0))
        author = journal.Author(change.origin, change.n, change.actor, change.group)
        self._write.enter(
            journal.Pending(change.at, change.op, change.kind, change.record, change.about, body, change.delta, author)
        )
        said = change.body if change.body != body else None
        self._write.session.do(
            "relayed_add",
            origin=change.origin,
            n=change.n,
            signature=change.signature,
            digest=change.erased or digest(change.body, change.delta),
            said=said,
        )


def whose(record: OfSomebody) -> set[str]:
    """Return the names of the people a record belongs to."""
    match record:
        case Memory():
            return named(record.namespace, record.metadata)
        case Interaction():
            return {record.principal}
        case Principal():
            return {record.name, record.stands_for or record.name}


def _said(packed: bytes, file: File) -> bytes:
    try:
        said = skills.unpack(packed, file.size)
    except HoldfastError as error:
        raise Refused("invalid", error.message) from None
    if sha256(said).hexdigest() != file.digest:
        raise Refused("forged", f"The content of {file.path} does not match its digest.")
    return said


def _must_be_storable(record: Struct) -> None:
    try:
        must_be_storable(record)
    except HoldfastError as error:
        raise Refused("invalid", error.message) from None


def _decode_body(kind: Kind[Any], body: str) -> dict[str, Any]:
    """Decode the fields of a record and validate each as storable JSON."""
    raw = msgspec.json.decode(body, type=dict[str, Any])
    for name, value in raw.items():
        if name not in kind.type.__struct_fields__:
            admit.foreign("field", name)
        admit.foreign(name, value)
    return raw


def _must_be_about(kind: Kind[Any], change: Change, record: Any) -> None:
    """Raise Refused if a change claims a different memory than its record belongs to: that decides its visibility."""
    about = kind.about(record)
    differs = (change.about is None) != (about is None) if kind is STANDARD else change.about != about
    if differs:
        raise Refused("invalid", OF_ANOTHER_RECORD)


def _must_leave(kind: Kind[Any], record: str, about: str | None, written: Mapping[str, Cell]) -> None:
    """Raise Refused if the tombstone in a purge belongs to another record."""
    purges = written[cells.PURGED].values.values() if cells.PURGED in written else ()
    for left in [msgspec.convert(value, kind.type) for value in purges if value is not AWAITED]:
        if left.id != record or kind.about(left) != about:
            raise Refused("invalid", OF_ANOTHER_RECORD)


def _has_seen(purge: Cell, change: Change) -> bool:
    """Whether a purge covers a change. Compares nodes: a repaired store has a new replica id."""
    node = node_of(change.origin)
    return any(change.at <= time for origin, time in purge.seen.items() if node_of(origin) == node)


def _after(kind: Kind[Any], held: Held, written: Mapping[str, Cell], upon: Any) -> tuple[cells.Cells, Any]:
    """Merge written fields into a record; return its new field versions and the resulting record."""
    shows = cells.flatten(kind.shape, held.own)
    try:
        joined = {name: join(held.cells.cell(name, shows.get(name)), cell) for name, cell in written.items()}
        after = cells.Cells(held.cells.base, cells.swept(kind.shape, {**held.cells.all(shows), **joined}))
        values = cells.shows(kind.shape, {name: [cell] for name, cell in after.own.items()})
        return after, cells.rebuilt(kind.shape, upon, values)
    except UNREADABLE as error:
        raise Refused("invalid", f"It cannot be merged: {error}") from None


def _doubtful(before: cells.Cells, after: cells.Cells) -> bool:
    return any(len(cell.values) > 1 for held in (before, after) for cell in held.own.values())

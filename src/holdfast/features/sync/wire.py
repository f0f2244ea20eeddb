"""Messages of the sync protocol. Unknown fields are ignored."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.sync.apply_changes import RejectedChange, SyncResult
from holdfast.features.sync.merge_changes import Outcome
from holdfast.features.sync.read_changes import Handshake, Page, VectorEntry
from holdfast.features.sync.record_snapshots import RecordSnapshot, as_change
from holdfast.kernel.errors import Conflict, Invalid
from holdfast.kernel.journal.journal import Position
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records.change import MAX_NAME_CHARS, MAX_NUMBER, Change, ChangeId
from holdfast.version import __version__

PROTOCOL = 1
"""The newest protocol version of this release."""
MIN_PROTOCOL = 1
"""The oldest supported protocol version."""
NAME_FIELDS = frozenset({"node", "origin", "record", "about", "kind", "op", "actor", "scope", "release"})
_NO_CHANGE = Change(origin="", n=0, at=0, actor="", op="", kind="", record="")
_NO_STATE = RecordSnapshot(kind="", record="", at=0, origin="", body="", cells="")
HELLO, FEED, TAKE = (f"/api/v1/peer/{name}" for name in ("hello", "feed", "take"))


class WireMessage(Struct, frozen=True, kw_only=True):
    """Base of every message."""

    protocol: int = PROTOCOL


M = TypeVar("M", bound=WireMessage)


class HelloRequest(WireMessage, frozen=True, kw_only=True):
    greeting: Handshake
    kinds: list[str]
    """The record kinds that the sender's release knows."""
    reached: dict[str, int] = {}
    """Its cursors in the journals of other stores."""
    release: str = __version__


class HelloAnswer(WireMessage, frozen=True, kw_only=True):
    greeting: Handshake
    kinds: list[str]
    followed: int
    """Its cursor in the journal of the sender."""
    doubted: list[str] = []
    """Forked origins: its changes differ from those of the sender."""
    release: str = __version__


class FeedRequest(WireMessage, frozen=True, kw_only=True):
    after: int
    known: dict[str, int]
    limit: int


class FeedAnswer(WireMessage, frozen=True, kw_only=True):
    origin: str
    seq: int
    authors: dict[str, str]
    """Public keys that sign the changes of this page, by origin."""
    changes: list[Change]
    upto: int
    more: bool
    files: dict[str, bytes] = {}
    states: list[RecordSnapshot] = []
    bases: dict[str, VectorEntry] = {}

    def page(self) -> Page:
        return Page(self.changes, self.upto, self.more, self.files, self.states, self.bases)


class TakeRequest(WireMessage, frozen=True, kw_only=True):
    sender: Handshake
    """Without a vector, and only with the authors of the changes in the page."""
    changes: list[Change]
    upto: int
    files: dict[str, bytes] = {}
    states: list[RecordSnapshot] = []
    bases: dict[str, VectorEntry] = {}
    dry_run: bool = False

    def page(self) -> Page:
        return Page(self.changes, self.upto, False, self.files, self.states, self.bases)


class OtherOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a change outside the page, or a rejection with its reason."""

    origin: str
    n: int
    kind: str
    record: str
    op: str
    outcome: str
    reason: str = ""
    detail: str = ""


class TakeAnswer(WireMessage, frozen=True, kw_only=True):
    followed: int
    outcomes: list[str]
    """The outcome of each change and then of each state, in order: new, updated, noop, conflict, known or rejected."""
    others: list[OtherOutcome]
    """Rejected changes with their reasons, and earlier changes that waited for this page."""
    entered: tuple[int, int] | None = None
    """The first and last journal entry written for the page, if any."""
    conflicts: list[str] | None = None
    """New conflicts; an older release reports them only as outcomes."""
    settled: list[str] = []
    """Conflicts that are resolved now."""
    deleted: list[str] | None = None
    """Memories deleted by the page; an older release does not report them."""
    restored: list[str] = []
    """Memories that were deleted and are live again."""


class NamedSyncResult(SyncResult):
    """The outcomes of received changes, by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[ChangeId, tuple[Change, str]] = {}

    def note(self, change: Change, outcome: Outcome) -> None:
        super().note(change, outcome)
        self.outcomes[ChangeId(change.origin, change.n)] = (change, outcome)

    def add(self, later: SyncResult) -> None:
        super().add(later)
        if isinstance(later, NamedSyncResult):
            self.outcomes |= later.outcomes


def decode_message(message: Any, form: type[M]) -> M:
    """Decode a message. A malformed change is rejected on its own, not the whole message.

    Unknown fields come from another release and are ignored.
    """
    register_type(form)
    try:
        decoded = msgspec.convert(message, form)
        must_fit(decoded)
    except (msgspec.ValidationError, Invalid):
        decoded = msgspec.convert(_replace_unreadable(message), form)
        must_fit(decoded)
    return decoded


def _replace_unreadable(message: Any) -> Any:
    """Replace each unreadable change or state by an empty one, which is always rejected."""
    if not isinstance(message, dict):
        return message
    for name, empty in (("changes", _NO_CHANGE), ("states", _NO_STATE)):
        if isinstance(items := message.get(name), list):
            message = {**message, name: [item if _can_be_read(item, type(empty)) else empty for item in items]}
    return message


def _can_be_read(item: Any, form: type[Change] | type[RecordSnapshot]) -> bool:
    register_type(form)
    try:
        must_fit(msgspec.convert(item, form))
    except (msgspec.ValidationError, Invalid):
        return False
    return True


def must_fit(value: Any) -> None:
    """Raise Invalid if a message contains a number out of range, a NUL or an overlong name."""
    match value:
        case bool() | bytes() | None:
            return
        case int():
            if abs(value) > MAX_NUMBER:
                raise Invalid("The message contains a number out of range.")
        case str():
            if "\x00" in value:
                raise Invalid("The message must not contain NUL.")
        case Struct():
            for name in value.__struct_fields__:
                field = getattr(value, name)
                _must_be_short([field] if name in NAME_FIELDS else [])
                must_fit(field)
        case dict():
            _must_be_short(value)
            must_fit([*value, *value.values()])
        case _:
            for item in value:
                must_fit(item)


def _must_be_short(names: Iterable[str | None]) -> None:
    if any(name and len(name) > MAX_NAME_CHARS for name in names):
        raise Invalid(f"The message contains a name of more than {MAX_NAME_CHARS} characters.")


def list_kinds() -> list[str]:
    return sorted(KINDS)


def agree_on_protocol(protocol: int, who: str) -> int:
    """Return the newest protocol version both support; raises Conflict if there is none."""
    if protocol < MIN_PROTOCOL:
        raise Conflict(
            f"{who} uses protocol {protocol}, this release supports {MIN_PROTOCOL} to {PROTOCOL}. "
            "Upgrade the older one."
        )
    return min(protocol, PROTOCOL)


def list_changes(page: Page) -> list[Change]:
    """Return the changes of a page and its snapshots, wrapped as changes."""
    return [*page.changes, *map(as_change, page.states)]


def trim_handshake(sender: Handshake, changes: Sequence[Change]) -> Handshake:
    """Return the handshake reduced to what a page needs."""
    origins = {change.origin for change in changes}
    return replace(sender, vector={}, authors={o: key for o, key in sender.authors.items() if o in origins})


def build_take_answer(
    page: Page, result: NamedSyncResult, followed: int, protocol: int, entered: Sequence[Position]
) -> TakeAnswer:
    """Build the response to a page."""
    names = [ChangeId(change.origin, change.n) for change in list_changes(page)]
    rest = [(change, outcome) for name, (change, outcome) in result.outcomes.items() if name not in set(names)]
    others = [_build_other(one.change, "rejected", one) for one in result.list_rejected]
    return TakeAnswer(
        protocol=protocol,
        followed=followed,
        outcomes=[_get_outcome(result, name) for name in names],
        others=others + [_build_other(change, outcome) for change, outcome in rest],
        entered=(entered[0].seq, entered[-1].seq) if entered else None,
        conflicts=sorted(result.conflict_changes.on),
        settled=sorted(result.conflict_changes.off),
        deleted=sorted(result.deletions.on),
        restored=sorted(result.deletions.off),
    )


def _get_outcome(result: NamedSyncResult, name: ChangeId) -> str:
    if name in result.rejected_by_name:
        return "rejected"
    return result.outcomes[name][1] if name in result.outcomes else "known"


def _build_other(change: Change, outcome: str, why: RejectedChange | None = None) -> OtherOutcome:
    return OtherOutcome(
        origin=change.origin,
        n=change.n,
        kind=change.kind,
        record=change.record,
        op=change.op,
        outcome=outcome,
        reason=why.reason if why else "",
        detail=why.detail if why else "",
    )

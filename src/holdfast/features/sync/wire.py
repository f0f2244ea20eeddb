"""Messages of the sync protocol. Unknown fields are ignored."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.sync.apply_changes import Outcome
from holdfast.features.sync.read_changes import Greeting, Page, Reached
from holdfast.features.sync.receive_changes import Rejected, Taken
from holdfast.features.sync.snapshot import State, as_change
from holdfast.kernel.errors import Conflict, Invalid
from holdfast.kernel.journal.journal import Place
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.msgspec_lock import learn
from holdfast.kernel.records.change import MAX_NAME_CHARS, MAX_NUMBER, Change, Name
from holdfast.version import __version__

PROTOCOL = 1
"""The newest protocol version of this release."""
OLDEST = 1
"""The oldest supported protocol version."""
NAMES = frozenset({"node", "origin", "record", "about", "kind", "op", "actor", "scope", "release"})
_NO_CHANGE = Change(origin="", n=0, at=0, actor="", op="", kind="", record="")
_NO_STATE = State(kind="", record="", at=0, origin="", body="", cells="")
HELLO, FEED, TAKE = (f"/api/v1/peer/{name}" for name in ("hello", "feed", "take"))


class Spoken(Struct, frozen=True, kw_only=True):
    """Base of every message."""

    protocol: int = PROTOCOL


M = TypeVar("M", bound=Spoken)


class Hello(Spoken, frozen=True, kw_only=True):
    greeting: Greeting
    kinds: list[str]
    """The record kinds that the sender's release knows."""
    reached: dict[str, int] = {}
    """Its cursors in the journals of other stores."""
    release: str = __version__


class HelloAnswer(Spoken, frozen=True, kw_only=True):
    greeting: Greeting
    kinds: list[str]
    followed: int
    """Its cursor in the journal of the sender."""
    doubted: list[str] = []
    """Forked origins: its changes differ from those of the sender."""
    release: str = __version__


class Feed(Spoken, frozen=True, kw_only=True):
    after: int
    known: dict[str, int]
    limit: int


class FeedAnswer(Spoken, frozen=True, kw_only=True):
    origin: str
    seq: int
    authors: dict[str, str]
    """Public keys that sign the changes of this page, by origin."""
    changes: list[Change]
    upto: int
    more: bool
    files: dict[str, bytes] = {}
    states: list[State] = []
    bases: dict[str, Reached] = {}

    def page(self) -> Page:
        return Page(self.changes, self.upto, self.more, self.files, self.states, self.bases)


class Take(Spoken, frozen=True, kw_only=True):
    sender: Greeting
    """Without a vector, and only with the authors of the changes in the page."""
    changes: list[Change]
    upto: int
    files: dict[str, bytes] = {}
    states: list[State] = []
    bases: dict[str, Reached] = {}
    dry_run: bool = False

    def page(self) -> Page:
        return Page(self.changes, self.upto, False, self.files, self.states, self.bases)


class Other(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a change outside the page, or a rejection with its reason."""

    origin: str
    n: int
    kind: str
    record: str
    op: str
    outcome: str
    reason: str = ""
    detail: str = ""


class TakeAnswer(Spoken, frozen=True, kw_only=True):
    followed: int
    outcomes: list[str]
    """The outcome of each change and then of each state, in order: new, updated, noop, conflict, known or rejected."""
    others: list[Other]
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


class Noted(Taken):
    """The outcomes of received changes, by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[Name, tuple[Change, str]] = {}

    def note(self, change: Change, outcome: Outcome) -> None:
        super().note(change, outcome)
        self.outcomes[Name(change.origin, change.n)] = (change, outcome)

    def add(self, later: Taken) -> None:
        super().add(later)
        if isinstance(later, Noted):
            self.outcomes |= later.outcomes


def read(said: Any, form: type[M]) -> M:
    """Decode a message. A malformed change is rejected on its own, not the whole message.

    Unknown fields come from another release and are ignored.
    """
    learn(form)
    try:
        message = msgspec.convert(said, form)
        must_fit(message)
    except (msgspec.ValidationError, Invalid):
        message = msgspec.convert(_without_unreadable(said), form)
        must_fit(message)
    return message


def _without_unreadable(said: Any) -> Any:
    """Replace each unreadable change or state by an empty one, which is always rejected."""
    if not isinstance(said, dict):
        return said
    for name, empty in (("changes", _NO_CHANGE), ("states", _NO_STATE)):
        if isinstance(items := said.get(name), list):
            said = {**said, name: [item if _fits(item, type(empty)) else empty for item in items]}
    return said


def _fits(item: Any, form: type[Change] | type[State]) -> bool:
    learn(form)
    try:
        must_fit(msgspec.convert(item, form))
    except (msgspec.ValidationError, Invalid):
        return False
    return True


def must_fit(said: Any) -> None:
    """Raise Invalid if a message contains a number out of range, a NUL or an overlong name."""
    match said:
        case bool() | bytes() | None:
            return
        case int():
            if abs(said) > MAX_NUMBER:
                raise Invalid("The message contains a number out of range.")
        case str():
            if "\x00" in said:
                raise Invalid("The message must not contain NUL.")
        case Struct():
            for name in said.__struct_fields__:
                value = getattr(said, name)
                _must_be_short([value] if name in NAMES else [])
                must_fit(value)
        case dict():
            _must_be_short(said)
            must_fit([*said, *said.values()])
        case _:
            for one in said:
                must_fit(one)


def _must_be_short(names: Iterable[str | None]) -> None:
    if any(name and len(name) > MAX_NAME_CHARS for name in names):
        raise Invalid(f"The message contains a name of more than {MAX_NAME_CHARS} characters.")


def kinds() -> list[str]:
    return sorted(KINDS)


def must_speak(protocol: int, who: str) -> int:
    """Return the newest protocol version both support; raises Conflict if there is none."""
    if protocol < OLDEST:
        raise Conflict(
            f"{who} uses protocol {protocol}, this release supports {OLDEST} to {PROTOCOL}. Upgrade the older one."
        )
    return min(protocol, PROTOCOL)


def told_of(page: Page) -> list[Change]:
    """Return the changes of a page and its snapshots, wrapped as changes."""
    return [*page.changes, *map(as_change, page.states)]


def introduced(sender: Greeting, changes: Sequence[Change]) -> Greeting:
    """Return the handshake reduced to what a page needs."""
    origins = {change.origin for change in changes}
    return replace(sender, vector={}, authors={o: key for o, key in sender.authors.items() if o in origins})


def answered(page: Page, noted: Noted, followed: int, protocol: int, entered: Sequence[Place]) -> TakeAnswer:
    """Build the response to a page."""
    names = [Name(change.origin, change.n) for change in told_of(page)]
    rest = [(change, outcome) for name, (change, outcome) in noted.outcomes.items() if name not in set(names)]
    others = [_other(one.change, "rejected", one) for one in noted.rejected]
    return TakeAnswer(
        protocol=protocol,
        followed=followed,
        outcomes=[_outcome(noted, name) for name in names],
        others=others + [_other(change, outcome) for change, outcome in rest],
        entered=(entered[0].seq, entered[-1].seq) if entered else None,
        conflicts=sorted(noted.disputes.on),
        settled=sorted(noted.disputes.off),
        deleted=sorted(noted.fates.on),
        restored=sorted(noted.fates.off),
    )


def _outcome(noted: Noted, name: Name) -> str:
    if name in noted.refused:
        return "rejected"
    return noted.outcomes[name][1] if name in noted.outcomes else "known"


def _other(change: Change, outcome: str, why: Rejected | None = None) -> Other:
    return Other(
        origin=change.origin,
        n=change.n,
        kind=change.kind,
        record=change.record,
        op=change.op,
        outcome=outcome,
        reason=why.reason if why else "",
        detail=why.detail if why else "",
    )

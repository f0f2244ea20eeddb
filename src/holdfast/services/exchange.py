"""Taking what another store tells: checked, joined and journalled in one transaction a page, with an outcome each."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..domain.change import Change, Name, signed
from ..domain.errors import Conflict, StoreError
from ..storage import signer
from ..storage.exchange import Greeting, Page
from ..storage.port import Session
from ..storage.records import Writing
from ..storage.taking import Outcome, Reason, Refused, Taking
from .hold import Hold

GOVERNING = ("policy", "agent", "memory_grant", "standard")
"""What decides over others: taken only from a store that is trusted to."""
RETRIED: tuple[Reason, ...] = ("waits", "future", "unknown_kind")
"""What may be taken later."""


class Rejected(NamedTuple):
    """A change that was not taken, and why."""

    change: Change
    reason: Reason
    detail: str


class Taken:
    """What became of the changes that were told."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, Outcome]] = Counter()
        self.new: set[str] = set()
        self.updated: set[str] = set()
        self.same: set[str] = set()
        self.deleted: set[str] = set()
        self.links: set[str] = set()
        self.conflicts = 0
        self.refused: dict[Name, Rejected] = {}
        self.known = 0

    @property
    def rejected(self) -> list[Rejected]:
        """What was not taken in the end."""
        return list(self.refused.values())

    def note(self, change: Change, outcome: Outcome) -> None:
        self.outcomes[change.kind, outcome] += 1
        self.conflicts += outcome == "conflict"
        if change.kind == "link" and outcome != "noop":
            self.links.add(change.record)
        if change.kind != "memory":
            return
        if outcome == "new":
            self.new.add(change.record)
        elif outcome == "noop":
            self.same.add(change.record)
        else:
            self.updated.add(change.record)
        if change.op in ("delete", "purge") and outcome != "noop":
            self.deleted.add(change.record)

    @property
    def memories(self) -> int:
        """How many memories are other than before."""
        return len(self.new | self.updated)


def take_page(
    hold: Hold,
    write: Writing,
    page: Page,
    sender: Greeting,
    taken: Taken,
    *,
    owner: str | None = None,
    governs: bool = True,
) -> None:
    """Take a page inside a transaction. What cannot be taken is kept in quarantine with its reason."""
    keys = _keys(write.session, sender)
    taking = Taking(write, owner=owner, files=page.files)
    fresh = _unknown(write.session, page.changes)
    taken.known += len(page.changes) - len(fresh)
    while fresh:
        took = _take(write, taking, fresh, keys, taken, sender, governs=governs)
        fresh = _waiting(write.session) if took else []
    taking.finish()
    _learn(write, sender, {change.origin for change in page.changes})


def _take(
    write: Writing,
    taking: Taking,
    changes: Sequence[Change],
    keys: dict[str, bytes],
    taken: Taken,
    sender: Greeting,
    *,
    governs: bool,
) -> int:
    """How many were taken; what waited may be next."""
    took = 0
    for change in changes:
        name = Name(change.origin, change.n)
        try:
            _must_be_signed(change, keys)
            if not governs and change.kind in GOVERNING:
                raise Refused("not_allowed", f"A {change.kind} is taken only from a store that may govern this one.")
            taken.note(change, taking.take(change))
            write.session.do("quarantine_drop", origin=change.origin, n=change.n)
            taken.refused.pop(name, None)
            took += 1
        except StoreError:
            raise
        except Refused as error:
            _put_aside(write, change, error, sender)
            taken.refused[name] = Rejected(change, error.reason, error.detail)
    return took


def _unknown(session: Session, changes: Sequence[Change]) -> list[Change]:
    """Those that are not here yet, each once."""
    numbers: dict[str, set[int]] = {}
    for change in changes:
        numbers.setdefault(change.origin, set()).add(change.n)
    known = {
        Name(origin, row[0])
        for origin, many in numbers.items()
        for row in session.rows("change_known", origin=origin, numbers=sorted(many))
    }
    fresh: dict[Name, Change] = {}
    for change in changes:
        name = Name(change.origin, change.n)
        if name not in known:
            fresh.setdefault(name, change)
    return list(fresh.values())


def _waiting(session: Session) -> list[Change]:
    rows = session.rows("quarantine_list")
    return [msgspec.json.decode(row[4], type=Change) for row in rows if row[2] in RETRIED]


def _keys(session: Session, sender: Greeting) -> dict[str, bytes]:
    """By which each origin signs: as it was told first."""
    known = {origin: key for origin, key, _ in session.rows("author_list")}
    own = {origin: key for origin, key, _ in session.rows("signer_list")}
    return {origin: bytes.fromhex(key) for origin, key in sender.authors.items()} | known | own


def _must_be_signed(change: Change, keys: dict[str, bytes]) -> None:
    key = keys.get(change.origin)
    if key is None:
        raise Refused("unsigned", f"Nobody has told who signs for {change.origin}.")
    if not signer.verifies(key, bytes.fromhex(change.signature), signed(change)):
        raise Refused("forged", "Its signature is not that of its author: it was forged or altered.")


def _put_aside(write: Writing, change: Change, why: Refused, sender: Greeting) -> None:
    write.session.do(
        "quarantine_put",
        origin=change.origin,
        n=change.n,
        reason=why.reason,
        detail=why.detail,
        change=msgspec.json.encode(change).decode(),
        peer=sender.node,
        now=write.now,
    )


def _learn(write: Writing, sender: Greeting, origins: set[str]) -> None:
    for origin in sorted(origins & sender.authors.keys()):
        key = bytes.fromhex(sender.authors[origin])
        write.session.do("author_add", origin=origin, public_key=key, node=origin.partition(".")[0], now=write.now)
    write.learnt.update(origins)


def must_be_another(here: Greeting, there: Greeting) -> None:
    if here.origin == there.origin:
        raise Conflict("Both are the same store: there is nothing to exchange.")

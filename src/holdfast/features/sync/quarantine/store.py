"""Tables of quarantined and dropped changes."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.kernel import ids
from holdfast.kernel.errors import NotFound
from holdfast.kernel.records.change import Change, Name, digest, signed
from holdfast.kernel.storage.port import Row, Session

RETRIED = ("waits", "future", "unknown_kind")
"""Reasons of changes that may become applicable by themselves."""
VOUCHED = (*RETRIED, "scope", "governance")
"""Reasons of changes with a valid signature of their author."""


class Quarantined(NamedTuple):
    """A rejected change with its reason and sender."""

    change: Change
    reason: str
    detail: str
    peer: str
    """The node that sent it last."""
    kept_at: int
    tried_at: int
    tries: int

    @property
    def name(self) -> Name:
        return Name(self.change.origin, self.change.n)

    @property
    def id(self) -> str:
        return id_of(self.change.origin, self.change.n)


def id_of(origin: str, n: int) -> str:
    """Return the public id of a change: a hash, since remote names must not appear in paths."""
    return ids.derived("quarantined", origin, str(n))


def page(session: Session, *, limit: int, skip: int) -> tuple[list[Quarantined], int]:
    """Return a page of quarantined changes, newest first, with their total."""
    rows = session.rows("quarantine_page", limit=limit, skip=skip)
    return [_quarantined(row[:-1]) for row in rows], rows[0][-1] if rows else len(session.rows("quarantine_names"))


def every(session: Session) -> list[Quarantined]:
    """List all quarantined changes in order of arrival."""
    return [_quarantined(row) for row in session.rows("quarantine_list")]


def of_reasons(session: Session, reasons: Sequence[str]) -> list[Quarantined]:
    """List quarantined changes with one of the reasons, in order of arrival."""
    return [_quarantined(row) for row in session.rows("quarantine_of", reasons=list(reasons))]


def out_of_scope(session: Session, limit: int) -> list[Quarantined]:
    """List the newest changes outside their sender's namespaces, in order of arrival."""
    return [_quarantined(row) for row in reversed(session.rows("quarantine_refused", limit=limit))]


def one(session: Session, id: str) -> Quarantined:
    for origin, n in session.rows("quarantine_names"):
        if id_of(origin, n) == id:
            row = session.row("quarantine_get", origin=origin, n=n)
            assert row is not None
            return _quarantined(row)
    raise NotFound("No such change in quarantine. List them with `holdfast quarantine list`.", id=id)


def drop(session: Session, held: Quarantined, agent: str, now: int) -> None:
    """Delete a change and remember its digest, so it is rejected from now on."""
    change = held.change
    session.do("quarantine_drop", origin=change.origin, n=change.n)
    names = {"origin": change.origin, "n": change.n, "reason": held.reason}
    session.do("dropped_put", digest=digest_of(change), **names, now=now, agent=agent)


def dropped(session: Session) -> frozenset[str]:
    """Return the digests of dropped changes; a different change with the same number has another digest."""
    return frozenset(row[0] for row in session.rows("dropped_list"))


def purge(session: Session, kind: str, record: str, seen: Mapping[str, int]) -> None:
    """Erase the content of quarantined changes of a record that a purge covers.

    A change with a valid signature keeps its number and is applied later like any erased change.
    """
    for held in every(session):
        change = held.change
        if (change.kind, change.record) != (kind, record) or change.at > seen.get(change.origin, -1):
            continue
        if held.reason in VOUCHED and change.erased is None:
            erased = replace(change, body=None, delta=None, erased=digest(change.body, change.delta))
            session.do(
                "quarantine_erase", origin=change.origin, n=change.n, change=msgspec.json.encode(erased).decode()
            )
        elif held.reason not in VOUCHED:
            session.do("quarantine_drop", origin=change.origin, n=change.n)


def digest_of(change: Change) -> str:
    return sha256(signed(change) + change.signature.encode()).hexdigest()


def _quarantined(row: Row) -> Quarantined:
    _, _, reason, detail, change, peer, kept_at, tried_at, tries = row
    return Quarantined(msgspec.json.decode(change, type=Change), reason, detail, peer, kept_at, tried_at, tries)

"""Tables of quarantined and dropped changes."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import NotFound
from holdfast.kernel.records.change import Change, ChangeId, digest, signed_bytes
from holdfast.kernel.records.fields import PRIVATE, Named, computed
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import Time, derive_id

RETRYABLE = ("waits", "future", "unknown_kind")
"""Reasons of changes that may become applicable by themselves."""
AUTHENTIC = (*RETRYABLE, "scope", "governance")
"""Reasons of changes with a valid signature of their author."""


class QuarantinedChange(Struct, frozen=True):
    """A rejected change of another store, with its reason and sender."""

    change: Annotated[Change, PRIVATE]
    reason: str
    detail: str
    peer: str
    """The node that sent it last."""
    recorded_at: Annotated[Time, Named("kept_at")]
    tried_at: Time
    tries: int
    peer_name: str | None = None
    """The name of that node as a peer."""

    @property
    def name(self) -> ChangeId:
        return ChangeId(self.change.origin, self.change.n)

    @computed
    def id(self) -> str:
        return get_id(self.change.origin, self.change.n)

    @computed
    def kind(self) -> str:
        return self.change.kind

    @computed
    def record(self) -> str:
        return self.change.record

    @computed
    def action(self) -> str:
        return self.change.op

    @computed
    def origin(self) -> str:
        """The replica that made it, by its own account."""
        return self.change.origin

    @computed
    def number(self) -> int:
        return self.change.n

    @computed
    def actor(self) -> str:
        return self.change.actor

    @computed
    def made_at(self) -> Time:
        """When it was made, by its own account."""
        return (self.change.at >> 16) * 1000

    @computed
    def memory_id(self) -> str | None:
        """The memory it is about."""
        return self.change.about


class QuarantinedChangeDetails(QuarantinedChange, frozen=True):
    """A rejected change with its content."""

    @computed
    def says(self) -> str | None:
        """The record or edit as sent, unless a purge erased it."""
        return self.change.content


def get_id(origin: str, n: int) -> str:
    """Return the public id of a change: a hash, since remote names must not appear in paths."""
    return derive_id("quarantined", origin, str(n))


def list_page(session: Session, *, limit: int, skip: int) -> tuple[list[QuarantinedChange], int]:
    """Return a page of quarantined changes, newest first, with their total."""
    rows = session.rows("quarantine_page", limit=limit, skip=skip)
    return [_to_quarantined(row[:-1]) for row in rows], rows[0][-1] if rows else len(session.rows("quarantine_names"))


def list_all(session: Session) -> list[QuarantinedChange]:
    """List all quarantined changes in order of arrival."""
    return [_to_quarantined(row) for row in session.rows("quarantine_list")]


def list_by_reasons(session: Session, reasons: Sequence[str]) -> list[QuarantinedChange]:
    """List quarantined changes with one of the reasons, in order of arrival."""
    return [_to_quarantined(row) for row in session.rows("quarantine_by_reason", reasons=list(reasons))]


def list_out_of_scope(session: Session, limit: int) -> list[QuarantinedChange]:
    """List the newest changes outside their sender's namespaces, in order of arrival."""
    return [_to_quarantined(row) for row in reversed(session.rows("quarantine_out_of_scope", limit=limit))]


def get_by_id(session: Session, id: str) -> QuarantinedChange:
    for origin, n in session.rows("quarantine_names"):
        if get_id(origin, n) == id:
            row = session.row("quarantine_get", origin=origin, n=n)
            assert row is not None
            return _to_quarantined(row)
    raise NotFound("No such change in quarantine. List them with `holdfast sync quarantine`.", id=id)


def drop_change(session: Session, quarantined: QuarantinedChange, agent: str, now: int) -> None:
    """Delete a change and remember its digest, so it is rejected from now on."""
    change = quarantined.change
    session.do("quarantine_drop", origin=change.origin, n=change.n)
    names = {"origin": change.origin, "n": change.n, "reason": quarantined.reason}
    session.do("dropped_put", digest=change_digest(change), **names, now=now, agent=agent)


def purge_record(session: Session, kind: str, record: str, seen: Mapping[str, int]) -> None:
    """Erase the content of quarantined changes of a record that a purge covers.

    A change with a valid signature keeps its number and is applied later like any erased change.
    """
    for entry in list_all(session):
        change = entry.change
        if (change.kind, change.record) != (kind, record) or change.at > seen.get(change.origin, -1):
            continue
        if entry.reason in AUTHENTIC and change.erased is None:
            erased = replace(change, body=None, delta=None, erased=digest(change.body, change.delta))
            session.do(
                "quarantine_erase", origin=change.origin, n=change.n, change=msgspec.json.encode(erased).decode()
            )
        elif entry.reason not in AUTHENTIC:
            session.do("quarantine_drop", origin=change.origin, n=change.n)


def change_digest(change: Change) -> str:
    """Hash a change; a different change with the same number has another digest."""
    return sha256(signed_bytes(change) + change.signature.encode()).hexdigest()


def _to_quarantined(row: Row) -> QuarantinedChange:
    _, _, reason, detail, change, *rest = row
    return QuarantinedChange(msgspec.json.decode(change, type=Change), reason, detail, *rest)

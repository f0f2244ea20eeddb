"""A change as it travels between stores: what its author said, word for word, and signed."""

import re
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast.kernel.clock import STATE, Stamp, too_far
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.merge import AWAITED, Cell

FORM = 1
"""The version of what a signature covers."""
MOST_WORDS = 4 * 1024 * 1024
"""Bytes of one change: a version of a skill is the largest."""
MAX_NUMBER = 2**62
"""The largest number that any store can keep."""
MAX_NAME_CHARS = 512
ERASED_UNSEEN = "purged"
"""Stands for the digest of what was purged before its author ever told it to anybody."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One journalled change of a record, by the store in which it was made."""

    origin: str
    n: int
    """Its number among the changes of its origin, which leave none out."""
    at: int
    """The time of its stamp."""
    actor: str
    op: str
    kind: str
    record: str
    about: str | None = None
    body: str | None = None
    """The whole record, if this created it."""
    delta: str | None = None
    """The cells that it wrote, if it edited one."""
    erased: str | None = None
    """The digest of what it said before a purge took that."""
    signature: str = ""
    group: int = 0
    """Changes of one transaction follow one another with the same number."""

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.at, self.origin)

    @property
    def words(self) -> str | None:
        """What it says; None once that was erased."""
        return self.body if self.delta is None else self.delta


class Name(NamedTuple):
    """By which a change is known everywhere."""

    origin: str
    n: int


def node_of(origin: str) -> str:
    """The node of which an origin is an incarnation."""
    return origin.partition(".")[0]


def digest(body: str | None, delta: str | None) -> str:
    """A digest of what a change says, which remains when that is erased."""
    return sha256(msgspec.json.encode([body if delta is None else None, delta])).hexdigest()


def signed(change: Change) -> bytes:
    """What its author signs."""
    said = change.erased or digest(change.body, change.delta)
    about = (change.origin, change.n, change.at, change.actor, change.op, change.kind, change.record, change.about)
    return msgspec.json.encode([FORM, *about, said])


def mark(origin: str, n: int, at: int, op: str, kind: str, record: str) -> str:
    """Tells two histories of one origin apart: a store brought back from a copy gives a number twice."""
    return sha256(msgspec.json.encode([origin, n, at, op, kind, record])).hexdigest()[:32]


def must_be_named(change: Change) -> None:
    """Raise unless origin and number are such as a store can keep a change under."""
    must_be_name("origin", change.origin)
    if not 1 <= change.n <= MAX_NUMBER:
        raise Invalid("A change has a number from 1 on.")


def must_be_whole(change: Change) -> None:
    """Raise if a change cannot be one, whoever sent it: checked before anything else is done with it."""
    must_be_named(change)
    for field in ("actor", "op", "kind", "record"):
        must_be_name(field, getattr(change, field))
    if change.about is not None:
        must_be_name("about", change.about)
    if not (0 <= change.at <= MAX_NUMBER and 0 <= change.group <= MAX_NUMBER):
        raise Invalid(f"A change has a time and a group from 0 to {MAX_NUMBER:,}.")
    if STATE in (change.origin, change.op):
        raise Invalid("A whole record is not a change.")
    said = [part for part in (change.body, change.delta, change.erased) if part is not None]
    if len(said) != 1:
        raise Invalid("A change is a whole record, or an edit, or erased: one of them.")
    if len(said[0].encode()) > MOST_WORDS:
        raise Invalid(f"A change says at most {MOST_WORDS:,} bytes.")
    if change.erased is not None and change.erased != ERASED_UNSEEN and not _DIGEST.fullmatch(change.erased):
        raise Invalid("erased: the digest of what was erased, 64 hexadecimal digits")


def must_be_name(field: str, name: str) -> None:
    """Raise unless a name can be kept and looked up."""
    if not 0 < len(name) <= MAX_NAME_CHARS or "\x00" in name:
        raise Invalid(f"{field}: 1 to {MAX_NAME_CHARS} characters without NUL")


def must_agree(change: Change, written: dict[str, Cell]) -> None:
    """Raise if an edit says something else of its own time than its stamp, or speaks for others."""
    for name, cell in written.items():
        own = [stamp for stamp, value in cell.values.items() if value is not AWAITED]
        if own != [change.stamp] or cell.seen.get(change.origin) != change.at:
            raise Invalid(f"{name}: written under another stamp than that of its change.")
        if any(stamp.time > cell.seen.get(stamp.origin, -1) for stamp in cell.values):
            raise Invalid(f"{name}: names a value that its author cannot have seen.")


def ahead(change: Change, written: dict[str, Cell], now_ms: int) -> bool:
    """Whether a change comes from so far in the future that a clock must be wrong."""
    times = [change.at, *(time for cell in written.values() for time in cell.seen.values())]
    return any(too_far(time, now_ms) for time in times)

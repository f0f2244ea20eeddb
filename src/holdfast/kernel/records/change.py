"""A change as it is exchanged between stores: its author's exact content, signed."""

import re
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.merge import AWAITED, FieldState
from holdfast.kernel.timestamps import RECORD_SNAPSHOT, Stamp, is_too_far_ahead

SIGNATURE_VERSION = 1
"""Version of the signed format."""
MAX_CHANGE_BYTES = 4 * 1024 * 1024
"""Size limit of one change; a skill version is the largest."""
MAX_NUMBER = 2**62
"""The largest integer that every engine can store."""
MAX_NAME_CHARS = 512
ERASED_UNSEEN = "purged"
"""Replaces the digest of content that was purged before its author ever sent it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One journalled change of a record, sent by the store that made it or by a relay."""

    origin: str
    n: int
    """Its number among its origin's changes, without gaps."""
    at: int
    """Time of its stamp."""
    actor: str
    op: str
    kind: str
    record: str
    about: str | None = None
    body: str | None = None
    """The whole record, if the change created it."""
    delta: str | None = None
    """The field states that it wrote, if it edited a record."""
    erased: str | None = None
    """Digest of its content before a purge erased it."""
    signature: str = ""
    group: int = 0
    """Transaction number: consecutive changes of one transaction share it."""

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.at, self.origin)

    @property
    def content(self) -> str | None:
        """Its content; None after it was erased."""
        return self.body if self.delta is None else self.delta


class ChangeId(NamedTuple):
    """Identifies a change on every store."""

    origin: str
    n: int


def node_of(origin: str) -> str:
    """Return the node of a replica id."""
    return origin.partition(".")[0]


def digest(body: str | None, delta: str | None) -> str:
    """Hash the content of a change; the digest remains after an erasure."""
    return sha256(msgspec.json.encode([body if delta is None else None, delta])).hexdigest()


def signed_bytes(change: Change) -> bytes:
    """Return the bytes that the author of a change signs."""
    said = change.erased or digest(change.body, change.delta)
    about = (change.origin, change.n, change.at, change.actor, change.op, change.kind, change.record, change.about)
    return msgspec.json.encode([SIGNATURE_VERSION, *about, said])


def history_mark(origin: str, n: int, at: int, op: str, kind: str, record: str) -> str:
    """Hash that distinguishes two histories of one origin: a restored store assigns the same numbers again."""
    return sha256(msgspec.json.encode([origin, n, at, op, kind, record])).hexdigest()[:32]


def check_change_id(change: Change) -> None:
    """Raise unless origin and number are valid."""
    check_name("origin", change.origin)
    if not 1 <= change.n <= MAX_NUMBER:
        raise Invalid(f"n: must be 1 to {MAX_NUMBER:,}")


def check_change(change: Change) -> None:
    """Raise unless a change is well-formed. Runs before any other processing, for every sender."""
    check_change_id(change)
    for field in ("actor", "op", "kind", "record"):
        check_name(field, getattr(change, field))
    if change.about is not None:
        check_name("about", change.about)
    if not (0 <= change.at <= MAX_NUMBER and 0 <= change.group <= MAX_NUMBER):
        raise Invalid(f"at, group: must be 0 to {MAX_NUMBER:,}")
    if RECORD_SNAPSHOT in (change.origin, change.op):
        raise Invalid("origin, op: a whole record is not a change")
    said = [part for part in (change.body, change.delta, change.erased) if part is not None]
    if len(said) != 1:
        raise Invalid("A change needs exactly one of body, delta and erased.")
    if len(said[0].encode()) > MAX_CHANGE_BYTES:
        raise Invalid(f"The content of a change must be at most {MAX_CHANGE_BYTES:,} bytes.")
    if change.erased is not None and change.erased != ERASED_UNSEEN and not _DIGEST.fullmatch(change.erased):
        raise Invalid("erased: must be a digest of 64 hexadecimal digits")


def check_name(field: str, name: str) -> None:
    """Raise unless a name can be stored and looked up."""
    if not 0 < len(name) <= MAX_NAME_CHARS or "\x00" in name:
        raise Invalid(f"{field}: must be 1 to {MAX_NAME_CHARS} characters without NUL")


def check_stamps(change: Change, written: dict[str, FieldState]) -> None:
    """Raise if an edit's states do not match its own stamp, or name values its author cannot have seen."""
    for name, cell in written.items():
        own = [stamp for stamp, value in cell.values.items() if value is not AWAITED]
        if own != [change.stamp] or cell.seen.get(change.origin) != change.at:
            raise Invalid(f"{name}: its stamp differs from that of the change")
        if any(stamp.time > cell.seen.get(stamp.origin, -1) for stamp in cell.values):
            raise Invalid(f"{name}: names a value that its author cannot have seen")


def is_ahead_of_clock(change: Change, written: dict[str, FieldState], now_ms: int) -> bool:
    """Whether a change is so far in the future that a clock must be wrong."""
    times = [change.at, *(time for cell in written.values() for time in cell.seen.values())]
    return any(is_too_far_ahead(time, now_ms) for time in times)

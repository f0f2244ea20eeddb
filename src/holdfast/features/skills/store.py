"""Read skills; store file contents compressed and deduplicated by digest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from holdfast.features.memories.store import reached
from holdfast.features.skills.model import (
    MOST_BYTES,
    SKILL,
    SKILL_VERSION,
    File,
    Skill,
    SkillVersion,
    signed_text,
    skill_id,
)
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import AmbiguousId, Invalid, NotFound, StoreDamaged
from holdfast.kernel.journal import signer
from holdfast.kernel.journal.journal import Break, Entry
from holdfast.kernel.records.change import Change
from holdfast.kernel.storage.port import Part, Row, Session

LEVEL = 10
"""Compression level of zstd: contents are written rarely and read often."""
PIECE = 64 << 10
"""Bytes per row; keeps a page of rows small."""
PAGE = 500
VERSION_COLUMNS = len(SkillVersion.__struct_fields__)


class Shown(NamedTuple):
    """A skill version and its skill."""

    version: SkillVersion
    skill: Skill

    @property
    def current(self) -> bool:
        return self.skill.state == "live" and self.skill.current == self.version.id


def shown_of(row: Row) -> Shown:
    return Shown(SKILL_VERSION.load(row[:VERSION_COLUMNS]), SKILL.load(row[VERSION_COLUMNS:]))


def found(session: Session, caller: Caller, parts: Iterable[Part], params: Mapping[str, Any]) -> list[Shown]:
    """Select versions in the caller's namespaces by SQL clauses."""
    reach, where = reached(caller)
    return [shown_of(row) for row in session.assembled(("skill_found", *reach, *parts), {**where, **params})]


def listed(session: Session, caller: Caller, under: str | None, *, limit: int) -> list[Shown]:
    """List the current versions by name."""
    return found(session, caller, ("skill.current", *_under(under), "skill.in_order"), _place(under) | {"limit": limit})


def page(session: Session, caller: Caller, after: str, *, limit: int) -> list[Shown]:
    """List the current versions by id, after a given id."""
    return found(session, caller, ("skill.current", "skill.after"), {"after": after, "limit": limit})


def every(session: Session, caller: Caller, under: str | None) -> Iterator[Shown]:
    """Iterate all versions of live skills, by id."""
    after, wanted = "", ("skill.live", *_under(under), "skill.after")
    while shown := found(session, caller, wanted, _place(under) | {"after": after, "limit": PAGE}):
        yield from shown
        after = shown[-1].version.id


def count(session: Session, caller: Caller, under: str | None = None) -> int:
    """Count the live skills."""
    reach, where = reached(caller)
    parts = ("skill_count", *reach, "skill.current", *_under(under))
    return int(session.assembled(parts, {**where, **_place(under)})[0][0])


def _under(place: str | None) -> tuple[Part, ...]:
    return () if place is None else ("memory.under",)


def _place(place: str | None) -> dict[str, str]:
    return {} if place is None else {"under": place}


def placed(session: Session, caller: Caller, namespace: str, name: str) -> Shown | None:
    """Return the current version of a name in a namespace, or None."""
    rows = found(session, caller, ("skill.current", "skill.placed"), {"namespace": namespace, "name": name})
    return rows[0] if rows else None


def versions(session: Session, caller: Caller, skill: Skill, *, limit: int) -> list[SkillVersion]:
    """List all versions of a skill, newest first."""
    rows = found(session, caller, ("skill.of",), {"skill": skill.id, "limit": limit})
    return [shown.version for shown in rows]


def changes(session: Session, skill: Skill, *, limit: int) -> list[Entry]:
    """List the journal entries that changed the current version, newest first."""
    return [Entry(*row) for row in session.rows("skill_changes", skill=skill.id, limit=limit)]


def resolve(session: Session, caller: Caller, id: str, *, deleted_too: bool = False) -> Shown:
    """Find a version by id, unique id prefix, namespace/name, or unique name."""
    alive: tuple[Part, ...] = () if deleted_too else ("skill.live",)
    rows = found(session, caller, (*alive, "skill.one"), {"id": id})
    rows = rows or _by_name(session, caller, id, deleted_too=deleted_too)
    if not rows and 4 <= len(id) < 32:
        rows = found(session, caller, (*alive, "skill.prefixed"), {"prefix": id})
    if len(rows) > 1:
        raise AmbiguousId(
            f"skill_id: {id!r} matches several skills. Use the id or namespace/name.",
            candidates=[shown.version.id for shown in rows[:10]],
        )
    if not rows:
        raise NotFound(f"No skill {id!r}.", id=id)
    return rows[0]


def _by_name(session: Session, caller: Caller, id: str, *, deleted_too: bool) -> list[Shown]:
    namespace, slash, name = id.rpartition("/")
    if not slash:
        rows = found(session, caller, ("skill.current", "skill.named"), {"name": name})
        return rows or (found(session, caller, ("skill.last", "skill.named"), {"name": name}) if deleted_too else [])
    rows = found(session, caller, ("skill.current", "skill.placed"), {"namespace": namespace, "name": name})
    if rows or not deleted_too:
        return rows
    gone = session.row("skill_get", id=skill_id(namespace, name))
    return found(session, caller, ("skill.one",), {"id": SKILL.load(gone).current}) if gone else []


# File contents


def keep(session: Session, contents: Mapping[str, bytes]) -> None:
    """Store contents by digest, skipping those already stored."""
    digests = sorted(contents)
    held = {row[0] for row in session.rows("skill_piece_held", digests=digests)}
    for digest in digests:
        if digest not in held:
            small = pack(contents[digest])
            pieces = [small[at : at + PIECE] for at in range(0, len(small), PIECE)]
            session.many(
                "skill_piece_add",
                ({"digest": digest, "piece": place, "content": piece} for place, piece in enumerate(pieces)),
            )


def purge(session: Session, digests: set[str]) -> None:
    """Erase contents that no version refers to any more."""
    said = {file.digest for version in _all_versions(session) for file in version.files}
    session.do("skill_piece_purged", digests=sorted(digests - said))


def sweep(session: Session) -> None:
    """Erase all contents that neither a version nor a quarantined change refers to."""
    claimed = _claimed(session)
    session.do("skill_piece_purged", digests=[digest for digest in _held(session) if digest not in claimed])


def content(session: Session, file: File) -> bytes:
    """Read a file; raise if its content does not match its digest."""
    said = kept(session, file.digest, file.size)
    if said is None or len(said) != file.size or sha256(said).hexdigest() != file.digest:
        raise StoreDamaged(
            f"The content of {file.path} does not match its digest. Run `holdfast verify` and restore a backup."
        )
    return said


def kept(session: Session, digest: str, size: int) -> bytes | None:
    """Read the content of a digest, at most `size` bytes; None if missing or unreadable."""
    held = packed(session, digest)
    try:
        return unpack(held, size) if held else None
    except Invalid:
        return None


def packed(session: Session, digest: str) -> bytes:
    """Read the compressed content of a digest; empty if missing."""
    return b"".join(bytes(row[0]) for row in session.rows("skill_pieces", digest=digest))


def pack(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(content)


def unpack(packed: bytes, most: int = MOST_BYTES) -> bytes:
    """Decompress; raise rather than produce more than `most` bytes."""
    import zstandard

    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as reader:
            content = reader.read(most + 1)
    except zstandard.ZstdError:
        raise Invalid("content: not valid zstd data") from None
    if len(content) > most:
        raise Invalid(f"content: more than {most} bytes")
    return content


# Integrity


def is_forged(session: Session, version: SkillVersion) -> bool:
    """Return whether a version claims a known node as its origin without that node's signature."""
    return any(origin == version.origin for origin, *_ in session.rows("signer_list")) and not signed(session, version)


def signed(session: Session, version: SkillVersion) -> bool:
    """Return whether a known node signed the version and it is unchanged since."""
    known = {origin: public_key for origin, public_key, _ in session.rows("signer_list")}
    return _holds(known, version)


def _holds(known: Mapping[str, bytes], version: SkillVersion) -> bool:
    public_key = known.get(version.origin)
    return public_key is not None and signer.verifies(
        public_key, bytes.fromhex(version.signature), signed_text(version.digest)
    )


def differing(session: Session) -> Iterator[Break]:
    """Find versions whose files or signature differ from the journal."""
    known = {origin: public_key for origin, public_key, _ in session.rows("signer_list")}
    for version in _all_versions(session):
        if version.origin in known and not _holds(known, version):
            yield Break(0, f"the signature of the skill_version {version.id} was edited")
        for file in version.files:
            said = kept(session, file.digest, file.size)
            if said is None or sha256(said).hexdigest() != file.digest:
                yield Break(0, f"the content of {file.path} of the skill_version {version.id} was edited or is missing")
    yield from _unclaimed(session)


def _unclaimed(session: Session) -> Iterator[Break]:
    """Find contents that belong to no version."""
    claimed = _claimed(session)
    for digest in _held(session):
        if digest not in claimed:
            yield Break(0, f"the skill_piece {digest} was inserted without a journal entry")


def _claimed(session: Session) -> set[str]:
    """Return the digests of all versions, including quarantined ones."""
    waiting = [msgspec.json.decode(row[4], type=Change) for row in session.rows("quarantine_list")]
    bodies = [change.body for change in waiting if change.kind == SKILL_VERSION.name and change.body]
    quarantined = [msgspec.json.decode(body, type=SkillVersion) for body in bodies]
    return {file.digest for version in (*_all_versions(session), *quarantined) for file in version.files}


def _held(session: Session) -> Iterator[str]:
    after = ""
    while rows := session.rows("skill_piece_digests", after=after, limit=PAGE):
        yield from (row[0] for row in rows)
        after = rows[-1][0]


def _all_versions(session: Session) -> Iterator[SkillVersion]:
    after = ""
    while rows := session.rows("skill_version_all", after=after, limit=PAGE):
        yield from (SKILL_VERSION.load(row) for row in rows)
        after = rows[-1][0]

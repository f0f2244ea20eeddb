"""Reading skills, and keeping what their files say: compressed, once for all versions that share it."""

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
"""Of zstd: written seldom, read often."""
PIECE = 64 << 10
"""Bytes of a row, so that a page of rows is never too much to hold."""
PAGE = 500
VERSION_COLUMNS = len(SkillVersion.__struct_fields__)


class Shown(NamedTuple):
    """A version and the skill it is one of."""

    version: SkillVersion
    skill: Skill

    @property
    def current(self) -> bool:
        return self.skill.state == "live" and self.skill.current == self.version.id


def shown_of(row: Row) -> Shown:
    return Shown(SKILL_VERSION.load(row[:VERSION_COLUMNS]), SKILL.load(row[VERSION_COLUMNS:]))


def found(session: Session, caller: Caller, parts: Iterable[Part], params: Mapping[str, Any]) -> list[Shown]:
    """The versions of some clauses that lie in the caller's namespaces."""
    reach, where = reached(caller)
    return [shown_of(row) for row in session.assembled(("skill_found", *reach, *parts), {**where, **params})]


def listed(session: Session, caller: Caller, under: str | None, *, limit: int) -> list[Shown]:
    """The current versions, by name."""
    return found(session, caller, ("skill.current", *_under(under), "skill.in_order"), _place(under) | {"limit": limit})


def page(session: Session, caller: Caller, after: str, *, limit: int) -> list[Shown]:
    """The current versions by their ids, on from one."""
    return found(session, caller, ("skill.current", "skill.after"), {"after": after, "limit": limit})


def every(session: Session, caller: Caller, under: str | None) -> Iterator[Shown]:
    """Every version of the skills that there are, by their ids."""
    after, wanted = "", ("skill.live", *_under(under), "skill.after")
    while shown := found(session, caller, wanted, _place(under) | {"after": after, "limit": PAGE}):
        yield from shown
        after = shown[-1].version.id


def count(session: Session, caller: Caller, under: str | None = None) -> int:
    """How many skills there are."""
    reach, where = reached(caller)
    parts = ("skill_count", *reach, "skill.current", *_under(under))
    return int(session.assembled(parts, {**where, **_place(under)})[0][0])


def _under(place: str | None) -> tuple[Part, ...]:
    return () if place is None else ("memory.under",)


def _place(place: str | None) -> dict[str, str]:
    return {} if place is None else {"under": place}


def placed(session: Session, caller: Caller, namespace: str, name: str) -> Shown | None:
    """The current version of a name in a namespace."""
    rows = found(session, caller, ("skill.current", "skill.placed"), {"namespace": namespace, "name": name})
    return rows[0] if rows else None


def versions(session: Session, caller: Caller, skill: Skill, *, limit: int) -> list[SkillVersion]:
    """What was ever said under a name, newest first."""
    rows = found(session, caller, ("skill.of",), {"skill": skill.id, "limit": limit})
    return [shown.version for shown in rows]


def changes(session: Session, skill: Skill, *, limit: int) -> list[Entry]:
    """When which version became the current one, newest first."""
    return [Entry(*row) for row in session.rows("skill_changes", skill=skill.id, limit=limit)]


def resolve(session: Session, caller: Caller, id: str, *, deleted_too: bool = False) -> Shown:
    """The one version that is meant: by its id, by a beginning of it, by namespace/name, or by a name that is alone."""
    alive: tuple[Part, ...] = () if deleted_too else ("skill.live",)
    rows = found(session, caller, (*alive, "skill.one"), {"id": id})
    rows = rows or _by_name(session, caller, id, deleted_too=deleted_too)
    if not rows and 4 <= len(id) < 32:
        rows = found(session, caller, (*alive, "skill.prefixed"), {"prefix": id})
    if len(rows) > 1:
        raise AmbiguousId(
            f"{id!r} means several skills: give the id, or namespace/name.",
            candidates=[shown.version.id for shown in rows[:10]],
        )
    if not rows:
        raise NotFound(f"There is no skill {id!r}.", id=id)
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


# What files say


def keep(session: Session, contents: Mapping[str, bytes]) -> None:
    """Keep what some files say, by their digests; what is there already is left."""
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
    """Erase what some files said, unless a version says it still."""
    said = {file.digest for version in _all_versions(session) for file in version.files}
    session.do("skill_piece_purged", digests=sorted(digests - said))


def sweep(session: Session) -> None:
    """Erase what no version says any more, and none that waits for its time."""
    claimed = _claimed(session)
    session.do("skill_piece_purged", digests=[digest for digest in _held(session) if digest not in claimed])


def content(session: Session, file: File) -> bytes:
    """What a file says, proved by its digest."""
    said = kept(session, file.digest, file.size)
    if said is None or len(said) != file.size or sha256(said).hexdigest() != file.digest:
        raise StoreDamaged(f"What {file.path} says is not what was kept: run `holdfast verify`, restore a backup.")
    return said


def kept(session: Session, digest: str, size: int) -> bytes | None:
    """What is kept under a digest, no more than its size; None: nothing, or nothing that can be read."""
    held = packed(session, digest)
    try:
        return unpack(held, size) if held else None
    except Invalid:
        return None


def packed(session: Session, digest: str) -> bytes:
    """What is kept under a digest, as it is kept; nothing if there is nothing."""
    return b"".join(bytes(row[0]) for row in session.rows("skill_pieces", digest=digest))


def pack(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(content)


def unpack(packed: bytes, most: int = MOST_BYTES) -> bytes:
    """What was packed; more than `most` bytes are never made of it, whatever its head says."""
    import zstandard

    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as reader:
            content = reader.read(most + 1)
    except zstandard.ZstdError:
        raise Invalid("It is not what zstd wrote.") from None
    if len(content) > most:
        raise Invalid(f"It has more than {most} bytes.")
    return content


# Whether all is as it was kept


def is_forged(session: Session, version: SkillVersion) -> bool:
    """Whether a version says of itself that a node of this store signed it, and none did."""
    return any(origin == version.origin for origin, *_ in session.rows("signer_list")) and not signed(session, version)


def signed(session: Session, version: SkillVersion) -> bool:
    """Whether a node of this store signed a version, and nothing in it was changed since."""
    known = {origin: public_key for origin, public_key, _ in session.rows("signer_list")}
    return _holds(known, version)


def _holds(known: Mapping[str, bytes], version: SkillVersion) -> bool:
    public_key = known.get(version.origin)
    return public_key is not None and signer.verifies(
        public_key, bytes.fromhex(version.signature), signed_text(version.digest)
    )


def differing(session: Session) -> Iterator[Break]:
    """Every version whose files or signature are not what its journal says."""
    known = {origin: public_key for origin, public_key, _ in session.rows("signer_list")}
    for version in _all_versions(session):
        if version.origin in known and not _holds(known, version):
            yield Break(0, f"the signature of the skill_version {version.id} was edited")
        for file in version.files:
            said = kept(session, file.digest, file.size)
            if said is None or sha256(said).hexdigest() != file.digest:
                yield Break(0, f"what {file.path} of the skill_version {version.id} says was edited or is gone")
    yield from _unclaimed(session)


def _unclaimed(session: Session) -> Iterator[Break]:
    """What is kept and belongs to no version."""
    claimed = _claimed(session)
    for digest in _held(session):
        if digest not in claimed:
            yield Break(0, f"the skill_piece {digest} was put into its table past the journal")


def _claimed(session: Session) -> set[str]:
    """What belongs to a version, or to one that was told and cannot be taken yet."""
    waiting = [msgspec.json.decode(row[4], type=Change) for row in session.rows("quarantine_list")]
    bodies = [change.body for change in waiting if change.kind == SKILL_VERSION.name and change.body]
    told = [msgspec.json.decode(body, type=SkillVersion) for body in bodies]
    return {file.digest for version in (*_all_versions(session), *told) for file in version.files}


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

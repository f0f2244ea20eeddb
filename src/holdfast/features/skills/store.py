"""Read skills; store file contents compressed and deduplicated by digest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from holdfast.features.memories.store import namespace_clauses
from holdfast.features.skills.model import (
    MAX_BYTES,
    SKILL,
    SKILL_VERSION,
    File,
    Skill,
    SkillVersion,
    signed_text,
    skill_id,
)
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import AmbiguousId, Invalid, NotFound, StoreDamaged
from holdfast.kernel.journal.journal import Entry, is_valid_signature
from holdfast.kernel.journal.verify_chain import JournalFault
from holdfast.kernel.records.change import Change
from holdfast.kernel.storage.port import Row, Session, SqlPart

ZSTD_LEVEL = 10
"""Compression level of zstd: contents are written rarely and read often."""
PIECE_BYTES = 64 << 10
"""Bytes per row; keeps a page of rows small."""
PAGE_SIZE = 500
VERSION_COLUMNS = len(SkillVersion.__struct_fields__)


class SkillEntry(NamedTuple):
    """A skill version and its skill."""

    version: SkillVersion
    skill: Skill

    @property
    def is_current(self) -> bool:
        return self.skill.state == "live" and self.skill.current == self.version.id


def entry_of(row: Row) -> SkillEntry:
    return SkillEntry(SKILL_VERSION.load(row[:VERSION_COLUMNS]), SKILL.load(row[VERSION_COLUMNS:]))


def find_versions(
    session: Session, caller: Caller, parts: Iterable[SqlPart], params: Mapping[str, Any]
) -> list[SkillEntry]:
    """Select versions in the caller's namespaces by SQL clauses."""
    reach, where = namespace_clauses(caller)
    return [entry_of(row) for row in session.select(("skill_with_version", *reach, *parts), {**where, **params})]


def list_current(session: Session, caller: Caller, under: str | None, *, limit: int) -> list[SkillEntry]:
    """List the current versions by name."""
    return find_versions(
        session,
        caller,
        ("skill.current", *_under_clause(under), "skill.in_order"),
        _under_params(under) | {"limit": limit},
    )


def list_page(session: Session, caller: Caller, after: str, *, limit: int) -> list[SkillEntry]:
    """List the current versions by id, after a given id."""
    return find_versions(session, caller, ("skill.current", "skill.after"), {"after": after, "limit": limit})


def iterate_versions(session: Session, caller: Caller, under: str | None) -> Iterator[SkillEntry]:
    """Iterate all versions of live skills, by id."""
    after, parts = "", ("skill.live", *_under_clause(under), "skill.after")
    while entries := find_versions(session, caller, parts, _under_params(under) | {"after": after, "limit": PAGE_SIZE}):
        yield from entries
        after = entries[-1].version.id


def count_skills(session: Session, caller: Caller, under: str | None = None) -> int:
    """Count the live skills."""
    reach, where = namespace_clauses(caller)
    parts = ("skill_count", *reach, "skill.current", *_under_clause(under))
    return int(session.select(parts, {**where, **_under_params(under)})[0][0])


def _under_clause(place: str | None) -> tuple[SqlPart, ...]:
    return () if place is None else ("memory.under",)


def _under_params(place: str | None) -> dict[str, str]:
    return {} if place is None else {"under": place}


def find_current(session: Session, caller: Caller, namespace: str, name: str) -> SkillEntry | None:
    """Return the current version of a name in a namespace, or None."""
    rows = find_versions(session, caller, ("skill.current", "skill.by_path"), {"namespace": namespace, "name": name})
    return rows[0] if rows else None


def list_versions(session: Session, caller: Caller, skill: Skill, *, limit: int) -> list[SkillVersion]:
    """List all versions of a skill, newest first."""
    rows = find_versions(session, caller, ("skill.of_skill",), {"skill": skill.id, "limit": limit})
    return [entry.version for entry in rows]


def list_changes(session: Session, skill: Skill, *, limit: int) -> list[Entry]:
    """List the journal entries that changed the current version, newest first."""
    return [Entry(*row) for row in session.rows("skill_changes", skill=skill.id, limit=limit)]


def resolve(session: Session, caller: Caller, id: str, *, deleted_too: bool = False) -> SkillEntry:
    """Find a version by id, unique id prefix, namespace/name, or unique name."""
    alive: tuple[SqlPart, ...] = () if deleted_too else ("skill.live",)
    rows = find_versions(session, caller, (*alive, "skill.by_id"), {"id": id})
    rows = rows or _find_by_name(session, caller, id, deleted_too=deleted_too)
    if not rows and 4 <= len(id) < 32:
        rows = find_versions(session, caller, (*alive, "skill.by_prefix"), {"prefix": id})
    if len(rows) > 1:
        raise AmbiguousId(
            f"skill_id: {id!r} matches several skills. Use the id or namespace/name.",
            candidates=[entry.version.id for entry in rows[:10]],
        )
    if not rows:
        raise NotFound(f"No skill {id!r}.", id=id)
    return rows[0]


def _find_by_name(session: Session, caller: Caller, id: str, *, deleted_too: bool) -> list[SkillEntry]:
    namespace, slash, name = id.rpartition("/")
    if not slash:
        rows = find_versions(session, caller, ("skill.current", "skill.by_name"), {"name": name})
        return rows or (
            find_versions(session, caller, ("skill.last", "skill.by_name"), {"name": name}) if deleted_too else []
        )
    rows = find_versions(session, caller, ("skill.current", "skill.by_path"), {"namespace": namespace, "name": name})
    if rows or not deleted_too:
        return rows
    row = session.row("skill_get", id=skill_id(namespace, name))
    return find_versions(session, caller, ("skill.by_id",), {"id": SKILL.load(row).current}) if row else []


# File contents


def store_contents(session: Session, contents: Mapping[str, bytes]) -> None:
    """Store contents by digest, skipping those already stored."""
    digests = sorted(contents)
    stored = {row[0] for row in session.rows("skill_piece_existing", digests=digests)}
    for digest in digests:
        if digest not in stored:
            small = compress(contents[digest])
            pieces = [small[at : at + PIECE_BYTES] for at in range(0, len(small), PIECE_BYTES)]
            session.many(
                "skill_piece_add",
                ({"digest": digest, "piece": place, "content": piece} for place, piece in enumerate(pieces)),
            )


def purge_contents(session: Session, digests: set[str]) -> None:
    """Erase contents that no version refers to any more."""
    referenced = {file.digest for version in _iterate_all(session) for file in version.files}
    session.do("skill_piece_delete", digests=sorted(digests - referenced))


def delete_unreferenced(session: Session) -> None:
    """Erase all contents that neither a version nor a quarantined change refers to."""
    claimed = _referenced_digests(session)
    session.do("skill_piece_delete", digests=[digest for digest in _stored_digests(session) if digest not in claimed])


def read_content(session: Session, file: File) -> bytes:
    """Read a file; raise if its content does not match its digest."""
    content = read_stored(session, file.digest, file.size)
    if content is None or len(content) != file.size or sha256(content).hexdigest() != file.digest:
        raise StoreDamaged(
            f"The content of {file.path} does not match its digest. Run `holdfast admin verify` and restore a backup."
        )
    return content


def read_stored(session: Session, digest: str, size: int) -> bytes | None:
    """Read the content of a digest, at most `size` bytes; None if missing or unreadable."""
    compressed = read_compressed(session, digest)
    try:
        return decompress(compressed, size) if compressed else None
    except Invalid:
        return None


def read_compressed(session: Session, digest: str) -> bytes:
    """Read the compressed content of a digest; empty if missing."""
    return b"".join(bytes(row[0]) for row in session.rows("skill_pieces", digest=digest))


def _zstandard() -> ModuleType:
    import zstandard  # only the contents of skills need it

    return zstandard


def compress(content: bytes) -> bytes:
    compressed: bytes = _zstandard().ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(content)
    return compressed


def decompress(compressed: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """Decompress; raise rather than produce more than `max_bytes`."""
    zstandard = _zstandard()
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(compressed) as reader:
            content: bytes = reader.read(max_bytes + 1)
    except zstandard.ZstdError:
        raise Invalid("content: not valid zstd data") from None
    if len(content) > max_bytes:
        raise Invalid(f"content: more than {max_bytes} bytes")
    return content


# Integrity


def is_forged(session: Session, version: SkillVersion) -> bool:
    """Return whether a version claims a known node as its origin without that node's signature."""
    return any(origin == version.origin for origin, *_ in session.rows("signer_list")) and not is_signed(
        session, version
    )


def is_signed(session: Session, version: SkillVersion) -> bool:
    """Return whether a known node signed the version and it is unchanged since."""
    public_keys = {origin: public_key for origin, public_key, _ in session.rows("signer_list")}
    return _verify_signature(public_keys, version)


def _verify_signature(public_keys: Mapping[str, bytes], version: SkillVersion) -> bool:
    public_key = public_keys.get(version.origin)
    return public_key is not None and is_valid_signature(
        public_key, bytes.fromhex(version.signature), signed_text(version.digest)
    )


def find_damage(session: Session) -> Iterator[JournalFault]:
    """Find versions whose files or signature differ from the journal."""
    public_keys = {origin: public_key for origin, public_key, _ in session.rows("signer_list")}
    for version in _iterate_all(session):
        if version.origin in public_keys and not _verify_signature(public_keys, version):
            yield JournalFault(0, f"the signature of the skill_version {version.id} was edited")
        for file in version.files:
            content = read_stored(session, file.digest, file.size)
            if content is None or sha256(content).hexdigest() != file.digest:
                yield JournalFault(
                    0, f"the content of {file.path} of the skill_version {version.id} was edited or is missing"
                )
    yield from _find_orphans(session)


def _find_orphans(session: Session) -> Iterator[JournalFault]:
    """Find contents that belong to no version."""
    claimed = _referenced_digests(session)
    for digest in _stored_digests(session):
        if digest not in claimed:
            yield JournalFault(0, f"the skill_piece {digest} was inserted without a journal entry")


def _referenced_digests(session: Session) -> set[str]:
    """Return the digests of all versions, including quarantined ones."""
    waiting = [msgspec.json.decode(row[4], type=Change) for row in session.rows("quarantine_list")]
    bodies = [change.body for change in waiting if change.kind == SKILL_VERSION.name and change.body]
    quarantined = [msgspec.json.decode(body, type=SkillVersion) for body in bodies]
    return {file.digest for version in (*_iterate_all(session), *quarantined) for file in version.files}


def _stored_digests(session: Session) -> Iterator[str]:
    after = ""
    while rows := session.rows("skill_piece_digests", after=after, limit=PAGE_SIZE):
        yield from (row[0] for row in rows)
        after = rows[-1][0]


def _iterate_all(session: Session) -> Iterator[SkillVersion]:
    after = ""
    while rows := session.rows("skill_version_all", after=after, limit=PAGE_SIZE):
        yield from (SKILL_VERSION.load(row) for row in rows)
        after = rows[-1][0]

"""Contents of the files of skills: compressed, stored once for each digest."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from types import ModuleType

import msgspec

from holdfast.features.skills.model import MAX_BYTES, SKILL_VERSION, File, SkillVersion, signed_text
from holdfast.kernel.errors import Invalid, StoreDamaged
from holdfast.kernel.journal.journal import is_valid_signature
from holdfast.kernel.journal.verify_chain import JournalFault
from holdfast.kernel.records.change import Change
from holdfast.kernel.storage.port import Session

ZSTD_LEVEL = 10
"""Compression level of zstd: contents are written rarely and read often."""


PAGE_SIZE = 500
PIECE_BYTES = 64 << 10
"""Bytes per row; keeps a page of rows small."""


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

"""The bundle file format: changes of a store in a file that is verified completely before any of it is applied.

One line with the format version, then a compressed stream of JSON lines: the head, the items of each page followed by
a page end, and finally a signature of the sender over the digest of everything before.
"""

import zlib
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO

import msgspec
from msgspec import Struct

from holdfast.features.sync.read_changes import Page, VectorEntry
from holdfast.features.sync.record_snapshots import RecordSnapshot
from holdfast.features.sync.wire import must_fit
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.journal import is_valid_signature, sign
from holdfast.kernel.records.change import Change

FORMAT_VERSION = 1
MAGIC = b"holdfast bundle "
CHUNK = 1 << 16
MAX_LINE_BYTES = 16 << 20
"""Bytes of one item: the largest is a record with all its unresolved conflicts."""
MAX_PAGE_BYTES = 256 << 20
"""Bytes of one page, which is applied in one transaction."""
MAX_RATIO = 200
"""Maximum compression ratio; real text compresses less."""
RATIO_FREE_BYTES = 64 << 20
"""Bytes that a file may unpack to whatever its ratio."""


class BundleHead(Struct, frozen=True, kw_only=True):
    """The sender of a bundle and the range of its journal."""

    node: str
    origin: str
    public_key: str
    since: int
    """The bundle contains the sender's journal after this sequence number."""
    before: dict[str, int]
    """Per origin, the number up to which all changes come before `since`."""
    seq: int
    made_at: int
    authors: dict[str, str]
    """Public keys that sign the changes, by origin."""
    release: str
    scope: str = ""
    """Identifies the namespace patterns of its content; empty if it contains everything."""


class PageEnd(Struct, frozen=True, kw_only=True):
    upto: int
    bases: dict[str, VectorEntry] = {}


class BundleItem(Struct, frozen=True, omit_defaults=True):
    """One line of a bundle; exactly one field is set."""

    change: Change | None = None
    state: RecordSnapshot | None = None
    file: tuple[str, bytes] | None = None
    page: PageEnd | None = None
    sealed: str | None = None
    """Signature over everything before."""


class BundleWriter:
    """Write a bundle page by page; at most one page is in memory."""

    def __init__(self, to: BinaryIO, head: BundleHead) -> None:
        self._to, self._compressor, self._digest = to, zlib.compressobj(6), sha256()
        self.bytes = 0
        self._write_bytes(MAGIC + b"%d\n" % FORMAT_VERSION)
        self._write_line(msgspec.json.encode(head))

    def write_page(self, page: Page) -> None:
        for change in page.changes:
            self._write_line(msgspec.json.encode(BundleItem(change=change)))
        for state in page.states:
            self._write_line(msgspec.json.encode(BundleItem(state=state)))
        for digest, packed in page.files.items():
            self._write_line(msgspec.json.encode(BundleItem(file=(digest, packed))))
        self._write_line(msgspec.json.encode(BundleItem(page=PageEnd(upto=page.upto, bases=page.bases))))

    def write_signature(self, key: bytes) -> None:
        """Write the final signature; any change or omission before it is detected."""
        signature = sign(key, bytes_to_sign(self._digest.digest())).hex()
        self._write_line(msgspec.json.encode(BundleItem(sealed=signature)))
        self._write_bytes(self._compressor.flush())

    def _write_line(self, line: bytes) -> None:
        self._digest.update(line + b"\n")
        self._write_bytes(self._compressor.compress(line + b"\n"))

    def _write_bytes(self, packed: bytes) -> None:
        self.bytes += len(packed)
        self._to.write(packed)


def bytes_to_sign(digest: bytes) -> bytes:
    """Return the bytes that the sender signs."""
    return msgspec.json.encode(["bundle", FORMAT_VERSION, digest.hex()])


def read_bundle_file(file: BinaryIO) -> tuple[BundleHead, Iterator[Page]]:
    """Return the head and pages of a bundle. Errors are raised while iterating: read all pages before applying any."""
    lines = _read_lines(file)
    first = next(lines, None)
    try:
        head = msgspec.json.decode(first[0] if first else b"", type=BundleHead)
        must_fit(head)
    except (msgspec.MsgspecError, RecursionError, Invalid):
        raise _bundle_error("its head is unreadable") from None
    return head, _read_pages(head, lines)


def _read_pages(head: BundleHead, lines: Iterator[tuple[bytes, bytes]]) -> Iterator[Page]:
    open_page, size, reached = _empty_page(), 0, head.since
    for line, digest in lines:
        item, size = _parse_item(line), size + len(line)
        if size > MAX_PAGE_BYTES:
            raise _bundle_error(f"a page is larger than {MAX_PAGE_BYTES >> 20} MiB")
        if item.sealed is not None:
            return _must_end_signed(head, item.sealed, digest, lines, empty=_is_empty(open_page))
        if item.page is not None:
            if item.page.upto < reached:
                raise _bundle_error("its pages are out of order")
            yield open_page._replace(upto=item.page.upto, bases=item.page.bases)
            reached, open_page, size = item.page.upto, _empty_page(), 0
            continue
        _add_item(open_page, item)
    raise _bundle_error("it is truncated")


def _empty_page() -> Page:
    return Page([], 0, more=True, files={}, states=[])


def _is_empty(page: Page) -> bool:
    return not (page.changes or page.states or page.files)


def _add_item(page: Page, item: BundleItem) -> None:
    if item.change is not None:
        page.changes.append(item.change)
    elif item.state is not None:
        page.states.append(item.state)
    elif item.file is not None:
        page.files[item.file[0]] = item.file[1]


def _parse_item(line: bytes) -> BundleItem:
    try:
        item = msgspec.json.decode(line, type=BundleItem)
        must_fit(item)
        return item
    except (msgspec.MsgspecError, RecursionError, Invalid) as error:
        raise _bundle_error(f"a line is unreadable ({error})") from None


def _must_end_signed(
    head: BundleHead, signature: str, digest: bytes, lines: Iterator[tuple[bytes, bytes]], *, empty: bool
) -> None:
    try:
        whole = is_valid_signature(bytes.fromhex(head.public_key), bytes.fromhex(signature), bytes_to_sign(digest))
    except ValueError:
        whole = False
    if not whole or not empty:
        raise _bundle_error("its signature does not match: it was altered")
    if next(lines, None) is not None:
        raise _bundle_error("there is data after its end")


def _read_lines(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield every line with the digest of all lines before it."""
    digest, parts, size = sha256(), list[bytes](), 0
    for piece in _decompress(file):
        *whole, rest = piece.split(b"\n")
        for part in whole:
            line = b"".join([*parts, part])
            yield line, digest.digest()
            digest.update(line + b"\n")
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE_BYTES:
            raise _bundle_error(f"a line is longer than {MAX_LINE_BYTES >> 20} MiB")
    if size:
        raise _bundle_error("it is truncated")


def _decompress(file: BinaryIO) -> Iterator[bytes]:
    """Decompress a bundle piece by piece; raise on a decompression bomb."""
    _must_be_a_bundle(file)
    unpacking, bytes_in, bytes_out = zlib.decompressobj(), 0, 0
    try:
        while chunk := unpacking.unconsumed_tail or file.read(CHUNK):
            bytes_in += 0 if unpacking.unconsumed_tail else len(chunk)
            piece = unpacking.decompress(chunk, CHUNK)
            bytes_out += len(piece)
            if bytes_out > RATIO_FREE_BYTES and bytes_out > MAX_RATIO * bytes_in:
                raise _bundle_error("its compression ratio is too high")
            yield piece
            if unpacking.eof:
                break
    except zlib.error as error:
        raise _bundle_error(f"it cannot be unpacked ({error})") from None
    if not unpacking.eof:
        raise _bundle_error("it is truncated")
    if unpacking.unused_data or file.read(1):
        raise _bundle_error("there is data after its end")


def _must_be_a_bundle(file: BinaryIO) -> None:
    first = file.readline(64)
    form = first.removeprefix(MAGIC).strip()
    if not first.startswith(MAGIC) or not form.isdigit():
        raise _bundle_error("it is a different kind of file")
    if int(form) > FORMAT_VERSION:
        raise Invalid("A later release wrote this bundle. Upgrade Holdfast, then import it.", fields=["file"])


def _bundle_error(what: str) -> Invalid:
    return Invalid(f"Not a valid bundle: {what}. Nothing was changed.", fields=["file"])

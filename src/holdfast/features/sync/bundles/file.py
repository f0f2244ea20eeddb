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

from holdfast.features.sync.read_changes import Page, Reached
from holdfast.features.sync.snapshot import State
from holdfast.features.sync.wire import must_fit
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import signer
from holdfast.kernel.records.change import Change

FORM = 1
MAGIC = b"holdfast bundle "
CHUNK = 1 << 16
MOST_LINE = 16 << 20
"""Bytes of one item: the largest is a record with all its unresolved conflicts."""
MOST_PAGE = 256 << 20
"""Bytes of one page, which is applied in one transaction."""
MOST_RATIO = 200
"""Maximum compression ratio; real text compresses less."""
FREE = 64 << 20
"""Bytes that a file may unpack to whatever its ratio."""


class Head(Struct, frozen=True, kw_only=True):
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
    bases: dict[str, Reached] = {}


class Item(Struct, frozen=True, omit_defaults=True):
    """One line of a bundle; exactly one field is set."""

    change: Change | None = None
    state: State | None = None
    file: tuple[str, bytes] | None = None
    page: PageEnd | None = None
    sealed: str | None = None
    """Signature over everything before."""


class Writer:
    """Write a bundle page by page; at most one page is in memory."""

    def __init__(self, to: BinaryIO, head: Head) -> None:
        self._to, self._packing, self._digest = to, zlib.compressobj(6), sha256()
        self.bytes = 0
        self._put(MAGIC + b"%d\n" % FORM)
        self._line(msgspec.json.encode(head))

    def page(self, page: Page) -> None:
        for change in page.changes:
            self._line(msgspec.json.encode(Item(change=change)))
        for state in page.states:
            self._line(msgspec.json.encode(Item(state=state)))
        for digest, packed in page.files.items():
            self._line(msgspec.json.encode(Item(file=(digest, packed))))
        self._line(msgspec.json.encode(Item(page=PageEnd(upto=page.upto, bases=page.bases))))

    def seal(self, key: bytes) -> None:
        """Write the final signature; any change or omission before it is detected."""
        signature = signer.sign(key, sealed(self._digest.digest())).hex()
        self._line(msgspec.json.encode(Item(sealed=signature)))
        self._put(self._packing.flush())

    def _line(self, line: bytes) -> None:
        self._digest.update(line + b"\n")
        self._put(self._packing.compress(line + b"\n"))

    def _put(self, packed: bytes) -> None:
        self.bytes += len(packed)
        self._to.write(packed)


def sealed(digest: bytes) -> bytes:
    """Return the bytes that the sender signs."""
    return msgspec.json.encode(["bundle", FORM, digest.hex()])


def read(file: BinaryIO) -> tuple[Head, Iterator[Page]]:
    """Return the head and pages of a bundle. Errors are raised while iterating: read all pages before applying any."""
    lines = _lines(file)
    first = next(lines, None)
    try:
        head = msgspec.json.decode(first[0] if first else b"", type=Head)
        must_fit(head)
    except (msgspec.MsgspecError, RecursionError, Invalid):
        raise _broken("its head is unreadable") from None
    return head, _pages(head, lines)


def _pages(head: Head, lines: Iterator[tuple[bytes, bytes]]) -> Iterator[Page]:
    open_page, size, reached = _nothing(), 0, head.since
    for line, digest in lines:
        item, size = _item(line), size + len(line)
        if size > MOST_PAGE:
            raise _broken(f"a page is larger than {MOST_PAGE >> 20} MiB")
        if item.sealed is not None:
            return _must_end(head, item.sealed, digest, lines, empty=_is_empty(open_page))
        if item.page is not None:
            if item.page.upto < reached:
                raise _broken("its pages are out of order")
            yield open_page._replace(upto=item.page.upto, bases=item.page.bases)
            reached, open_page, size = item.page.upto, _nothing(), 0
            continue
        _add(open_page, item)
    raise _broken("it is truncated")


def _nothing() -> Page:
    return Page([], 0, more=True, files={}, states=[])


def _is_empty(page: Page) -> bool:
    return not (page.changes or page.states or page.files)


def _add(page: Page, item: Item) -> None:
    if item.change is not None:
        page.changes.append(item.change)
    elif item.state is not None:
        page.states.append(item.state)
    elif item.file is not None:
        page.files[item.file[0]] = item.file[1]


def _item(line: bytes) -> Item:
    try:
        item = msgspec.json.decode(line, type=Item)
        must_fit(item)
        return item
    except (msgspec.MsgspecError, RecursionError, Invalid) as error:
        raise _broken(f"a line is unreadable ({error})") from None


def _must_end(head: Head, signature: str, digest: bytes, lines: Iterator[tuple[bytes, bytes]], *, empty: bool) -> None:
    try:
        whole = signer.verifies(bytes.fromhex(head.public_key), bytes.fromhex(signature), sealed(digest))
    except ValueError:
        whole = False
    if not whole or not empty:
        raise _broken("its signature does not match: it was altered")
    if next(lines, None) is not None:
        raise _broken("there is data after its end")


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield every line with the digest of all lines before it."""
    digest, begun, size = sha256(), list[bytes](), 0
    for piece in _unpacked(file):
        *whole, rest = piece.split(b"\n")
        for part in whole:
            line = b"".join([*begun, part])
            yield line, digest.digest()
            digest.update(line + b"\n")
            begun, size = [], 0
        begun.append(rest)
        size += len(rest)
        if size > MOST_LINE:
            raise _broken(f"a line is longer than {MOST_LINE >> 20} MiB")
    if size:
        raise _broken("it is truncated")


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Decompress a bundle piece by piece; raise on a decompression bomb."""
    _must_be_a_bundle(file)
    unpacking, taken, given = zlib.decompressobj(), 0, 0
    try:
        while chunk := unpacking.unconsumed_tail or file.read(CHUNK):
            taken += 0 if unpacking.unconsumed_tail else len(chunk)
            piece = unpacking.decompress(chunk, CHUNK)
            given += len(piece)
            if given > FREE and given > MOST_RATIO * taken:
                raise _broken("its compression ratio is too high")
            yield piece
            if unpacking.eof:
                break
    except zlib.error as error:
        raise _broken(f"it cannot be unpacked ({error})") from None
    if not unpacking.eof:
        raise _broken("it is truncated")
    if unpacking.unused_data or file.read(1):
        raise _broken("there is data after its end")


def _must_be_a_bundle(file: BinaryIO) -> None:
    first = file.readline(64)
    form = first.removeprefix(MAGIC).strip()
    if not first.startswith(MAGIC) or not form.isdigit():
        raise _broken("it is a different kind of file")
    if int(form) > FORM:
        raise Invalid("A later release wrote this bundle. Upgrade Holdfast, then import it.", fields=["file"])


def _broken(what: str) -> Invalid:
    return Invalid(f"Not a valid bundle: {what}. Nothing was changed.", fields=["file"])

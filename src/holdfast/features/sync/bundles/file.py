"""The form of a bundle: what a store tells, as a file that can be checked to its last byte before any of it is taken.

A line that names the form, then, compressed, one JSON value a line: the head, the items of each page with the page's
end behind them, and at last the digest of all that, signed by the sender.
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
"""Bytes of one item: the longest is a record with all that nobody has settled about it."""
MOST_PAGE = 256 << 20
"""Bytes of what was committed at once, which is taken at once."""
MOST_RATIO = 200
"""No text that anybody wrote gets so much smaller."""
FREE = 64 << 20
"""So much may come out of a small file, whatever its ratio."""


class Head(Struct, frozen=True, kw_only=True):
    """Whose bundle it is, and what of whose journal is in it."""

    node: str
    origin: str
    public_key: str
    since: int
    """What is behind this place of the sender's journal is in it."""
    before: dict[str, int]
    """What the sender had told of every origin up to there."""
    seq: int
    made_at: int
    authors: dict[str, str]
    """Who signs for the changes in it."""
    release: str
    scope: str = ""
    """Names the patterns of what is in it, if that is not all."""


class PageEnd(Struct, frozen=True, kw_only=True):
    upto: int
    bases: dict[str, Reached] = {}


class Item(Struct, frozen=True, omit_defaults=True):
    """One line: one of these."""

    change: Change | None = None
    state: State | None = None
    file: tuple[str, bytes] | None = None
    page: PageEnd | None = None
    sealed: str | None = None
    """The signature over everything before."""


class Writer:
    """Writes a bundle as it is told; never more than a page is in memory."""

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
        """The end: whoever changes a byte before it, or leaves some out, is found."""
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
    """What the sender signs."""
    return msgspec.json.encode(["bundle", FORM, digest.hex()])


def read(file: BinaryIO) -> tuple[Head, Iterator[Page]]:
    """The head of a bundle and its pages. What is wrong with it is raised where it is found: read all before taking."""
    lines = _lines(file)
    first = next(lines, None)
    try:
        head = msgspec.json.decode(first[0] if first else b"", type=Head)
        must_fit(head)
    except (msgspec.MsgspecError, RecursionError, Invalid):
        raise _broken("its head cannot be read") from None
    return head, _pages(head, lines)


def _pages(head: Head, lines: Iterator[tuple[bytes, bytes]]) -> Iterator[Page]:
    open_page, size, reached = _nothing(), 0, head.since
    for line, digest in lines:
        item, size = _item(line), size + len(line)
        if size > MOST_PAGE:
            raise _broken(f"what was committed at once is more than {MOST_PAGE >> 20} MiB")
        if item.sealed is not None:
            return _must_end(head, item.sealed, digest, lines, empty=_is_empty(open_page))
        if item.page is not None:
            if item.page.upto < reached:
                raise _broken("its pages are not in order")
            yield open_page._replace(upto=item.page.upto, bases=item.page.bases)
            reached, open_page, size = item.page.upto, _nothing(), 0
            continue
        _add(open_page, item)
    raise _broken("its end is missing: it was cut off")


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
        raise _broken(f"a line cannot be read ({error})") from None


def _must_end(head: Head, signature: str, digest: bytes, lines: Iterator[tuple[bytes, bytes]], *, empty: bool) -> None:
    try:
        whole = signer.verifies(bytes.fromhex(head.public_key), bytes.fromhex(signature), sealed(digest))
    except ValueError:
        whole = False
    if not whole or not empty:
        raise _broken("its signature is not that of its sender: it was altered")
    if next(lines, None) is not None:
        raise _broken("something follows its end")


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Every line, with the digest of all lines before it."""
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
        raise _broken("its end is missing: it was cut off")


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """What is in it, a piece at a time, and never much more than there can be."""
    _must_be_a_bundle(file)
    unpacking, taken, given = zlib.decompressobj(), 0, 0
    try:
        while chunk := unpacking.unconsumed_tail or file.read(CHUNK):
            taken += 0 if unpacking.unconsumed_tail else len(chunk)
            piece = unpacking.decompress(chunk, CHUNK)
            given += len(piece)
            if given > FREE and given > MOST_RATIO * taken:
                raise _broken("it unpacks to more than any text does")
            yield piece
            if unpacking.eof:
                break
    except zlib.error as error:
        raise _broken(f"it cannot be unpacked ({error})") from None
    if not unpacking.eof:
        raise _broken("its end is missing: it was cut off")
    if unpacking.unused_data or file.read(1):
        raise _broken("something follows its end")


def _must_be_a_bundle(file: BinaryIO) -> None:
    first = file.readline(64)
    form = first.removeprefix(MAGIC).strip()
    if not first.startswith(MAGIC) or not form.isdigit():
        raise _broken("it is something else")
    if int(form) > FORM:
        raise Invalid("The bundle was written by a later release: upgrade this one, then import it.", fields=["file"])


def _broken(what: str) -> Invalid:
    return Invalid(f"This is no whole bundle: {what}. Nothing was changed.", fields=["file"])

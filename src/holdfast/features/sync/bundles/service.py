"""Write changes to a bundle file and apply a bundle of another store."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple

from holdfast.features.admin.backup import filing, local_path, must_be_local, must_reach_all
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.bundles.file import CHUNK, Head, Writer, read
from holdfast.features.sync.endpoint import StoreEnd
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.read_changes import Greeting
from holdfast.features.sync.receive_changes import Taken
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import rehearsed
from holdfast.kernel.records.change import node_of
from holdfast.kernel.records.namespace_patterns import ALL, Scope
from holdfast.kernel.storage.port import Session
from holdfast.version import __version__

STREAM = "-"
PAGE = 500


class Bundled(NamedTuple):
    """Contents of a written bundle."""

    since: int
    upto: int
    """The next bundle starts after this sequence number."""
    changes: int
    states: int
    bytes: int


class Taking(NamedTuple):
    """Result of an applied bundle."""

    head: Head
    upto: int
    taken: Taken


def write_bundle(hold: Hold, file: str, since: int, peer: str | None = None) -> Bundled:
    """Write the journal after `since` to a signed file, atomically; with `peer`, only what that peer may read."""
    must_reach_all(hold)
    must_be_local(hold, "file")
    with hold.reading() as session:
        scope = ALL if peer is None else _scope(session, peer)
    key = hold.signing_key()
    with hold.reading() as session:
        head = _head(hold, session, since, scope)
    with created(file) as to:
        return _write(hold, to, head, key, scope)


def _scope(session: Session, name: str) -> Scope:
    if peer := peers.by_name(session, name):
        return peer.scope
    raise NotFound(f"No peer {name!r}. List peers with `holdfast peers list`.", peer=name)


def _head(hold: Hold, session: Session, since: int, scope: Scope) -> Head:
    greeting = telling.greet(session, hold.now(), scope)
    if since > greeting.seq:
        raise Invalid(f"since: at most {greeting.seq}, the end of the journal (got {since})", fields=["since"])
    return Head(
        node=greeting.node,
        origin=greeting.origin,
        public_key=journal.head_of(session).public_key.hex(),
        since=since,
        before=telling.numbers_at(session, since) if since else {},
        seq=greeting.seq,
        made_at=greeting.now,
        authors=greeting.authors,
        release=__version__,
        scope=greeting.scope,
    )


def _write(hold: Hold, to: BinaryIO, head: Head, key: bytes, scope: Scope) -> Bundled:
    """Write page by page, each in its own read transaction, at least up to the end of the journal at the start."""
    writer, after, changes, states = Writer(to, head), head.since, 0, 0
    while after < head.seq:
        with hold.reading() as session:
            page = telling.feed(session, key, after, {}, PAGE, scope)
        writer.page(page)
        after, changes, states = page.upto, changes + len(page.changes), states + len(page.states)
        hold.progress(after - head.since, max(after, head.seq) - head.since, "bundling")
    writer.seal(key)
    return Bundled(head.since, after, changes, states, writer.bytes)


@contextmanager
def created(file: str) -> Iterator[BinaryIO]:
    """Open a private temporary file and rename it once it is complete and synced; `-` is standard output."""
    if file == STREAM:
        if sys.stdout is None:
            raise Invalid("There is no standard output to write to.", fields=["file"])
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = local_path(file)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with filing(path):
        try:
            with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as to:
                yield to
                to.flush()
                os.fsync(to.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def read_bundle(
    hold: Hold, file: str, *, trust_sender: bool = False, trust_source: bool = False, dry_run: bool = False
) -> Taking:
    """Verify a whole bundle, then apply it page by page; each page is durable before the next."""
    must_reach_all(hold)
    must_be_local(hold, "file")
    with _spooled(file) as spool:
        head = _checked(spool)
        with hold.reading() as session:
            _must_be_another(session, head)
            _must_be_known(session, head, trust_sender=trust_sender)
            _must_follow(session, head)
        with rehearsed(hold) if dry_run else nullcontext(hold) as there:
            return _take(there, spool, head, owner=None if trust_source else hold.caller.agent)


@contextmanager
def _spooled(file: str) -> Iterator[BinaryIO]:
    """Copy the file, so that it cannot change between verification and use."""
    import tempfile

    with filing(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as spool:
        with opened(file) as given:
            while chunk := given.read(CHUNK):
                spool.write(chunk)
        yield spool


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    if file == STREAM:
        if sys.stdin is None:
            raise Invalid("There is no standard input to read from.", fields=["file"])
        yield sys.stdin.buffer
        return
    try:
        given = local_path(file).open("rb")
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}", fields=["file"]) from None
    with given:
        yield given


def _checked(spool: BinaryIO) -> Head:
    """Read the whole bundle and return its head; raises unless complete and signed by its sender."""
    spool.seek(0)
    head, pages = read(spool)
    for _ in pages:
        pass
    return head


def _must_be_another(session: Session, head: Head) -> None:
    if journal.head_of(session).origin == head.origin:
        raise Conflict("This store wrote the bundle itself: nothing to import.")


def _must_be_known(session: Session, head: Head, *, trust_sender: bool) -> None:
    """Raise Forbidden unless the sender is an enrolled peer, is known from an earlier exchange, or is trusted."""
    if node_of(head.origin) != head.node or head.authors.get(head.origin) != head.public_key:
        raise Invalid("The bundle names two different senders. Nothing was changed.", fields=["file"])
    peer, told = peers.by_node(session, head.node), session.rows("author_list")
    key = peer.public_key if peer else next((key for origin, key, _ in told if origin == head.origin), None)
    if key is not None and bytes(key).hex() != head.public_key:
        raise Forbidden(
            f"The bundle claims to be from {head.node}, but a different key signed it. Nothing was changed."
        )
    heard = any(node == head.node and bytes(key).hex() == head.public_key for _, key, node in told)
    if not (peer or heard or trust_sender):
        raise Forbidden(
            f"The bundle is from {head.node}, which is not an enrolled peer (key {head.public_key[:16]}…). Enrol it "
            "with `holdfast peers add` or, if you trust the file, import it with --trust-sender."
        )


def _must_follow(session: Session, head: Head) -> None:
    """Raise Conflict if the bundle would leave a gap, by the cursor or by the version vector."""
    followed, known = _followed(session, head), telling.numbers(session)
    missing = {origin: (known.get(origin, 0) + 1, n) for origin, n in head.before.items() if known.get(origin, 0) < n}
    if head.since <= followed or not missing:
        return
    named = "; ".join(f"changes {first} to {last} of {origin}" for origin, (first, last) in sorted(missing.items())[:5])
    raise Conflict(
        f"The bundle starts after change {head.since} of {head.node}, but this store has changes up to {followed}: "
        f"{named} would be missing. Export again with --since {followed}.",
        since=followed,
    )


def _take(hold: Hold, spool: BinaryIO, head: Head, owner: str | None) -> Taking:
    """Apply the pages, skipping those applied before."""
    spool.seek(0)
    _, pages = read(spool)
    with hold.reading() as session:
        scope, followed = peers.scope_of(session, head.node), _followed(session, head)
    end, taken, upto = StoreEnd(hold, owner=owner, scope=scope), Taken(), head.since
    for page in pages:
        upto = page.upto
        if upto > followed:
            end.take(page, _sender(head, upto), taken)
        hold.progress(upto - head.since, max(upto, head.seq) - head.since, "applying")
    return Taking(head, upto, taken)


def _followed(session: Session, head: Head) -> int:
    """Return the cursor for the sender; 0 if its namespace patterns changed."""
    row = session.row("followed_get", origin=head.origin)
    return row[0] if row and row[1] == head.scope else 0


def _sender(head: Head, upto: int) -> Greeting:
    return Greeting(
        node=head.node,
        origin=head.origin,
        seq=max(upto, head.seq),
        now=head.made_at,
        vector={},
        authors=head.authors,
        scope=head.scope,
    )

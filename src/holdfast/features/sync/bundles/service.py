"""Write changes to a bundle file and apply a bundle of another store."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from holdfast.features.sync import read_changes
from holdfast.features.sync.apply_changes import RejectedChangeView, SyncResult
from holdfast.features.sync.bundles.file import CHUNK, BundleHead, BundleWriter, read_bundle_file
from holdfast.features.sync.exchange import LocalEndpoint
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.read_changes import Handshake
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.local_files import local_path, translate_os_errors
from holdfast.kernel.records.change import node_of
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope
from holdfast.kernel.storage.port import Session
from holdfast.version import __version__

STREAM = "-"
PAGE = 500


class BundleExportResult(Struct, frozen=True, kw_only=True):
    file: str
    since: int
    next: int
    """Pass this as `since` of the next bundle."""
    changes: int
    states: int
    """Full records whose changes were compacted."""
    bytes: int


class BundleImportResult(Struct, frozen=True, kw_only=True):
    node: str
    """The node that wrote the bundle."""
    since: int
    next: int
    """The new cursor in that store's journal."""
    imported: int
    """New or changed memories."""
    deletes: int
    links: int
    conflicts: int
    rejected: int
    errors: list[RejectedChangeView]
    dry_run: bool


def write_bundle(ctx: Context, file: str, since: int, peer: str | None = None) -> BundleExportResult:
    """Write the journal after `since` to a signed file, atomically; with `peer`, only what that peer may read."""
    ctx.caller.require_all_namespaces()
    ctx.caller.require_local("file")
    with ctx.reading() as session:
        scope = FULL_SCOPE if peer is None else _get_peer_scope(session, peer)
    key = ctx.signing_key()
    with ctx.reading() as session:
        head = _build_head(ctx, session, since, scope)
    with create_file(file) as to:
        return _write_pages(ctx, to, file, head, key, scope)


def _get_peer_scope(session: Session, name: str) -> PeerScope:
    if peer := peers.find_by_name(session, name):
        return peer.scope
    raise NotFound(f"No peer {name!r}. List peers with `holdfast sync peers`.", peer=name)


def _build_head(ctx: Context, session: Session, since: int, scope: PeerScope) -> BundleHead:
    greeting = read_changes.build_handshake(session, ctx.now(), scope)
    if since > greeting.seq:
        raise Invalid(f"since: at most {greeting.seq}, the end of the journal (got {since})", fields=["since"])
    return BundleHead(
        node=greeting.node,
        origin=greeting.origin,
        public_key=journal.get_head(session).public_key.hex(),
        since=since,
        before=read_changes.read_numbers_at(session, since) if since else {},
        seq=greeting.seq,
        made_at=greeting.now,
        authors=greeting.authors,
        release=__version__,
        scope=greeting.scope,
    )


def _write_pages(
    ctx: Context, to: BinaryIO, file: str, head: BundleHead, key: bytes, scope: PeerScope
) -> BundleExportResult:
    """Write page by page, each in its own read transaction, at least up to the end of the journal at the start."""
    writer, after, changes, states = BundleWriter(to, head), head.since, 0, 0
    while after < head.seq:
        with ctx.reading() as session:
            page = read_changes.read_page(session, key, after, {}, PAGE, scope)
        writer.write_page(page)
        after, changes, states = page.upto, changes + len(page.changes), states + len(page.states)
        ctx.progress(after - head.since, max(after, head.seq) - head.since, "bundling")
    writer.write_signature(key)
    return BundleExportResult(
        file=file, since=head.since, next=after, changes=changes, states=states, bytes=writer.bytes
    )


@contextmanager
def create_file(file: str) -> Iterator[BinaryIO]:
    """Open a private temporary file and rename it once it is complete and synced; `-` is standard output."""
    if file == STREAM:
        if sys.stdout is None:
            raise Invalid("There is no standard output to write to.", fields=["file"])
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = local_path(file)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with translate_os_errors(path):
        try:
            with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as to:
                yield to
                to.flush()
                os.fsync(to.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def read_bundle(
    ctx: Context, file: str, *, trust_sender: bool = False, trust_source: bool = False, dry_run: bool = False
) -> BundleImportResult:
    """Verify a whole bundle, then apply it page by page; each page is durable before the next."""
    ctx.caller.require_all_namespaces()
    ctx.caller.require_local("file")
    with _spool_file(file) as spool:
        head = _verify_bundle(spool)
        with ctx.reading() as session:
            _must_be_another(session, head)
            _must_be_known(session, head, trust_sender=trust_sender)
            _must_follow(session, head)
        with open_dry_run(ctx) if dry_run else nullcontext(ctx) as there:
            upto, result = _apply_pages(there, spool, head, owner=None if trust_source else ctx.caller.agent)
    return BundleImportResult(
        node=head.node,
        since=head.since,
        next=upto,
        imported=result.memory_count,
        deletes=len(result.deleted_ids),
        links=len(result.links),
        conflicts=result.conflicts,
        rejected=len(result.list_rejected),
        errors=result.describe_rejected("here"),
        dry_run=dry_run,
    )


@contextmanager
def _spool_file(file: str) -> Iterator[BinaryIO]:
    """Copy the file, so that it cannot change between verification and use."""
    with translate_os_errors(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as spool:
        with open_file(file) as source:
            while chunk := source.read(CHUNK):
                spool.write(chunk)
        yield spool


@contextmanager
def open_file(file: str) -> Iterator[BinaryIO]:
    if file == STREAM:
        if sys.stdin is None:
            raise Invalid("There is no standard input to read from.", fields=["file"])
        yield sys.stdin.buffer
        return
    try:
        source = local_path(file).open("rb")
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}", fields=["file"]) from None
    with source:
        yield source


def _verify_bundle(spool: BinaryIO) -> BundleHead:
    """Read the whole bundle and return its head; raises unless complete and signed by its sender."""
    spool.seek(0)
    head, pages = read_bundle_file(spool)
    for _ in pages:
        pass
    return head


def _must_be_another(session: Session, head: BundleHead) -> None:
    if journal.get_head(session).origin == head.origin:
        raise Conflict("This store wrote the bundle itself: nothing to import.")


def _must_be_known(session: Session, head: BundleHead, *, trust_sender: bool) -> None:
    """Raise Forbidden unless the sender is an enrolled peer, is known from an earlier exchange, or is trusted."""
    if node_of(head.origin) != head.node or head.authors.get(head.origin) != head.public_key:
        raise Invalid("The bundle names two different senders. Nothing was changed.", fields=["file"])
    peer, authors = peers.find_by_node(session, head.node), session.rows("replica_list")
    key = peer.public_key if peer else next((key for origin, key, _ in authors if origin == head.origin), None)
    if key is not None and bytes(key).hex() != head.public_key:
        raise Forbidden(
            f"The bundle claims to be from {head.node}, but a different key signed it. Nothing was changed."
        )
    is_known = any(node == head.node and bytes(key).hex() == head.public_key for _, key, node in authors)
    if not (peer or is_known or trust_sender):
        raise Forbidden(
            f"The bundle is from {head.node}, which is not an enrolled peer (key {head.public_key[:16]}…). Enrol it "
            "with `holdfast sync peers add` or, if you trust the file, import it with --trust-sender."
        )


def _must_follow(session: Session, head: BundleHead) -> None:
    """Raise Conflict if the bundle would leave a gap, by the cursor or by the version vector."""
    followed, known = _get_cursor(session, head), read_changes.read_numbers(session)
    missing = {origin: (known.get(origin, 0) + 1, n) for origin, n in head.before.items() if known.get(origin, 0) < n}
    if head.since <= followed or not missing:
        return
    gaps = "; ".join(f"changes {first} to {last} of {origin}" for origin, (first, last) in sorted(missing.items())[:5])
    raise Conflict(
        f"The bundle starts after change {head.since} of {head.node}, but this store has changes up to {followed}: "
        f"{gaps} would be missing. Export again with --since {followed}.",
        since=followed,
    )


def _apply_pages(ctx: Context, spool: BinaryIO, head: BundleHead, owner: str | None) -> tuple[int, SyncResult]:
    """Apply the pages, skipping those applied before; return the end of the range and the outcomes."""
    spool.seek(0)
    _, pages = read_bundle_file(spool)
    with ctx.reading() as session:
        scope, followed = peers.get_scope(session, head.node), _get_cursor(session, head)
    end, result, upto = LocalEndpoint(ctx, owner=owner, scope=scope), SyncResult(), head.since
    for page in pages:
        upto = page.upto
        if upto > followed:
            end.apply_changes(page, _build_handshake(head, upto), result)
        ctx.progress(upto - head.since, max(upto, head.seq) - head.since, "applying")
    return upto, result


def _get_cursor(session: Session, head: BundleHead) -> int:
    """Return the cursor for the sender; 0 if its namespace patterns changed."""
    row = session.row("sync_cursor_get", origin=head.origin)
    return row[0] if row and row[1] == head.scope else 0


def _build_handshake(head: BundleHead, upto: int) -> Handshake:
    return Handshake(
        node=head.node,
        origin=head.origin,
        seq=max(upto, head.seq),
        now=head.made_at,
        vector={},
        authors=head.authors,
        scope=head.scope,
    )

"""Bring two stores in sync: transfer exactly the changes that each is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.features.sync import read_changes, restore_fork
from holdfast.features.sync.apply_changes import (
    ChangeApplier,
    Endpoint,
    SyncResult,
    find_forked_origins,
    is_different,
    require_different_stores,
)
from holdfast.features.sync.quarantine.service import QuarantineRetry
from holdfast.features.sync.read_changes import Handshake, Page
from holdfast.features.sync.restore_fork import RepairResult
from holdfast.kernel.context import SILENT, Context, Progress
from holdfast.kernel.errors import HoldfastError, StoreError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.journal.transaction import TypedLocals
from holdfast.kernel.records.change import ChangeId, node_of
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope
from holdfast.kernel.storage.open_by_address import open_existing

if TYPE_CHECKING:
    from holdfast.features.sync.peers.client import PeerClient  # an HTTP client is slow to import

Direction = Literal["pull", "push", "merge"]
PAGE = 500
_URL = re.compile(r"https?://", re.IGNORECASE)


class ExchangeResult(NamedTuple):
    """The result of an exchange, per direction."""

    pulled: SyncResult
    pushed: SyncResult
    moved: bool = False
    """Whether a cursor advanced on either side."""
    repairs: tuple[RepairResult, ...] = ()
    """Stores restored from a copy that continue under a new replica id."""
    forked_origins: frozenset[str] = frozenset()
    """Forked origins of third stores, which those stores must repair."""

    @property
    def conflicts(self) -> int:
        """Count new conflicts; the same conflict on both sides counts once."""
        both = self.pulled.conflict_changes.on | self.pushed.conflict_changes.on
        return max(len(both), self.pulled.conflicts, self.pushed.conflicts)


def sync_with(
    here: Context, address: str, direction: Direction, *, dry_run: bool = False, trust_source: bool = False
) -> ExchangeResult:
    """Sync this store with a server or another store; never creates a store."""
    here.caller.require_all_namespaces()
    here.caller.require_local("remote")
    if _URL.match(address):
        from holdfast.features.sync.peers.client import PeerClient  # an HTTP client is slow to import
        from holdfast.features.sync.remote_endpoint import get_access  # an HTTP client is slow to import

        with closing(PeerClient(address, get_access(here, address))) as client:
            return sync_with_server(here, client, direction, dry_run=dry_run, owner=_get_owner(here, trust_source))
    with closing(open_existing(address)) as store:
        there = replace(here, store=store, local=TypedLocals(), flagged=[])
        return sync_stores(here, there, direction, dry_run=dry_run, trust_source=trust_source)


def sync_stores(
    here: Context, there: Context, direction: Direction, *, dry_run: bool = False, trust_source: bool = False
) -> ExchangeResult:
    """Sync two stores that this process can open."""
    mine = LocalEndpoint(here, owner=_get_owner(here, trust_source))
    return sync_endpoints(mine, LocalEndpoint(there), direction, dry_run=dry_run, progress=here.progress)


def sync_with_server(
    ctx: Context,
    client: PeerClient,
    direction: Direction,
    *,
    owner: str | None = None,
    dry_run: bool = False,
    limit: int = 0,
    stays: bool = False,
) -> ExchangeResult:
    """Sync with a server and record the result for `sync status`. `stays`: the server is synced repeatedly."""
    from holdfast.features.sync import status  # an HTTP client is slow to import
    from holdfast.features.sync.remote_endpoint import RemoteEndpoint, get_scope  # an HTTP client is slow to import

    there = RemoteEndpoint(ctx, client, dry_run=dry_run)
    try:
        here = LocalEndpoint(ctx, owner=owner, scope=get_scope(ctx, there, client.name))
        done = sync_endpoints(here, there, direction, dry_run=dry_run, limit=limit, progress=ctx.progress)
    except HoldfastError as error:
        ctx.progress.check()
        if not dry_run:
            with suppress(StoreError):  # the original error is raised anyway
                status.record_failure(ctx, client.name, error, stays=stays)
        raise
    if not dry_run:
        there.record_status()
        counts = {"pulled": done.pulled.memory_count, "pushed": done.pushed.memory_count, "conflicts": done.conflicts}
        status.record_success(ctx, client.name, there.read_handshake().node, **counts)
    return done._replace(moved=done.moved and not there.is_in_sync())


def _get_owner(here: Context, trust_source: bool) -> str | None:
    """Return the owner of pulled memories: the caller, or None (keep the author) if the source is trusted."""
    return None if trust_source else here.caller.agent


def sync_endpoints(
    here: Endpoint,
    there: Endpoint,
    direction: Direction,
    *,
    dry_run: bool = False,
    limit: int = 0,
    progress: Progress = SILENT,
) -> ExchangeResult:
    """Sync two endpoints: handshake, repair forks, then per direction read the missing changes and apply them.

    The source of a page reads it. Its target runs the other stages, in one transaction: verify, merge, commit
    listeners, advance the cursor (`LocalEndpoint.apply_changes`; a server does the same with each page it receives).
    """
    require_different_stores(here.read_handshake(), there.read_handshake())
    repairs = () if dry_run else tuple(repair_forks(here, there, only_here=direction == "pull"))
    result = ExchangeResult(SyncResult(), SyncResult(), repairs=repairs, forked_origins=find_forks(here, there))
    for name, source, target, outcomes in (("pull", there, here, result.pulled), ("push", here, there, result.pushed)):
        if direction in ("merge", name):
            pages = read_missing_pages(source, target, limit or PAGE, progress)
            moved = apply_pages(target, pages, outcomes, dry_run=dry_run)
            result = result._replace(moved=result.moved or moved)
    return result


def read_missing_pages(
    source: Endpoint, target: Endpoint, limit: int, progress: Progress = SILENT
) -> Iterator[tuple[Page, Handshake]]:
    """Read the changes that the target is missing, in pages."""
    known = {origin: entry.n for origin, entry in target.read_handshake().vector.items()}
    return read_pages(source, find_cursor(source, target), known, limit, progress)


def read_pages(
    source: Endpoint, after: int, known: Mapping[str, int], limit: int, progress: Progress = SILENT
) -> Iterator[tuple[Page, Handshake]]:
    """Yield pages of changes after a sequence number, without known ones, each with the source's current handshake."""
    more = after < source.read_handshake().seq
    while more:
        page, sender = source.read_changes(after, known, limit), source.read_handshake()
        if page.upto > after or page.states:
            yield page, sender
        progress(page.upto, sender.seq, "exchanging")
        after, more = page.upto, page.more


def apply_pages(
    target: Endpoint, pages: Iterable[tuple[Page, Handshake]], result: SyncResult, *, dry_run: bool = False
) -> bool:
    """Apply pages to the target; each is durable before the next is read. Return whether there were any.

    A dry run reads all pages first, so no transaction waits for the source, and is rolled back.
    """
    pages = list(pages) if dry_run else pages
    moved = False
    with target.open_dry_run() if dry_run else nullcontext(target) as endpoint:
        for page, sender in pages:
            endpoint.apply_changes(page, sender, result)
            moved = True
    return moved


def find_cursor(source: Endpoint, target: Endpoint) -> int:
    """Return the cursor of the target; 0 if it is beyond the end of the source's journal."""
    sender = source.read_handshake()
    cursor = target.get_cursor(sender)
    return cursor if cursor <= sender.seq else 0


class LocalEndpoint:
    """The endpoint of a store that this process can open."""

    def __init__(self, ctx: Context, *, owner: str | None = None, scope: PeerScope = FULL_SCOPE) -> None:
        self.ctx = replace(ctx, quorum=None)
        """Exchanged changes do not wait for a quorum."""
        self.scope = scope
        """The namespaces that the other endpoint may read and write."""
        self._owner = owner
        """The owner of new memories; None keeps the author."""
        self.last_positions: Sequence[journal.Position] = ()
        """The journal positions of the last applied page."""

    def find_forked_origins(self, asker: Handshake) -> frozenset[str]:
        with self.ctx.reading() as session:
            return find_forked_origins(session, asker)

    def forget_handshake(self) -> None:
        """Do nothing: the handshake is read from the store every time."""

    def read_handshake(self) -> Handshake:
        with self.ctx.reading() as session:
            return read_changes.build_handshake(session, self.ctx.now(), self.scope)

    def get_cursor(self, sender: Handshake) -> int:
        with self.ctx.reading() as session:
            return read_changes.get_cursor(session, sender)

    def read_changes(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Read a page without writing; a copy without its signing key sends its own changes as snapshots."""
        with self.ctx.reading() as session:
            return read_changes.read_page(session, self.ctx.store.signing_key(session), after, known, limit, self.scope)

    def apply_changes(self, page: Page, sender: Handshake, result: SyncResult) -> None:
        """Verify a page, merge it and advance the cursor in one transaction; then retry quarantined changes.

        Before the transaction commits, its listeners write notices and advance the version vector.
        """
        before = len(result.applied)
        with self.ctx.transaction() as write:
            applier = ChangeApplier(write, sender, result, owner=self._owner, scope=self.scope, files=page.files)
            applier.merge(applier.verify(page))
            applier.finish(page.bases)
            read_changes.advance_cursor(write.session, sender, page.upto, write.now)
        self.last_positions = write.positions
        if applier.has_quarantined:
            self._retry_quarantined(page, result, applied=len(result.applied) > before)

    def _retry_quarantined(self, page: Page, result: SyncResult, *, applied: bool) -> None:
        """Retry changes in quarantine that a page may have made applicable, in separate transactions."""
        retry = QuarantineRetry(self.ctx, result, owner=self._owner, scope=self.scope, files=page.files)
        retry.after_page({ChangeId(change.origin, change.n) for change in page.changes}, applied=applied)
        self.last_positions = [*self.last_positions, *retry.positions]

    @contextmanager
    def open_dry_run(self) -> Iterator[Endpoint]:
        with open_dry_run(self.ctx) as ctx:
            yield LocalEndpoint(ctx, owner=self._owner, scope=self.scope)


def repair_forks(here: Endpoint, there: Endpoint, *, only_here: bool = False) -> list[RepairResult]:
    """Repair whichever local store was restored from a copy, before any change is exchanged.

    `only_here`: leave a source that is only read unchanged, if all its changes are known here.
    """
    repairs = []
    for mine, other in ((here, there), (there, here)):
        if isinstance(mine, LocalEndpoint):
            theirs = other.read_handshake()
            is_left = only_here and mine is there and _knows_all_of(other, mine.read_handshake())
            if not is_left and _is_forked(mine.ctx, theirs):
                repairs.append(restore_fork.repair_own_fork(mine.ctx, other, is_trusted=mine.scope.admin))
            renamed = _list_renamed_origins(mine.ctx, other)
            repairs += [restore_fork.follow_repair(mine.ctx, other, origin) for origin in renamed]
            if repairs:
                other.forget_handshake()
    return repairs


def find_forks(here: Endpoint, there: Endpoint) -> frozenset[str]:
    """Find forked origins of third stores: one of the two endpoints received changes of a copy."""
    return here.find_forked_origins(there.read_handshake()) | there.find_forked_origins(here.read_handshake())


def _knows_all_of(here: Endpoint, theirs: Handshake) -> bool:
    """Whether a store has the last own change of another store, and so all before it."""
    last = theirs.vector.get(theirs.origin)
    if last is None or not isinstance(here, LocalEndpoint):
        return last is None
    with here.ctx.reading() as session:
        return read_changes.find_mark(session, theirs.origin, last.n) == last.mark


def _is_forked(ctx: Context, theirs: Handshake) -> bool:
    """Whether another store has more or different changes of the current replica id of this one."""
    with ctx.reading() as session:
        origin = journal.get_head(session).origin
        claimed = theirs.vector.get(origin)
        if claimed is None:
            return False
        last = read_changes.read_numbers(session).get(origin, 0)
        return claimed.n > last or is_different(session, origin, claimed)


def _list_renamed_origins(ctx: Context, other: Endpoint) -> list[str]:
    """List the forked origins of another store that it continues under a new replica id."""
    theirs = other.read_handshake()
    with ctx.reading() as session:
        mine = read_changes.build_handshake(session, ctx.now())
        own = {origin for origin, *_ in session.rows("signer_list")}
        forked = find_forked_origins(session, theirs) | other.find_forked_origins(mine)
    return sorted(name for name in forked - own if name in mine.vector and _is_renamed(theirs, name))


def _is_renamed(theirs: Handshake, origin: str) -> bool:
    return node_of(origin) == theirs.node and origin != theirs.origin

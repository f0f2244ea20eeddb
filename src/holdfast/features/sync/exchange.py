"""Bring two stores in sync: transfer exactly the changes that each is missing."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from holdfast.features.sync.endpoint import Endpoint, LocalEndpoint
from holdfast.features.sync.fork_store import RepairResult
from holdfast.features.sync.read_changes import Handshake, Page
from holdfast.features.sync.receive_changes import SyncResult, must_be_different_stores
from holdfast.features.sync.restore_fork import find_forks, repair_forks
from holdfast.kernel.context import SILENT, Context, Progress

Direction = Literal["pull", "push", "merge"]
PAGE = 500


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


def sync_stores(
    here: Context, there: Context, direction: Direction, *, dry_run: bool = False, trust_source: bool = False
) -> ExchangeResult:
    """Sync two stores that this process can open."""
    mine = LocalEndpoint(here, owner=get_owner(here, trust_source))
    return sync_endpoints(mine, LocalEndpoint(there), direction, dry_run=dry_run, progress=here.progress)


def get_owner(here: Context, trust_source: bool) -> str | None:
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
    """Sync two endpoints: repair forks, then pull, then push."""
    must_be_different_stores(here.read_handshake(), there.read_handshake())
    mended = () if dry_run else tuple(repair_forks(here, there, only_here=direction == "pull"))
    done = ExchangeResult(SyncResult(), SyncResult(), repairs=mended, forked_origins=find_forks(here, there))
    ways = {"pull": (there, here, done.pulled), "push": (here, there, done.pushed)}
    transfer = preview_changes if dry_run else transfer_changes
    directions = ways.values() if direction == "merge" else [ways[direction]]
    moved = [transfer(source, target, result, limit or PAGE, progress) for source, target, result in directions]
    return done._replace(moved=any(moved))


def transfer_changes(
    source: Endpoint, target: Endpoint, result: SyncResult, limit: int, progress: Progress = SILENT
) -> bool:
    """Transfer all changes the target is missing; each page is durable before the next. Return whether any moved."""
    moved = False
    for page, sender in _read_pages(source, target, limit, progress):
        target.apply_changes(page, sender, result)
        moved = True
    return moved


def preview_changes(
    source: Endpoint, target: Endpoint, result: SyncResult, limit: int, progress: Progress = SILENT
) -> bool:
    """Transfer in a dry run that is rolled back. Reads all pages first, so no transaction waits for the source."""
    pages = list(_read_pages(source, target, limit, progress))
    with target.open_dry_run() as pretended:
        for page, sender in pages:
            pretended.apply_changes(page, sender, result)
    return bool(pages)


def _read_pages(source: Endpoint, target: Endpoint, limit: int, progress: Progress) -> Iterator[tuple[Page, Handshake]]:
    """Yield the pages that the target is missing, each with the current handshake of the source."""
    known = {origin: reached.n for origin, reached in target.read_handshake().vector.items()}
    after = _find_cursor(source, target)
    more = after < source.read_handshake().seq
    while more:
        page, sender = source.read_changes(after, known, limit), source.read_handshake()
        if page.upto > after or page.states:
            yield page, sender
        progress(page.upto, sender.seq, "exchanging")
        after, more = page.upto, page.more


def _find_cursor(source: Endpoint, target: Endpoint) -> int:
    """Return the cursor of the target; 0 if it is beyond the end of the source's journal."""
    sender = source.read_handshake()
    followed = target.get_cursor(sender)
    return followed if followed <= sender.seq else 0

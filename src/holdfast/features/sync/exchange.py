"""Bring two stores in sync: transfer exactly the changes that each is missing."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from holdfast.features.sync.endpoint import End, StoreEnd
from holdfast.features.sync.fork_store import Mended
from holdfast.features.sync.read_changes import Greeting, Page
from holdfast.features.sync.receive_changes import Taken, must_be_another
from holdfast.features.sync.restore_fork import forked_between, settled
from holdfast.kernel.context import SILENT, Hold, Progress

Direction = Literal["pull", "push", "merge"]
PAGE = 500


class Synced(NamedTuple):
    """The result of an exchange, per direction."""

    pulled: Taken
    pushed: Taken
    moved: bool = False
    """Whether a cursor advanced on either side."""
    mended: tuple[Mended, ...] = ()
    """Stores restored from a copy that continue under a new replica id."""
    forked: frozenset[str] = frozenset()
    """Forked origins of third stores, which those stores must repair."""

    @property
    def conflicts(self) -> int:
        """Count new conflicts; the same conflict on both sides counts once."""
        both = self.pulled.disputes.on | self.pushed.disputes.on
        return max(len(both), self.pulled.conflicts, self.pushed.conflicts)


def sync(here: Hold, there: Hold, direction: Direction, *, dry_run: bool = False, trust_source: bool = False) -> Synced:
    """Sync two stores that this process can open."""
    mine = StoreEnd(here, owner=owner_of(here, trust_source))
    return together(mine, StoreEnd(there), direction, dry_run=dry_run, progress=here.progress)


def owner_of(here: Hold, trust_source: bool) -> str | None:
    """Return the owner of pulled memories: the caller, or None (keep the author) if the source is trusted."""
    return None if trust_source else here.caller.agent


def together(
    here: End, there: End, direction: Direction, *, dry_run: bool = False, limit: int = 0, progress: Progress = SILENT
) -> Synced:
    """Sync two endpoints: repair forks, then pull, then push."""
    must_be_another(here.greet(), there.greet())
    mended = () if dry_run else tuple(settled(here, there, only_here=direction == "pull"))
    done = Synced(Taken(), Taken(), mended=mended, forked=forked_between(here, there))
    ways = {"pull": (there, here, done.pulled), "push": (here, there, done.pushed)}
    goes = rehearse if dry_run else bring
    chosen = ways.values() if direction == "merge" else [ways[direction]]
    moved = [goes(source, target, taken, limit or PAGE, progress) for source, target, taken in chosen]
    return done._replace(moved=any(moved))


def bring(source: End, target: End, taken: Taken, limit: int, progress: Progress = SILENT) -> bool:
    """Transfer all changes the target is missing; each page is durable before the next. Return whether any moved."""
    moved = False
    for page, sender in _pages(source, target, limit, progress):
        target.take(page, sender, taken)
        moved = True
    return moved


def rehearse(source: End, target: End, taken: Taken, limit: int, progress: Progress = SILENT) -> bool:
    """Transfer in a dry run that is rolled back. Reads all pages first, so no transaction waits for the source."""
    pages = list(_pages(source, target, limit, progress))
    with target.rehearsing() as pretended:
        for page, sender in pages:
            pretended.take(page, sender, taken)
    return bool(pages)


def _pages(source: End, target: End, limit: int, progress: Progress) -> Iterator[tuple[Page, Greeting]]:
    """Yield the pages that the target is missing, each with the current handshake of the source."""
    known = {origin: reached.n for origin, reached in target.greet().vector.items()}
    after = _place(source, target)
    more = after < source.greet().seq
    while more:
        page, sender = source.tell(after, known, limit), source.greet()
        if page.upto > after or page.states:
            yield page, sender
        progress(page.upto, sender.seq, "exchanging")
        after, more = page.upto, page.more


def _place(source: End, target: End) -> int:
    """Return the cursor of the target; 0 if it is beyond the end of the source's journal."""
    sender = source.greet()
    followed = target.followed(sender)
    return followed if followed <= sender.seq else 0

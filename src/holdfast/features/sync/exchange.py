"""Two stores, brought to say the same: what one has and the other misses goes over, and nothing else."""

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
    """What went which way."""

    pulled: Taken
    pushed: Taken
    moved: bool = False
    """Whether either of them read on in the other's journal."""
    mended: tuple[Mended, ...] = ()
    """Which of them was brought back from a copy and goes on under a new name."""
    forked: frozenset[str] = frozenset()
    """Names under which both have other changes, and which a third store has to settle."""

    @property
    def conflicts(self) -> int:
        """How many stand that did not before; one is the same on both sides."""
        both = self.pulled.disputes.on | self.pushed.disputes.on
        return max(len(both), self.pulled.conflicts, self.pushed.conflicts)


def sync(here: Hold, there: Hold, direction: Direction, *, dry_run: bool = False, trust_source: bool = False) -> Synced:
    """Bring two stores together that are both within reach."""
    mine = StoreEnd(here, owner=owner_of(here, trust_source))
    return together(mine, StoreEnd(there), direction, dry_run=dry_run, progress=here.progress)


def owner_of(here: Hold, trust_source: bool) -> str | None:
    """Whose a memory becomes that is pulled: the caller's own, unless its source is trusted."""
    return None if trust_source else here.caller.agent


def together(
    here: End, there: End, direction: Direction, *, dry_run: bool = False, limit: int = 0, progress: Progress = SILENT
) -> Synced:
    """Bring two ends together, first what is missing here and then what is missing there."""
    must_be_another(here.greet(), there.greet())
    mended = () if dry_run else tuple(settled(here, there, only_here=direction == "pull"))
    done = Synced(Taken(), Taken(), mended=mended, forked=forked_between(here, there))
    ways = {"pull": (there, here, done.pulled), "push": (here, there, done.pushed)}
    goes = rehearse if dry_run else bring
    chosen = ways.values() if direction == "merge" else [ways[direction]]
    moved = [goes(source, target, taken, limit or PAGE, progress) for source, target, taken in chosen]
    return done._replace(moved=any(moved))


def bring(source: End, target: End, taken: Taken, limit: int, progress: Progress = SILENT) -> bool:
    """Everything that the target misses; each page is durable before the next is asked for. Whether there was any."""
    moved = False
    for page, sender in _pages(source, target, limit, progress):
        target.take(page, sender, taken)
        moved = True
    return moved


def rehearse(source: End, target: End, taken: Taken, limit: int, progress: Progress = SILENT) -> bool:
    """The same, forgotten at its end. All of it is asked for first: nobody is kept waiting for the source."""
    pages = list(_pages(source, target, limit, progress))
    with target.rehearsing() as pretended:
        for page, sender in pages:
            pretended.take(page, sender, taken)
    return bool(pages)


def _pages(source: End, target: End, limit: int, progress: Progress) -> Iterator[tuple[Page, Greeting]]:
    """What the target misses, a page at a time, each with what the source says of itself by then."""
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
    """Where to go on; from the beginning if the source's journal has no such place, whoever is wrong about it."""
    sender = source.greet()
    followed = target.followed(sender)
    return followed if followed <= sender.seq else 0

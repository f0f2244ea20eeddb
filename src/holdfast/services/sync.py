"""Two stores, brought to say the same: what one has and the other misses goes over, and nothing else."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

from ..storage.candidates import Usual
from ..storage.locate import open_existing
from .backup import must_be_local, must_reach_all
from .ends import End, StoreEnd
from .exchange import Taken, must_be_another
from .hold import SILENT, Hold, Progress, Uses
from .recent import Recent

Direction = Literal["pull", "push", "merge"]
PAGE = 500
_URL = re.compile(r"https?://", re.IGNORECASE)


@contextmanager
def meeting(here: Hold, address: str, *, trust_source: bool) -> Iterator[tuple[End, End]]:
    """This store and another: what is pulled becomes the caller's own unless its source is trusted."""
    must_reach_all(here)
    must_be_local(here, "remote")
    owner = None if trust_source else here.caller.agent
    if _URL.match(address):
        from ..net.peer import Link
        from .peer_end import facing

        with closing(Link(address, here.access)) as link:
            yield facing(here, link, owner)
        return
    with closing(open_existing(address)) as store:
        there = replace(here, store=store, uses=Uses(), recent=Recent(), usual=Usual(), notified=[])
        yield StoreEnd(here, owner=owner), StoreEnd(there)


class Synced(NamedTuple):
    """What went which way."""

    pulled: Taken
    pushed: Taken


def sync(here: Hold, there: Hold, direction: Direction, *, dry_run: bool = False, trust_source: bool = False) -> Synced:
    """Bring two stores together. What is pulled becomes the caller's own unless its source is trusted."""
    mine = StoreEnd(here, owner=None if trust_source else here.caller.agent)
    return together(mine, StoreEnd(there), direction, dry_run=dry_run, progress=here.progress)


def together(
    here: End, there: End, direction: Direction, *, dry_run: bool = False, limit: int = 0, progress: Progress = SILENT
) -> Synced:
    """Bring two ends together, first what is missing here and then what is missing there."""
    must_be_another(here.greet(), there.greet())
    done = Synced(Taken(), Taken())
    ways = {"pull": (there, here, done.pulled), "push": (here, there, done.pushed)}
    for source, target, taken in ways.values() if direction == "merge" else [ways[direction]]:
        if dry_run:
            with target.rehearsing() as pretended:
                bring(source, pretended, taken, limit=limit or PAGE, progress=progress)
        else:
            bring(source, target, taken, limit=limit or PAGE, progress=progress)
    return done


def bring(source: End, target: End, taken: Taken, *, limit: int, progress: Progress = SILENT) -> None:
    """Everything that the target misses, a page at a time; each page is durable before the next is asked for."""
    known = {origin: reached.n for origin, reached in target.greet().vector.items()}
    after = _place(source, target)
    while True:
        page, sender = source.tell(after, known, limit), source.greet()
        if page.upto > after or page.states:
            target.take(page, sender, taken)
        progress(page.upto, sender.seq, "exchanging")
        after = page.upto
        if not page.more:
            return


def _place(source: End, target: End) -> int:
    """Where to go on; from the beginning if the source's journal has no such place, whoever is wrong about it."""
    sender = source.greet()
    followed = target.followed(sender)
    return followed if followed <= sender.seq else 0

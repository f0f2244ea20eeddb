"""Two stores, brought to say the same: what one has and the other misses goes over, and nothing else."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

from ..storage import exchange as telling
from ..storage.candidates import Usual
from ..storage.locate import open_existing
from ..storage.port import Session
from .backup import must_be_local, must_reach_all
from .exchange import Taken, must_be_another, take_page
from .hold import Hold, Uses
from .intake import Rehearsed
from .recent import Recent

Direction = Literal["pull", "push", "merge"]
PAGE = 500


@contextmanager
def remote(here: Hold, address: str) -> Iterator[Hold]:
    """The other store, which is not made if there is none, seen by the same caller."""
    must_reach_all(here)
    must_be_local(here, "remote")
    with closing(open_existing(address)) as store:
        yield replace(here, store=store, uses=Uses(), recent=Recent(), usual=Usual(), notified=[])


class Synced(NamedTuple):
    """What went which way."""

    pulled: Taken
    pushed: Taken


def sync(here: Hold, there: Hold, direction: Direction, *, dry_run: bool = False, trust_source: bool = False) -> Synced:
    """Bring two stores together. What is pulled becomes the caller's own unless its source is trusted."""
    with here.reading() as mine, there.reading() as theirs:
        must_be_another(telling.greet(mine, here.now()), telling.greet(theirs, there.now()))
    pulled, pushed = Taken(), Taken()
    if direction in ("pull", "merge"):
        _bring(there, here, pulled, dry_run=dry_run, owner=None if trust_source else here.caller.agent)
    if direction in ("push", "merge"):
        _bring(here, there, pushed, dry_run=dry_run, owner=None)
    return Synced(pulled, pushed)


def _bring(source: Hold, target: Hold, taken: Taken, *, dry_run: bool, owner: str | None) -> None:
    """Everything that the target misses, a page at a time; each page is durable before the next is asked for."""
    with target.reading() as session:
        known, after = _known(session), _followed(session, source)
    if dry_run:
        _rehearse(source, target, taken, known, after, owner)
        return
    while True:
        greeting, page = _page(source, after, known)
        if page.upto > after:
            with target.writing() as write:
                take_page(write, page, greeting, taken, owner=owner)
                write.session.do("followed_put", origin=greeting.origin, seq=page.upto, now=write.now)
        target.progress(page.upto, greeting.seq, "exchanging")
        after = page.upto
        if not page.more:
            return


def _rehearse(source: Hold, target: Hold, taken: Taken, known: dict[str, int], after: int, owner: str | None) -> None:
    """The same, in one transaction that is rolled back."""
    try:
        with target.writing() as write:
            more = True
            while more:
                greeting, page = _page(source, after, known)
                take_page(write, page, greeting, taken, owner=owner)
                after, more = page.upto, page.more
            raise Rehearsed
    except Rehearsed:
        pass


def _page(source: Hold, after: int, known: dict[str, int]) -> tuple[telling.Greeting, telling.Page]:
    with source.reading() as session:
        key = source.store.signing_key(session)
        assert key is not None, "a store has a key from its birth on"
        return telling.greet(session, source.now()), telling.feed(session, key, after, known, PAGE)


def _known(session: Session) -> dict[str, int]:
    return {origin: reached.n for origin, reached in telling.vector(session).items()}


def _followed(session: Session, source: Hold) -> int:
    with source.reading() as other:
        origin = telling.greet(other, source.now()).origin
    row = session.row("followed_get", origin=origin)
    return row[0] if row else 0

"""What could not be taken from other stores: seen, tried again, or let go."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from ..storage import quarantine
from ..storage.exchange import Greeting, Page
from ..storage.quarantine import Quarantined
from ..storage.records import Writing
from .backup import must_reach_all
from .exchange import Taken, take_page
from .hold import Hold


class Retried(NamedTuple):
    """What became of a change that was tried again: why it is still aside, or None."""

    held: Quarantined
    still: Quarantined | None


def listed(hold: Hold, *, limit: int, skip: int) -> tuple[list[Quarantined], int]:
    """Some of it, newest first, and how much there is. It may be of any namespace."""
    must_reach_all(hold)
    with hold.reading() as session:
        return quarantine.page(session, limit=limit, skip=skip)


def show(hold: Hold, id: str) -> Quarantined:
    must_reach_all(hold)
    with hold.reading() as session:
        return quarantine.one(session, id)


def retry(hold: Hold, ids: Sequence[str], *, trust_source: bool = False) -> list[Retried]:
    """Take changes as if they had just come, in one transaction; without ids, all that there are."""
    must_reach_all(hold)
    owner = None if trust_source else hold.caller.agent
    with hold.writing() as write:
        held = [quarantine.one(write.session, id) for id in dict.fromkeys(ids)] or quarantine.every(write.session)
        for peer, many in groupby(sorted(held, key=lambda one: one.peer), key=lambda one: one.peer):
            _take_again(write, peer, list(many), owner)
        left = {one.id: one for one in quarantine.every(write.session)}
    return [Retried(one, left.get(one.id)) for one in held]


def _take_again(write: Writing, peer: str, held: list[Quarantined], owner: str | None) -> None:
    """Under the name of who sent them, and by the keys that are known by now."""
    sender = Greeting(node=peer, origin="", seq=0, now=write.now, vector={}, authors={})
    take_page(write, Page([one.change for one in held], 0, more=False), sender, Taken(), owner=owner)


def drop(hold: Hold, ids: Sequence[str]) -> list[Quarantined]:
    """Let changes go for good: what was dropped, which is not taken if it comes again."""
    must_reach_all(hold)
    with hold.writing() as write:
        held = [quarantine.one(write.session, id) for id in dict.fromkeys(ids)]
        for one in held:
            quarantine.drop(write.session, one, hold.caller.agent, write.now)
    return held

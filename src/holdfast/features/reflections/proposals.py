"""Propose reflections: groups of similar recent observations, each with a draft."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.reflections.draft import Conclusion, conclude
from holdfast.features.reflections.service import offer_id
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.fts_tokens import found_by
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.cluster import Group, groups
from holdfast.kernel.text.words import STOP, runs

MOST_LOOKED_AT = 500
"""The newest observations of a namespace that are compared."""
ALIKE = 0.25
"""Minimum share of common words for two observations to be grouped."""


class Offer(NamedTuple):
    id: str
    namespace: str
    sources: list[Memory]
    group: Group
    shared: list[str]
    """Words that most sources share, in their original form."""
    draft: Conclusion | None = None


class Which(NamedTuple):
    """Which observations to group, and the group size."""

    namespace: str | None
    days: int
    least: int
    most: int
    again: bool
    """Include earlier proposals that were neither dismissed nor accepted."""


def suggest(hold: Hold, which: Which, *, limit: int, draft: bool, dry_run: bool) -> list[Offer]:
    """Find new groups and record them as proposed, unless `dry_run`.

    A dry run calls no model. Proposals are recorded only after drafting succeeded, so none is lost unseen.
    """
    if which.most < which.least:
        raise Invalid("max_size: must not be less than min_size", fields=["max_size"])
    with hold.reading() as session:
        found = _offers(hold, session, which, hold.now())[:limit]
    if draft:
        found = _drafted(hold, found, ask=not dry_run)
    if dry_run or not found:
        return found
    with hold.writing() as write:
        fresh = {offer.id for offer in found if _noted(write.session, offer, write.now)}
    return [offer for offer in found if which.again or offer.id in fresh]


def _drafted(hold: Hold, found: list[Offer], *, ask: bool) -> list[Offer]:
    proposals: list[Offer] = []
    for number, offer in enumerate(found):
        hold.progress(number, len(found), "drafting")
        proposals.append(offer._replace(draft=conclude(hold, offer.sources, offer.shared, ask=ask)))
    return proposals


def dismiss(hold: Hold, id: str) -> str:
    """Never propose these sources together again; return their namespace."""
    with hold.writing() as write:
        row = write.session.row("offer_get", id=id)
        if row is None or not hold.caller.reaches(row[1]):
            raise NotFound(f"There is no proposal {id!r}.", id=id)
        write.session.do("offer_decide", id=id, status="dismissed")
        return str(row[1])


def _offers(hold: Hold, session: Session, which: Which, now: int) -> list[Offer]:
    """Group observations by similarity, largest groups first."""
    found: list[Offer] = []
    recent = _recent(hold, session, which, now)
    for number, (namespace, looked_at) in enumerate(recent.items()):
        hold.progress(number, len(recent), "comparing")
        by_id = {memory.id: memory for memory in looked_at}
        words = {memory.id: _words(memory) for memory in looked_at}
        found += [
            _offer(namespace, _in_order([by_id[id] for id in group.ids]), group)
            for group in groups(words, alike=ALIKE, least=which.least, most=which.most)
        ]
    known = {row[0]: row[1] for row in session.rows("offer_some", ids=[offer.id for offer in found])}
    open_ones = [offer for offer in found if offer.id not in known or (which.again and known[offer.id] == "offered")]
    return sorted(open_ones, key=lambda offer: (-len(offer.sources), offer.namespace, offer.id))


def _offer(namespace: str, sources: list[Memory], group: Group) -> Offer:
    written: dict[str, str] = {}
    for source in sources:
        for word in runs(f"{source.title} {source.content}"):
            for stem in found_by(word):
                written.setdefault(stem, word)
    return Offer(offer_id(group.ids), namespace, sources, group, [written[stem] for stem in group.shared])


def _in_order(sources: list[Memory]) -> list[Memory]:
    """Sort by creation time, then title."""
    return sorted(sources, key=lambda memory: (memory.created_at, memory.title, memory.id))


def _recent(hold: Hold, session: Session, which: Which, now: int) -> dict[str, list[Memory]]:
    """Read the newest observations of each namespace that no reflection uses yet."""
    place = None if which.namespace is None else door.namespace(which.namespace)
    among = Filter(under=place, since=now - door.days("days", which.days), kinds=("observation",))
    names = [name for name, _ in memories.counts(session, hold.caller, among, now, by="namespace")]
    recent: dict[str, list[Memory]] = {}
    for number, name in enumerate(sorted(names)):
        hold.progress(number, len(names), "reading")
        here = Filter(namespace=name, since=among.since, kinds=among.kinds)
        newest = memories.select(session, hold.caller, here, now, order="by_newest", limit=MOST_LOOKED_AT)
        reflected = _reflected_on(session, [memory.id for memory in newest], now)
        recent[name] = [memory for memory in newest if memory.id not in reflected]
    return recent


def _reflected_on(session: Session, ids: Sequence[str], now: int) -> set[str]:
    return {row[0] for row in session.rows("reflection_grounds", ids=list(ids), now=now)}


def _words(memory: Memory) -> frozenset[str]:
    """The stems of a memory's words without stop words."""
    text = " ".join(word for word in runs(f"{memory.title} {memory.content}") if word not in STOP)
    return frozenset(found_by(text))


def _noted(session: Session, offer: Offer, now: int) -> bool:
    """Record a proposal; return whether it is new."""
    sources = msgspec.json.encode([source.id for source in offer.sources]).decode()
    added = session.row("offer_add", id=offer.id, namespace=offer.namespace, sources=sources, offered_at=now)
    return added is not None

"""Propose reflections: groups of similar recent observations, each with a draft."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.reflections.draft import Conclusion, draft_conclusion
from holdfast.features.reflections.service import offer_id
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.index_terms import index_tokens
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import Group, find_groups
from holdfast.kernel.text.words import STOP, split_words

MAX_COMPARED = 500
"""The newest observations of a namespace that are compared."""
MIN_SIMILARITY = 0.25
"""Minimum share of common words for two observations to be grouped."""


class Proposal(NamedTuple):
    id: str
    namespace: str
    sources: list[Memory]
    group: Group
    shared: list[str]
    """Words that most sources share, in their original form."""
    draft: Conclusion | None = None


class ProposalFilter(NamedTuple):
    """Which observations to group, and the group size."""

    namespace: str | None
    days: int
    min_size: int
    max_size: int
    again: bool
    """Include earlier proposals that were neither dismissed nor accepted."""


def propose_reflections(
    ctx: Context, which: ProposalFilter, *, limit: int, draft: bool, dry_run: bool
) -> list[Proposal]:
    """Find new groups and record them as proposed, unless `dry_run`.

    A dry run calls no model. Proposals are recorded only after drafting succeeded, so none is lost unseen.
    """
    if which.max_size < which.min_size:
        raise Invalid("max_size: must not be less than min_size", fields=["max_size"])
    with ctx.reading() as session:
        found = _find_proposals(ctx, session, which, ctx.now())[:limit]
    if draft:
        found = _add_drafts(ctx, found, ask=not dry_run)
    if dry_run or not found:
        return found
    with ctx.transaction() as write:
        fresh = {offer.id for offer in found if _record_proposal(write.session, offer, write.now)}
    return [offer for offer in found if which.again or offer.id in fresh]


def _add_drafts(ctx: Context, found: list[Proposal], *, ask: bool) -> list[Proposal]:
    proposals: list[Proposal] = []
    for number, offer in enumerate(found):
        ctx.progress(number, len(found), "drafting")
        proposals.append(offer._replace(draft=draft_conclusion(ctx, offer.sources, offer.shared, ask=ask)))
    return proposals


def dismiss_proposal(ctx: Context, id: str) -> str:
    """Never propose these sources together again; return their namespace."""
    with ctx.transaction() as write:
        row = write.session.row("reflection_proposal_get", id=id)
        if row is None or not ctx.caller.can_access(row[1]):
            raise NotFound(f"There is no proposal {id!r}.", id=id)
        write.session.do("reflection_proposal_decide", id=id, status="dismissed")
        return str(row[1])


def _find_proposals(ctx: Context, session: Session, which: ProposalFilter, now: int) -> list[Proposal]:
    """Group observations by similarity, largest groups first."""
    found: list[Proposal] = []
    recent = _list_recent(ctx, session, which, now)
    for number, (namespace, looked_at) in enumerate(recent.items()):
        ctx.progress(number, len(recent), "comparing")
        by_id = {memory.id: memory for memory in looked_at}
        words = {memory.id: _stems(memory) for memory in looked_at}
        found += [
            _build_proposal(namespace, _sort_sources([by_id[id] for id in group.ids]), group)
            for group in find_groups(
                words, min_similarity=MIN_SIMILARITY, min_size=which.min_size, max_size=which.max_size
            )
        ]
    known = {row[0]: row[1] for row in session.rows("reflection_proposal_statuses", ids=[offer.id for offer in found])}
    open_ones = [offer for offer in found if offer.id not in known or (which.again and known[offer.id] == "offered")]
    return sorted(open_ones, key=lambda offer: (-len(offer.sources), offer.namespace, offer.id))


def _build_proposal(namespace: str, sources: list[Memory], group: Group) -> Proposal:
    written: dict[str, str] = {}
    for source in sources:
        for word in split_words(f"{source.title} {source.content}"):
            for stem in index_tokens(word):
                written.setdefault(stem, word)
    return Proposal(offer_id(group.ids), namespace, sources, group, [written[stem] for stem in group.shared])


def _sort_sources(sources: list[Memory]) -> list[Memory]:
    """Sort by creation time, then title."""
    return sorted(sources, key=lambda memory: (memory.created_at, memory.title, memory.id))


def _list_recent(ctx: Context, session: Session, which: ProposalFilter, now: int) -> dict[str, list[Memory]]:
    """Read the newest observations of each namespace that no reflection uses yet."""
    place = None if which.namespace is None else validate.namespace(which.namespace)
    among = Filter(under=place, since=now - validate.days("days", which.days), kinds=("observation",))
    names = [name for name, _ in memories.count_by(session, ctx.caller, among, now, by="namespace")]
    recent: dict[str, list[Memory]] = {}
    for number, name in enumerate(sorted(names)):
        ctx.progress(number, len(names), "reading")
        here = Filter(namespace=name, since=among.since, kinds=among.kinds)
        newest = memories.select(session, ctx.caller, here, now, order="by_newest", limit=MAX_COMPARED)
        reflected = _find_reflected(session, [memory.id for memory in newest], now)
        recent[name] = [memory for memory in newest if memory.id not in reflected]
    return recent


def _find_reflected(session: Session, ids: Sequence[str], now: int) -> set[str]:
    return {row[0] for row in session.rows("reflected_sources", ids=list(ids), now=now)}


def _stems(memory: Memory) -> frozenset[str]:
    """The stems of a memory's words without stop words."""
    text = " ".join(word for word in split_words(f"{memory.title} {memory.content}") if word not in STOP)
    return frozenset(index_tokens(text))


def _record_proposal(session: Session, offer: Proposal, now: int) -> bool:
    """Record a proposal; return whether it is new."""
    sources = msgspec.json.encode([source.id for source in offer.sources]).decode()
    added = session.row(
        "reflection_proposal_add", id=offer.id, namespace=offer.namespace, sources=sources, proposed_at=now
    )
    return added is not None

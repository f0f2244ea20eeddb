"""Checks on write: duplicates, near-duplicates, echoes of recalled text, and secrets."""

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.embeddings import store as vectors
from holdfast.features.importers.model import without_recalled
from holdfast.features.memories import check_duplicate as duplicate
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.recall import recall_store as recalls
from holdfast.features.recall.recall_log import Recalls
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import AmbiguousId, NotFound, SecretRefused
from holdfast.kernel.journal.columns import order_columns
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import TIERS, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.index_terms import parse
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import minhash as gists
from holdfast.kernel.text import secrets
from holdfast.kernel.text.similarity import Likeness, Relation, compare_titled, distinct, echoes, plain, worth_reading
from holdfast.kernel.timestamps import SECOND
from holdfast.kernel.vector import Embedding

Suggestion = Literal["restates", "merge", "supersede", "contradicts"]

FEWEST_WORDS = 8
"""Shorter texts are never duplicates: they may match by chance, and their title carries the meaning."""
MOST_COMPARED = 6
"""Candidates that are read and compared; at most MOST_SIMILAR of them are returned."""
MOST_SIMILAR = 3
MOST_READ = 32
"""Memories with identical text that are read per query."""
LATELY = 3600 * SECOND
"""Text that repeats a recall within this window is an echo."""
MOST_RECALLS = 50
MOST_RECALLED = 300
"""The latest recalls, and hits of them, that are checked for echoes."""
MOST_CITED = 30

_ORDER: dict[Relation, int] = {"same": 0, "near": 1, "update": 2, "conflict": 3, "other": 4}
_SUGGESTED: dict[Relation, Suggestion] = {
    "same": "restates",
    "near": "merge",
    "update": "supersede",
    "conflict": "contradicts",
}


class Similar(NamedTuple):
    """A memory that repeats, updates or contradicts another text on the same subject."""

    memory: Memory
    likeness: Likeness

    @property
    def suggestion(self) -> Suggestion:
        """The suggested action; a text composed of several memories restates each of them."""
        return _SUGGESTED.get(self.likeness.relation, "restates")


class Seen(NamedTuple):
    """Whether a new text is a duplicate or an echo, and the memories similar to it."""

    outcome: Literal["restated", "recalled"] | None = None
    similar: tuple[Similar, ...] = ()


def look(hold: Hold, write: Transaction, memory: Memory) -> Seen:
    """Check a new memory against the visible ones: exact duplicates, near-duplicates, then echoes of recalls."""
    if memory.kind == "conversation":
        return Seen()
    numbers = gists.numbers(memory, order_columns(memory)["parsed"])
    shared = gists.sharing(write.session, numbers)
    same = said_by(hold, write.session, numbers, shared, write.now)
    if before := _said_before(hold, write, memory, same):
        return Seen("restated", (before,))
    near = _sharing(hold, write, memory, [*same[:MOST_COMPARED], *shared.near])
    for one in near:
        if one.likeness.relation == "same" and _restates(one.memory, memory):
            return Seen("restated", (one,))
    if echoed := _recalled(hold, write, memory):
        return Seen("recalled", tuple(Similar(one, _like(one, memory)) for one in echoed))
    return Seen(None, tuple(near[:MOST_SIMILAR]))


def restated(write: Transaction, said: Memory, again: Memory) -> None:
    """Count a duplicate and extend the existing memory to the later of both expiry times."""
    count(write, said)
    if said.expires_at is not None and again.expires_at is not None and again.expires_at > said.expires_at:
        write.session.do("access_add", memory=said.id, origin=write.origin, uses=0, used_at=write.now)
        write.session.do("memory_extend", id=said.id, until=again.expires_at)


def says_again(old: Memory, new: Memory) -> bool:
    """Whether title and content are identical, whatever the length of the text."""
    return new.kind != "conversation" and (old.title, old.content) == (new.title, new.content)


def count(write: Transaction, said: Memory) -> None:
    """Increment the duplicate count of a memory."""
    write.session.do("restated_add", memory=said.id, now=write.now)


def times_restated(hold: Hold, id: str) -> int:
    """How often a duplicate of a memory was stored."""
    with hold.reading() as session:
        return next((int(row[1]) for row in session.rows("restated_of", ids=[id])), 0)


def likes(
    hold: Hold,
    session: Session,
    namespace: str | None,
    title: str,
    content: str,
    limit: int = 10,
    vector: Embedding | None = None,
) -> list[tuple[Memory, Likeness]]:
    """Find memories that repeat, update or contradict a text, best first.

    Candidates come from MinHash bands, shared words and, if given, the vector. Makes no call to an embedding provider.
    """
    now = hold.now()
    found = {one.id: one for one in duplicate.candidates(hold, session, title, content, namespace)}
    if namespace is not None:
        shared = gists.sharing(session, gists.of_text(namespace, parse(title, content, "[]"))).all
        found |= memories.by_ids(session, hold.caller, shared, now)
    cosines: dict[str, float] = {}
    if vector is not None:
        which = Filter(namespace=namespace)
        cosines = dict(vectors.nearest(session, hold.caller, vector, which, now, limit=limit))
        found |= memories.by_ids(session, hold.caller, [id for id in cosines if id not in found], now)
    compared = [
        Similar(one, compare_titled(one.title, one.content, title, content, cosines.get(one.id)))
        for one in found.values()
    ]
    return [(one.memory, one.likeness) for one in _best(compared)[:limit]]


def said_by(hold: Hold, session: Session, sought: Sequence[int], shared: gists.Sharing, now: int) -> list[str]:
    """Ids of memories with identical text, oldest first; if there are many, all that the caller may see."""
    if len(shared.same) < gists.NEWEST:
        return shared.same
    return memories.saying(session, hold.caller, sought, now)


def _said_before(hold: Hold, write: Transaction, memory: Memory, same: Sequence[str]) -> Similar | None:
    """Find the memory with identical text to which the new one adds nothing."""
    for start in range(0, len(same), MOST_READ):
        read = memories.by_ids(write.session, hold.caller, same[start : start + MOST_READ], write.now)
        for _, old in sorted(read.items()):
            if _restates(old, memory) and (like := _like(old, memory)).relation == "same":
                return Similar(old, like)
    return None


def _sharing(hold: Hold, write: Transaction, memory: Memory, ids: Sequence[str]) -> list[Similar]:
    """Read the first few visible candidates and compare them, best first."""
    found: dict[str, Memory] = {}
    for start in range(0, len(ids), MOST_COMPARED):
        found |= memories.by_ids(write.session, hold.caller, ids[start : start + MOST_COMPARED], write.now)
        if len(found) >= MOST_COMPARED:
            break
    return _best([Similar(found[id], _like(found[id], memory)) for id in ids if id in found][:MOST_COMPARED])


def _like(old: Memory, new: Memory) -> Likeness:
    return compare_titled(old.title, old.content, new.title, new.content)


def _best(found: list[Similar]) -> list[Similar]:
    near = [one for one in found if one.likeness.relation != "other"]
    return sorted(near, key=lambda one: (_ORDER[one.likeness.relation], -one.likeness.score, one.memory.id))


def _restates(old: Memory, new: Memory) -> bool:
    """Whether a new memory adds nothing to an old one: no text, no metadata, no wider scope, no later expiry."""
    words = plain(new.content)
    return (
        len(words.split()) >= FEWEST_WORDS
        and words == plain(old.content)
        and not _told_apart(old, new)
        and (old.scope, old.kind, old.category) == (new.scope, new.kind, new.category)
        and (old.scope != "private" or old.agent == new.agent)
        and (old.expires_at is None or (new.expires_at is not None and TIERS.index(new.tier) <= TIERS.index(old.tier)))
        and {*new.tags} <= {*old.tags}
        and {*new.citations} <= {*old.citations}
        and all(old.metadata.get(name, UNSET) == value for name, value in new.metadata.items())
        and all(getattr(new, name) in (None, getattr(old, name)) for name in _OF_ITS_OWN)
    )


def _told_apart(old: Memory, new: Memory) -> bool:
    """Whether two titles differ in meaning, not only in case and spaces."""
    return plain(old.title) != plain(new.title) and distinct(old.title, new.title, old.content, surely=False)


_OF_ITS_OWN = ("source_uri", "source_span", "valid_from", "valid_until", "speaker", "occurred_at", "thread", "place")


def _recalled(hold: Hold, write: Transaction, memory: Memory) -> list[Memory]:
    """List the memories that the agent recalled recently, if the new text only repeats them."""
    own = without_pasted(memory.content)
    if not own.strip():
        return pasted(hold, write.session, memory.content, write.now)
    if not _tells(own):
        return []
    found = Lately(hold, write.session, write.now).repeated(memory.title, own)
    read = memories.by_ids(write.session, hold.caller, found, write.now) if found else {}
    return [read[id] for id in found if id in read]


def _tells(text: str) -> bool:
    return len(text.split()) >= FEWEST_WORDS or not text.isascii()


class Lately:
    """Memories that the caller's agent recalled within the last hour, for echo detection."""

    def __init__(self, hold: Hold, session: Session, now: int, but_from: str | None = None) -> None:
        """Leave out memories of the source `but_from`, if given."""
        read = memories.texts(session, hold.caller, _recalled_lately(hold, session, now), now)
        self._told = [one for one in read if but_from is None or one.source_uri != but_from]
        self._texts = [f"{one.title}\n{one.content}" for one in self._told]

    def repeated(self, title: str, content: str) -> list[str]:
        """Ids of the recalled memories that a text repeats; empty if it adds anything."""
        if not self._told or not _tells(content):
            return []
        near = worth_reading(self._texts, content)
        candidates = [self._told[index] for index in near]
        found = echoes([self._texts[index] for index in near], content, candidates) if near else []
        if found and distinct(found[0].title, title, content, surely=False):
            return []
        return [one.id for one in found]


def without_pasted(text: str) -> str:
    """Remove pasted context blocks from a text."""
    if "</" not in text:
        return text
    return without_recalled(text)


def pasted(hold: Hold, session: Session, text: str, now: int) -> list[Memory]:
    """Read the visible memories that pasted context blocks cite."""
    found: dict[str, Memory] = {}
    for id in dict.fromkeys(one[1] for one in islice(_CITED.finditer(text), MOST_CITED)):
        with suppress(NotFound, AmbiguousId):
            one = memories.resolve(session, hold.caller, id, now)
            found[one.id] = one
    return [*found.values()]


_CITED = re.compile(r"\[([0-9a-f]{8}[0-9a-f-]{0,28})\]")


def _recalled_lately(hold: Hold, session: Session, now: int) -> list[str]:
    """Ids of this agent's latest recall hits, newest first, including those not yet flushed."""
    agent, since = hold.caller.agent, now - LATELY
    recent = [one for one in hold.local(Recalls).all() if one.agent == agent and one.asked_at >= since]
    unflushed = [[hit.id for hit in one.hits] for one in recent]
    stored = recalls.lately(session, agent, since=since, limit=MOST_RECALLS) if len(unflushed) < MOST_RECALLS else []
    ids = [id for hits in (unflushed[::-1] + stored)[:MOST_RECALLS] for id in hits]
    return list(dict.fromkeys(ids))[:MOST_RECALLED]


# Secrets

_TEXTS = ("title", "content", "tags", "metadata", "citations", "source_uri", "speaker", "thread")


class Found(NamedTuple):
    """The kinds of secrets found in a text, and whether they were redacted."""

    kinds: tuple[str, ...] = ()
    redacted: bool = False


def without_secrets(session: Session, draft: Draft) -> tuple[Draft, Found]:
    """Apply the namespace's secret policy to a draft; return it with the secrets found."""
    given = {name: value for name in _TEXTS if (value := getattr(draft, name)) is not UNSET and value}
    clean, found = permitted(session, draft.namespace, given)
    return replace(draft, **clean) if found.redacted else draft, found


def taken_in(session: Session, memory: Memory) -> Memory:
    """Apply the namespace's secret policy to a memory from another store or namespace."""
    given = {name: value for name in (*_TEXTS, "reason", "extra") if (value := getattr(memory, name))}
    clean, found = permitted(session, memory.namespace, given)
    if not found.redacted:
        return memory
    return replace(memory, **clean | {"title": door.title(clean["title"]), "content": door.content(clean["content"])})


def _searched(name: str, value: Any) -> Any:
    """The part of a field that may contain a secret: of citations, the URI."""
    return [one.uri for one in value] if name == "citations" else value


def _cleaned(name: str, value: Any) -> Any:
    if name == "citations":
        return tuple(replace(one, uri=secrets.redacted(one.uri)[0]) for one in value)
    return secrets.cleaned(value)


def secrets_in(hold: Hold, memory: Memory) -> list[str]:
    """The kinds of secrets in a memory; empty if its namespace allows secrets."""
    given = {name: _searched(name, getattr(memory, name)) for name in _TEXTS}
    kinds = dict.fromkeys(one.secret.kind for name, value in given.items() for one in secrets.within(name, value))
    if not kinds:
        return []
    with hold.reading() as session:
        return [] if policies.resolved(session, memory.namespace).secrets == "allow" else list(kinds)


def permitted(session: Session, namespace: str, given: dict[str, Any]) -> tuple[dict[str, Any], Found]:
    """Apply a namespace's secret policy to fields; return them with the secrets found."""
    door.foreign("metadata", given.get("metadata"))  # rejects nesting that is too deep to walk
    found = [place for name, value in given.items() for place in secrets.within(name, _searched(name, value))]
    if not found:
        return given, Found()
    rule = policies.resolved(session, namespace).secrets
    kinds = tuple(dict.fromkeys(one.secret.kind for one in found))
    match rule:
        case "refuse":
            raise SecretRefused(_told(found), secrets=[_place(one) for one in found])
        case "redact":
            return {name: _cleaned(name, value) for name, value in given.items()}, Found(kinds, redacted=True)
        case "flag":
            return given, Found(kinds)
    return given, Found()


def _place(one: secrets.Place) -> dict[str, Any]:
    return {"field": one.field, "kind": one.secret.kind, "start": one.secret.start, "end": one.secret.end}


def _told(found: list[secrets.Place]) -> str:
    first = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"{first.field}: contains a secret ({first.secret.kind}) at character {first.secret.start}{more}. "
        "This namespace refuses secrets: remove it and reference where it is stored."
    )

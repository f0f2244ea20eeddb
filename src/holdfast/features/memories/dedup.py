"""Checks on write: duplicates, near-duplicates, echoes of recalled text, and secrets."""

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.embeddings import store as embedding_store
from holdfast.features.importers.model import remove_recalled
from holdfast.features.memories import check_duplicate
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.recall import recall_log
from holdfast.features.recall.recall_log import RecallLog
from holdfast.kernel.context import Context
from holdfast.kernel.errors import AmbiguousId, NotFound, SecretRefused
from holdfast.kernel.journal.kinds import search_columns
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import TIERS, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.index_terms import (
    MAX_PER_BAND,
    HashMatches,
    encode_terms,
    find_matches,
    memory_hashes,
    text_hashes,
)
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import content_scan
from holdfast.kernel.text.similarity import (
    Relation,
    Similarity,
    compare_titled,
    find_echoes,
    have_distinct_subjects,
    normalize_text,
    preselect_echoes,
)
from holdfast.kernel.timestamps import SECOND
from holdfast.kernel.vector import Embedding

Suggestion = Literal["restates", "merge", "supersede", "contradicts"]

MIN_WORDS = 8
"""Shorter texts are never duplicates: they may match by chance, and their title carries the meaning."""
MAX_COMPARED = 6
"""Candidates that are read and compared; at most MAX_SIMILAR of them are returned."""
MAX_SIMILAR = 3
READ_BATCH = 32
"""Memories with identical text that are read per query."""
RECALL_WINDOW = 3600 * SECOND
"""Text that repeats a recall within this window is an echo."""
MAX_RECALLS = 50
MAX_RECALLED_HITS = 300
"""The latest recalls, and hits of them, that are checked for echoes."""
MAX_CITED = 30

_RELATION_ORDER: dict[Relation, int] = {"same": 0, "near": 1, "update": 2, "conflict": 3, "other": 4}
_SUGGESTIONS: dict[Relation, Suggestion] = {
    "same": "restates",
    "near": "merge",
    "update": "supersede",
    "conflict": "contradicts",
}


class Similar(NamedTuple):
    """A memory that repeats, updates or contradicts another text on the same subject."""

    memory: Memory
    likeness: Similarity

    @property
    def suggestion(self) -> Suggestion:
        """The suggested action; a text composed of several memories restates each of them."""
        return _SUGGESTIONS.get(self.likeness.relation, "restates")


class DedupResult(NamedTuple):
    """Whether a new text is a duplicate or an echo, and the memories similar to it."""

    outcome: Literal["restated", "recalled"] | None = None
    similar: tuple[Similar, ...] = ()


def find_duplicates(ctx: Context, write: Transaction, draft: Memory) -> DedupResult:
    """Check a new memory against the visible ones: exact duplicates, near-duplicates, then echoes of recalls."""
    if draft.kind == "conversation":
        return DedupResult()
    numbers = memory_hashes(draft, search_columns(draft)["index_terms"])
    shared = find_matches(write.session, numbers)
    same = find_same_text_ids(ctx, write.session, numbers, shared, write.now)
    if duplicate := _find_exact_duplicate(ctx, write, draft, same):
        return DedupResult("restated", (duplicate,))
    near = _find_near_duplicates(ctx, write, draft, [*same[:MAX_COMPARED], *shared.near])
    for one in near:
        if one.likeness.relation == "same" and _adds_nothing(one.memory, draft):
            return DedupResult("restated", (one,))
    if echoed := _find_echoes(ctx, write, draft):
        return DedupResult("recalled", tuple(Similar(one, _compare(one, draft)) for one in echoed))
    return DedupResult(None, tuple(near[:MAX_SIMILAR]))


def record_duplicate(write: Transaction, existing: Memory, repeated: Memory) -> None:
    """Count a duplicate and extend the existing memory to the later of both expiry times."""
    increment_duplicate_count(write, existing)
    if (
        existing.expires_at is not None
        and repeated.expires_at is not None
        and repeated.expires_at > existing.expires_at
    ):
        write.session.do("memory_access_add", memory=existing.id, origin=write.origin, uses=0, used_at=write.now)
        write.session.do("memory_extend", id=existing.id, until=repeated.expires_at)


def is_same_text(old: Memory, new: Memory) -> bool:
    """Whether title and content are identical, whatever the length of the text."""
    return new.kind != "conversation" and (old.title, old.content) == (new.title, new.content)


def increment_duplicate_count(write: Transaction, existing: Memory) -> None:
    """Increment the duplicate count of a memory."""
    write.session.do("duplicate_count_add", memory=existing.id, now=write.now)


def get_duplicate_count(ctx: Context, id: str) -> int:
    """How often a duplicate of a memory was stored."""
    with ctx.reading() as session:
        return next((int(row[1]) for row in session.rows("duplicate_count_of", ids=[id])), 0)


def find_similar(
    ctx: Context,
    session: Session,
    namespace: str | None,
    title: str,
    content: str,
    limit: int = 10,
    vector: Embedding | None = None,
) -> list[tuple[Memory, Similarity]]:
    """Find memories that repeat, update or contradict a text, best first.

    Candidates come from MinHash bands, shared words and, if given, the vector. Makes no call to an embedding provider.
    """
    now = ctx.now()
    found = {one.id: one for one in check_duplicate.find_candidates(ctx, session, title, content, namespace)}
    if namespace is not None:
        shared = find_matches(session, text_hashes(namespace, encode_terms(title, content, "[]"))).all
        found |= memories.by_ids(session, ctx.caller, shared, now)
    cosines: dict[str, float] = {}
    if vector is not None:
        which = Filter(namespace=namespace)
        cosines = dict(embedding_store.find_nearest(session, ctx.caller, vector, which, now, limit=limit))
        found |= memories.by_ids(session, ctx.caller, [id for id in cosines if id not in found], now)
    compared = [
        Similar(one, compare_titled(one.title, one.content, title, content, cosines.get(one.id)))
        for one in found.values()
    ]
    return [(one.memory, one.likeness) for one in _sort_related(compared)[:limit]]


def find_same_text_ids(
    ctx: Context, session: Session, numbers: Sequence[int], shared: HashMatches, now: int
) -> list[str]:
    """Ids of memories with identical text, oldest first; if there are many, all that the caller may see."""
    if len(shared.identical) < MAX_PER_BAND:
        return shared.identical
    return memories.list_same_text(session, ctx.caller, numbers, now)


def _find_exact_duplicate(ctx: Context, write: Transaction, memory: Memory, same: Sequence[str]) -> Similar | None:
    """Find the memory with identical text to which the new one adds nothing."""
    for start in range(0, len(same), READ_BATCH):
        read = memories.by_ids(write.session, ctx.caller, same[start : start + READ_BATCH], write.now)
        for _, old in sorted(read.items()):
            if _adds_nothing(old, memory) and (like := _compare(old, memory)).relation == "same":
                return Similar(old, like)
    return None


def _find_near_duplicates(ctx: Context, write: Transaction, memory: Memory, ids: Sequence[str]) -> list[Similar]:
    """Read the first few visible candidates and compare them, best first."""
    found: dict[str, Memory] = {}
    for start in range(0, len(ids), MAX_COMPARED):
        found |= memories.by_ids(write.session, ctx.caller, ids[start : start + MAX_COMPARED], write.now)
        if len(found) >= MAX_COMPARED:
            break
    return _sort_related([Similar(found[id], _compare(found[id], memory)) for id in ids if id in found][:MAX_COMPARED])


def _compare(old: Memory, new: Memory) -> Similarity:
    return compare_titled(old.title, old.content, new.title, new.content)


def _sort_related(found: list[Similar]) -> list[Similar]:
    near = [one for one in found if one.likeness.relation != "other"]
    return sorted(near, key=lambda one: (_RELATION_ORDER[one.likeness.relation], -one.likeness.score, one.memory.id))


def _adds_nothing(old: Memory, new: Memory) -> bool:
    """Whether a new memory adds nothing to an old one: no text, no metadata, no wider scope, no later expiry."""
    words = normalize_text(new.content)
    return (
        len(words.split()) >= MIN_WORDS
        and words == normalize_text(old.content)
        and not _has_distinct_title(old, new)
        and (old.scope, old.kind, old.category) == (new.scope, new.kind, new.category)
        and (old.scope != "private" or old.agent == new.agent)
        and (old.expires_at is None or (new.expires_at is not None and TIERS.index(new.tier) <= TIERS.index(old.tier)))
        and {*new.tags} <= {*old.tags}
        and {*new.citations} <= {*old.citations}
        and all(old.metadata.get(name, UNSET) == value for name, value in new.metadata.items())
        and all(getattr(new, name) in (None, getattr(old, name)) for name in _COMPARED_FIELDS)
    )


def _has_distinct_title(old: Memory, new: Memory) -> bool:
    """Whether two titles differ in meaning, not only in case and spaces."""
    return normalize_text(old.title) != normalize_text(new.title) and have_distinct_subjects(
        old.title, new.title, old.content, strict=False
    )


_COMPARED_FIELDS = (
    "source_uri",
    "source_span",
    "valid_from",
    "valid_until",
    "speaker",
    "occurred_at",
    "thread",
    "place",
)


def _find_echoes(ctx: Context, write: Transaction, memory: Memory) -> list[Memory]:
    """List the memories that the agent recalled recently, if the new text only repeats them."""
    own = strip_pasted_blocks(memory.content)
    if not own.strip():
        return find_cited(ctx, write.session, memory.content, write.now)
    if not _is_significant(own):
        return []
    found = RecentRecalls(ctx, write.session, write.now).find_repeated(memory.title, own)
    read = memories.by_ids(write.session, ctx.caller, found, write.now) if found else {}
    return [read[id] for id in found if id in read]


def _is_significant(text: str) -> bool:
    return len(text.split()) >= MIN_WORDS or not text.isascii()


class RecentRecalls:
    """Memories that the caller's agent recalled within the last hour, for echo detection."""

    def __init__(self, ctx: Context, session: Session, now: int, but_from: str | None = None) -> None:
        """Leave out memories of the source `but_from`, if given."""
        read = memories.read_texts(session, ctx.caller, _list_recalled_ids(ctx, session, now), now)
        self._memories = [one for one in read if but_from is None or one.source_uri != but_from]
        self._texts = [f"{one.title}\n{one.content}" for one in self._memories]

    def find_repeated(self, title: str, content: str) -> list[str]:
        """Ids of the recalled memories that a text repeats; empty if it adds anything."""
        if not self._memories or not _is_significant(content):
            return []
        near = preselect_echoes(self._texts, content)
        candidates = [self._memories[index] for index in near]
        found = find_echoes([self._texts[index] for index in near], content, candidates) if near else []
        if found and have_distinct_subjects(found[0].title, title, content, strict=False):
            return []
        return [one.id for one in found]


def strip_pasted_blocks(text: str) -> str:
    """Remove pasted context blocks from a text."""
    if "</" not in text:
        return text
    return remove_recalled(text)


def find_cited(ctx: Context, session: Session, text: str, now: int) -> list[Memory]:
    """Read the visible memories that pasted context blocks cite."""
    found: dict[str, Memory] = {}
    for id in dict.fromkeys(one[1] for one in islice(_CITED.finditer(text), MAX_CITED)):
        with suppress(NotFound, AmbiguousId):
            one = memories.resolve(session, ctx.caller, id, now)
            found[one.id] = one
    return [*found.values()]


_CITED = re.compile(r"\[([0-9a-f]{8}[0-9a-f-]{0,28})\]")


def _list_recalled_ids(ctx: Context, session: Session, now: int) -> list[str]:
    """Ids of this agent's latest recall hits, newest first, including those not yet flushed."""
    agent, since = ctx.caller.agent, now - RECALL_WINDOW
    recent = [one for one in ctx.local(RecallLog).list_all() if one.agent == agent and one.asked_at >= since]
    unflushed = [[hit.id for hit in one.hits] for one in recent]
    stored = (
        recall_log.list_recent_hits(session, agent, since=since, limit=MAX_RECALLS)
        if len(unflushed) < MAX_RECALLS
        else []
    )
    ids = [id for hits in (unflushed[::-1] + stored)[:MAX_RECALLS] for id in hits]
    return list(dict.fromkeys(ids))[:MAX_RECALLED_HITS]


# Secrets

_TEXT_FIELDS = ("title", "content", "tags", "metadata", "citations", "source_uri", "speaker", "thread")


class SecretsFound(NamedTuple):
    """The kinds of secrets found in a text, and whether they were redacted."""

    kinds: tuple[str, ...] = ()
    redacted: bool = False


def filter_draft_secrets(session: Session, draft: Draft) -> tuple[Draft, SecretsFound]:
    """Apply the namespace's secret policy to a draft; return it with the secrets found."""
    given = {name: value for name in _TEXT_FIELDS if (value := getattr(draft, name)) is not UNSET and value}
    clean, found = filter_secrets(session, draft.namespace, given)
    return replace(draft, **clean) if found.redacted else draft, found


def filter_memory_secrets(session: Session, memory: Memory) -> Memory:
    """Apply the namespace's secret policy to a memory from another store or namespace."""
    given = {name: value for name in (*_TEXT_FIELDS, "reason", "extra") if (value := getattr(memory, name))}
    clean, found = filter_secrets(session, memory.namespace, given)
    if not found.redacted:
        return memory
    return replace(
        memory, **clean | {"title": validate.title(clean["title"]), "content": validate.content(clean["content"])}
    )


def _searchable_value(name: str, value: Any) -> Any:
    """The part of a field that may contain a secret: of citations, the URI."""
    return [one.uri for one in value] if name == "citations" else value


def _redact_value(name: str, value: Any) -> Any:
    if name == "citations":
        return tuple(replace(one, uri=content_scan.redact_text(one.uri)[0]) for one in value)
    return content_scan.redact_value(value)


def list_secret_kinds(ctx: Context, memory: Memory) -> list[str]:
    """The kinds of secrets in a memory; empty if its namespace allows secrets."""
    given = {name: _searchable_value(name, getattr(memory, name)) for name in _TEXT_FIELDS}
    kinds = dict.fromkeys(
        one.secret.kind for name, value in given.items() for one in content_scan.find_in_value(name, value)
    )
    if not kinds:
        return []
    with ctx.reading() as session:
        return [] if policies.resolve_rules(session, memory.namespace).secrets == "allow" else list(kinds)


def filter_secrets(session: Session, namespace: str, given: dict[str, Any]) -> tuple[dict[str, Any], SecretsFound]:
    """Apply a namespace's secret policy to fields; return them with the secrets found."""
    validate.foreign_json("metadata", given.get("metadata"))  # rejects nesting that is too deep to walk
    found = [
        place
        for name, value in given.items()
        for place in content_scan.find_in_value(name, _searchable_value(name, value))
    ]
    if not found:
        return given, SecretsFound()
    rule = policies.resolve_rules(session, namespace).secrets
    kinds = tuple(dict.fromkeys(one.secret.kind for one in found))
    match rule:
        case "refuse":
            raise SecretRefused(_format_refusal(found), secrets=[_describe_place(one) for one in found])
        case "redact":
            return {name: _redact_value(name, value) for name, value in given.items()}, SecretsFound(
                kinds, redacted=True
            )
        case "flag":
            return given, SecretsFound(kinds)
    return given, SecretsFound()


def _describe_place(one: content_scan.SecretLocation) -> dict[str, Any]:
    return {"field": one.field, "kind": one.secret.kind, "start": one.secret.start, "end": one.secret.end}


def _format_refusal(found: list[content_scan.SecretLocation]) -> str:
    first = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"{first.field}: contains a secret ({first.secret.kind}) at character {first.secret.start}{more}. "
        "This namespace refuses secrets: remove it and reference where it is stored."
    )

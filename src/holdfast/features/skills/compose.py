"""Compose a skill with reflections of its namespaces: valid, visible to the caller, within a token budget."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.embeddings import passage_vectors
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import AccessLog, Filter
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.features.recall import search_index
from holdfast.features.recall.features import RELATED, SPAN, UNRELATED
from holdfast.features.recall.lexical_hits import MAX_QUERY_CHARACTERS, NO_EMBEDDINGS, UNKNOWN_WORDS
from holdfast.features.recall.query import QueryEmbedding, parse_query
from holdfast.features.reflections import read_invalidations as invalidations
from holdfast.features.skills import reflection_store
from holdfast.features.skills import service as skills
from holdfast.features.skills.model import Composition, DropReason
from holdfast.features.skills.reflection_store import ReflectionScope, ReflectionScore
from holdfast.features.skills.service import Staleness
from holdfast.kernel.context import Context, is_under
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.records.fields import PRIVATE, computed
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import token_count
from holdfast.kernel.timestamps import TimeText, format_timestamp
from holdfast.kernel.vector import Embedding

MAX_WORD_HITS = 100
"""Keyword hits per namespace."""
MAX_NEAREST = 50
"""Embedding hits per namespace."""


class Relevance(NamedTuple):
    """Scores by reflection id, relative to the best one."""

    scores: dict[str, float]
    degraded: str | None = None


def score_relevance(ctx: Context, places: Sequence[ReflectionScope], query: str) -> Relevance:
    """Score the reflections that share a word with the query or are near it in meaning."""
    words, text = parse_query(query, ctx.now()).words, query[:MAX_QUERY_CHARACTERS]
    if not words:
        return Relevance({})
    with QueryEmbedding() as ahead:
        if ctx.embedder is not None:
            ahead.start(ctx.embedder, text)
        found = _score_by_words(ctx, places, words)
        if ctx.embedder is None:
            return Relevance(found)
        try:
            vector = ahead.get_vector(ctx.embedder, text)
        except EmbedderFailed as error:
            return Relevance(found, f"Keyword search only. {error.message}")
    if vector is None:
        return Relevance(found, UNKNOWN_WORDS)
    near = _score_by_embedding(ctx, places, Embedding(ctx.embedder.model, vector))
    if near is None:
        return Relevance(found, NO_EMBEDDINGS)
    return Relevance(_normalise({id: found.get(id, 0.0) + near.get(id, 0.0) for id in found.keys() | near.keys()}))


def _score_by_words(ctx: Context, places: Sequence[ReflectionScope], words: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    with ctx.reading() as session:
        asked = search_index.plan_query(session, words)
        for place in places:
            which = Filter(under=place.namespace, kinds=("reflection",))
            hits = search_index.find_matches(session, ctx.caller, asked, which, ctx.now(), limit=MAX_WORD_HITS)
            found |= {hit.id: hit.score for hit in hits}
    return _normalise(found)


def _score_by_embedding(
    ctx: Context, places: Sequence[ReflectionScope], embedding: Embedding
) -> dict[str, float] | None:
    """Score by cosine relative to the nearest one; None if the store has no embeddings of this model."""
    near: dict[str, float] = {}
    with ctx.reading() as session:
        if passage_vectors.get_dimension(session, embedding.model) != embedding.vector.dim:
            return None
        for place in places:
            near |= reflection_store.find_nearest(session, ctx.caller, place, embedding, ctx.now(), limit=MAX_NEAREST)
    span = max(SPAN, max(near.values(), default=0.0) - UNRELATED)
    return {id: (cosine - UNRELATED) / span for id, cosine in near.items() if cosine >= RELATED} if near else None


def _normalise(scores: dict[str, float]) -> dict[str, float]:
    """Divide every score by the best one."""
    most = max(scores.values(), default=0.0)
    return {id: score / most for id, score in scores.items() if score > 0}


MIN_CANDIDATES = 100
"""Reflections read per namespace at least, best by age and use."""
MIN_REFLECTION_TOKENS = 64
"""Smallest size of a reflection; decides how many are read for a large budget."""
MAX_LISTED_IDS = 50
"""Ids listed per reason for leaving reflections out."""
RELEVANCE_WEIGHT = 3.0
"""Relevance outweighs age and use together, which add up to at most 2."""
MAX_MISSES = 8
"""Stop counting tokens after this many reflections in a row that did not fit."""
ID_TOKEN_SLACK = 24
"""Token counts of two ids differ by at most this much."""

FRAME = "[]"
"""Text around all reflections, which counts toward the budget."""
REASONS: tuple[DropReason, ...] = get_args(DropReason)


class ComposedNamespace(Struct, frozen=True, kw_only=True):
    """A namespace that a skill composes with, and its maximum reflection depth."""

    namespace: str
    min_depth: int
    max_depth: Annotated[int, PRIVATE]
    is_reachable: Annotated[bool, PRIVATE]
    """False: the caller learns nothing about the namespace and sees only what its key reaches below it."""

    @computed
    def max_reflection_depth(self) -> int | None:
        """Missing if the key does not reach the namespace."""
        return self.max_depth if self.is_reachable else None

    @computed
    def note(self) -> str | None:
        """Why it has no reflections, or not all."""
        if not self.is_reachable:
            return "Your key does not reach this namespace; only reachable namespaces below it were searched."
        if self.scope is None:
            return (
                f"No reflections: the maximum depth is {self.max_depth}, the skill asks for {self.min_depth} or more."
            )
        return None

    @property
    def scope(self) -> ReflectionScope | None:
        """The namespace and depth range to read; None if the minimum depth exceeds the maximum."""
        if self.min_depth > self.max_depth:
            return None
        return ReflectionScope(self.namespace, self.min_depth, self.max_depth)


class ScoredMemory(NamedTuple):
    memory: Memory
    score: float


class DroppedGroup(Struct, frozen=True):
    reason: DropReason
    count: int
    ids: list[str]


class ComposedReflection(Struct, frozen=True, kw_only=True):
    id: str
    namespace: str
    title: str
    content: str
    reflection_depth: int
    agent_id: str
    created_at: TimeText
    score: float


class SkillComposeResult(Struct, frozen=True, kw_only=True):
    skill_id: str
    skill_namespace: str
    skill_name: str
    current: bool
    superseded_by: str | None = None
    """Id of the current version, if another one was requested."""
    stale: Staleness | None = None
    """Present if the reflection it was promoted from is no longer valid."""
    body: str
    body_tokens: int
    """Not part of the budget."""
    compositional_namespaces: list[ComposedNamespace]
    reflections: list[ComposedReflection]
    budget_tokens: int
    tokens_used: int
    """Tokens of the reflections as sent."""
    memories_dropped: int
    """Number of valid reflections that did not fit the budget."""
    dropped: list[DroppedGroup]
    degraded: str | None = None


def compose(ctx: Context, id: str, query: str | None, budget: int) -> SkillComposeResult:
    """Return the body of a skill and the best reflections of its namespaces that fit the budget, as they are sent.

    The body does not count toward the budget.
    """
    now = ctx.now()
    with ctx.reading() as session:
        skill = skills.get(ctx, session, id)
        staleness = skills.find_stale(ctx, session, [skill.version]).get(skill.version.id)
        body = skills.read_body(session, skill.version)
        entries = [_resolve_entry(ctx, session, one) for one in skill.version.composes]
    places = _drop_nested_scopes([entry.scope for entry in entries if entry.scope is not None])
    found = score_relevance(ctx, places, query) if query is not None and places else Relevance({})
    most = max(MIN_CANDIDATES, budget // MIN_REFLECTION_TOKENS)
    with ctx.reading() as session:
        scored = _score_reflections(ReflectionReader(ctx, session, now), places, found.scores, most)
        order = sorted(scored.scores.items(), key=lambda one: (-one[1], one[0]))
        stale = {
            one.dependent for one in invalidations.list_pending_expiries(session, [id for id, _ in order[:most]], now)
        }
        best = [one for one in order[:most] if one[0] not in stale]
        read = memories.by_ids(session, ctx.caller, [id for id, _ in best], now)
    fit_result = _fit_budget([ScoredMemory(read[id], score) for id, score in best], budget)
    ctx.local[AccessLog].record(ctx.caller.agent, [one.memory.id for one in fit_result.taken], now)
    faults = scored.faults | dict.fromkeys(sorted(stale), "stale") | dict.fromkeys(fit_result.over_budget, "budget")
    version, dropped = skill.version, list(_group_dropped(faults, scored.unread + len(order[most:])))
    return SkillComposeResult(
        skill_id=version.id,
        skill_namespace=version.namespace,
        skill_name=version.name,
        current=skill.is_current,
        superseded_by=None if skill.is_current else skill.skill.current,
        stale=staleness,
        body=body,
        body_tokens=_count_body_tokens(body),
        compositional_namespaces=entries,
        reflections=[_build_reflection(one) for one in fit_result.taken],
        budget_tokens=budget,
        tokens_used=fit_result.tokens,
        memories_dropped=sum(one.count for one in dropped if one.reason in ("budget", "rank")),
        dropped=dropped,
        degraded=found.degraded,
    )


def _build_reflection(one: ScoredMemory) -> ComposedReflection:
    return ComposedReflection(
        id=one.memory.id,
        namespace=one.memory.namespace,
        title=one.memory.title,
        content=one.memory.content,
        reflection_depth=one.memory.reflection_depth,
        agent_id=one.memory.agent,
        created_at=format_timestamp(one.memory.created_at),
        score=round(one.score, 6),
    )


def _render_reflection(one: ScoredMemory) -> str:
    """Render a reflection as it is sent, among others."""
    return msgspec.json.encode(_build_reflection(one)).decode() + ","


@lru_cache(8)
def _count_body_tokens(body: str) -> int:
    """Cached: the same skills are composed repeatedly."""
    return token_count.count_tokens(body)


def _drop_nested_scopes(places: list[ReflectionScope]) -> list[ReflectionScope]:
    """Drop scopes that lie within another."""
    found: list[ReflectionScope] = []
    for place in sorted(set(places), key=lambda one: (len(one.namespace), one.min_depth, -one.max_depth)):
        if not any(
            is_under(place.namespace, one.namespace)
            and one.min_depth <= place.min_depth
            and place.max_depth <= one.max_depth
            for one in found
        ):
            found.append(place)
    return found


def _resolve_entry(ctx: Context, session: Session, composition: Composition) -> ComposedNamespace:
    return ComposedNamespace(
        namespace=composition.namespace,
        min_depth=composition.min_depth,
        max_depth=resolve_rules(session, composition.namespace).max_reflection_depth,
        is_reachable=ctx.caller.can_access(composition.namespace),
    )


class ReflectionReader(NamedTuple):
    ctx: Context
    session: Session
    now: int

    def find_best(self, within: ReflectionScope, most: int) -> list[ReflectionScore]:
        """Return at least `most` valid reflections if there are that many, and the invalid ones ranked between them."""
        limit = most + most // 2
        while True:
            found = reflection_store.find_best(self.session, self.ctx.caller, within, self.now, limit=limit)
            if len(found) < limit or sum(not one.fault for one in found) >= most:
                return found
            limit *= 4

    def find_among(self, within: ReflectionScope, ids: list[str]) -> list[ReflectionScore]:
        return reflection_store.find_best(self.session, self.ctx.caller, within, self.now, limit=len(ids), among=ids)

    def count(self, within: ReflectionScope) -> int:
        return reflection_store.count_reflections(self.session, self.ctx.caller, within)


class Scores(NamedTuple):
    scores: dict[str, float]
    faults: dict[str, str]
    """Invalid reflections by id, with the reason."""
    unread: int
    """Number of reflections not read because others are newer or more used."""


def _score_reflections(
    look: ReflectionReader, places: list[ReflectionScope], relevant: dict[str, float], most: int
) -> Scores:
    """Score each reflection once."""
    scores = Scores({}, {}, 0)
    for within in places:
        found = {one.id: one for one in look.find_best(within, most)}
        found |= {one.id: one for one in look.find_among(within, sorted(relevant))} if relevant else {}
        for one in found.values():
            if one.fault:
                scores.faults[one.id] = one.fault
            else:
                scores.scores[one.id] = one.score + RELEVANCE_WEIGHT * relevant.get(one.id, 0.0)
        scores = scores._replace(unread=scores.unread + max(0, look.count(within) - len(found)))
    return scores


class _FitResult(NamedTuple):
    taken: list[ScoredMemory]
    tokens: int
    over_budget: list[str]


def _fit_budget(order: list[ScoredMemory], budget: int) -> _FitResult:
    """Take the best reflections that fit; skip one that is too large and go on with smaller ones."""
    fits: list[ScoredMemory] = []
    left: list[str] = []
    used = token_count.count_tokens(FRAME)
    around = _count_overhead(order[0]) if order else 0
    missed = 0
    for one in order:
        room = budget - used
        cost = room + 1
        if missed < MAX_MISSES and around + len(one.memory.content.split()) <= room:  # a word has at least one token
            cost = token_count.count_tokens(_render_reflection(one), room)
            missed += 1
        if cost > room:
            left.append(one.memory.id)
        else:
            fits.append(one)
            used, missed = used + cost, 0
    return _FitResult(fits, used if fits else 0, left)


def _count_overhead(one: ScoredMemory) -> int:
    """Return a lower bound of the tokens sent around the text of each reflection."""
    empty = replace(one.memory, title="", content="", namespace="", agent="")
    return max(0, token_count.count_tokens(_render_reflection(ScoredMemory(empty, 0.0))) - ID_TOKEN_SLACK)


def _group_dropped(faults: dict[str, str], beyond: int) -> Iterator[DroppedGroup]:
    """Group the reflections left out by reason; those not read have no ids."""
    for reason in REASONS:
        if ids := [id for id, why in faults.items() if why == reason]:
            yield DroppedGroup(reason, len(ids), ids[:MAX_LISTED_IDS])
    if beyond:
        yield DroppedGroup("rank", beyond, [])

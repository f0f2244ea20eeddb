"""A query finds the same hits as if every memory were a candidate."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

import holdfast
from engines import ENGINES_BY_RING
from holdfast.features.memories.read_memories import EVERYTHING, Filter
from holdfast.features.recall import lexical_hits
from holdfast.features.recall.candidates import Candidates, find_candidates
from holdfast.features.recall.features import RELATED
from holdfast.features.recall.lexical_hits import Reader, parse_request, search_keywords
from holdfast.features.recall.query import RecallRequest
from holdfast.features.recall.ranking import RankedMemory, Ranking, rank_features
from holdfast.features.recall.service import compute_features
from holdfast.kernel.records.validate import validate_embedding
from holdfast.settings import Settings

TOPICS = ("plum cake", "oven door", "bicycle repair", "garden fence", "train ticket", "blue kettle")
VERBS = ("bought", "mended", "lost", "painted", "forgot", "sold")
PEOPLE = ("Ada", "Ben Lee", "Caro")
MANY = 100


@pytest.fixture(autouse=True)
def as_broad_as_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each channel returns everything that matches."""
    monkeypatch.setattr(lexical_hits, "WIDE", lexical_hits.Breadth(MANY, MANY, 50, 50))


def turns() -> Iterator[dict[str, Any]]:
    """Memories of six conversations, notes without a speaker, turns without a thread."""
    random = Random(4)
    for number in range(MANY):
        topic, verb = random.choice(TOPICS), random.choice(VERBS)
        told = f"I {verb} the {topic} in week {number}" + random.choice(
            ("?", ".", " with my sister.", " again, as always.")
        )
        memory: dict[str, Any] = {"title": f"Turn {number}", "content": told, "priority": random.randint(1, 10)}
        if number % 3:
            memory |= {"speaker": PEOPLE[number % len(PEOPLE)], "thread": f"talk {number // 10}", "place": number}
            memory["content"] = f"{memory['speaker']}: {told}"
        if number % 2:
            memory["occurred_at"] = f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:00:00Z"
        yield {**memory, "namespace": f"team/{number % 4}", "embedding": near(number)}


def near(number: int) -> dict[str, Any]:
    random = Random(number)
    return {"model": "own", "vector": [1.0 + random.gauss(0, 1) for _ in range(8)]}


@pytest.fixture(scope="module", params=ENGINES_BY_RING)
def filled_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[holdfast.Holdfast]:
    with ExitStack() as stack:
        address = str(tmp_path_factory.mktemp("whole") / "memory.db")
        if request.param == "postgres":
            address = stack.enter_context(request.getfixturevalue("postgres").new_store())
        settings = Settings(db=address, agent_id="ai:tester@here", embedder="none")
        hold = stack.enter_context(holdfast.open(settings=settings))
        ids = hold.bulk_store(memories=list(turns())).ids
        hold.link(source_id=ids[3], target_id=ids[40], relation="supersedes")
        hold.link(source_id=ids[10], target_id=ids[20])
        yield hold


QUESTIONS = [
    "who mended the bicycle?",
    "what did Ada buy?",
    "plum cake",
    "what did Ben Lee say about the kettle in March?",
    "train",
    "sister garden fence painted",
    "what happened in week 17?",
    "again as always the oven door of Caro",
    "tickets sold in May 2026",
    "something about nothing of these",
]


def rank_all(hold: holdfast.Holdfast, request: RecallRequest, also: Sequence[str] = ()) -> tuple[Ranking, Candidates]:
    now = hold.ctx.now()
    search = search_keywords(hold.ctx, request, parse_request(hold.ctx, request, now), now)
    with hold.ctx.reading() as session:
        reader = Reader(hold.ctx, session, search.request.filter, search.now)
        candidates = find_candidates(reader, search, also)
        return rank_features(compute_features(candidates), reader.now), candidates


def bears(one: RankedMemory) -> bool:
    """Whether it contains a query word or is near; a memory that is only in the thread of a hit does not count."""
    return bool(one.terms) or (one.cosine is not None and one.cosine >= RELATED)


@pytest.mark.parametrize(
    "which", [EVERYTHING, Filter(under="team"), Filter(namespace="team/1")], ids=["all", "under", "in"]
)
@pytest.mark.parametrize("by", ["words", "words and vectors"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_top_ten_match_a_ranking_of_all_memories(
    filled_store: holdfast.Holdfast, question: str, by: str, which: Filter
) -> None:
    asked = near(len(question))
    vector = validate_embedding(asked["model"], asked["vector"]) if by != "words" else None
    ask = RecallRequest(question, filter=which, embedding=vector)
    every = [row["id"] for row in filled_store.export()["memories"]]
    (found, candidates), (whole, _) = rank_all(filled_store, ask), rank_all(filled_store, ask, every)
    expected = [one for one in whole if bears(one) or one.id in candidates.rows]
    assert len(every) == MANY
    assert [one.id for one in found[:10]] == [one.id for one in expected[:10]]
    assert [one.features for one in found[:10]] == [one.features for one in expected[:10]]

"""Embeddings of new memories: by recall at once, by the background worker permanently, never delaying a write."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

import holdfast
from holdfast.app import Holdfast
from holdfast.features.embeddings import service as embed
from holdfast.features.memories.read_memories import EVERYTHING
from holdfast.features.recall import search_index
from holdfast.kernel.context import Caller, Context, Progress
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed, OperationCancelled
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.vector import Embedding, Vector, unit_vector
from holdfast.settings import Settings

ME = Caller("ai:tester@here")
MODEL = "all-MiniLM-L6-v2-int8"

pytestmark = pytest.mark.usefixtures("vectors_made")


class Letters:
    """Embeds a text as its letter counts, and records the texts."""

    dim = 26
    remote = False
    is_loaded = True

    def __init__(self, model: str = "letters", refuses: str = "\0", fails: Callable[[], None] = lambda: None) -> None:
        self.model = model
        self.asked: list[str] = []
        self._refuses = refuses
        self._fails = fails

    def can_embed(self, text: str) -> bool:
        return True

    def warm(self) -> None:
        pass

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        self._fails()
        if any(self._refuses in text for text in texts):
            raise EmbedderFailed("It is refused.")
        self.asked += texts
        return [unit_vector([1.0 + text.lower().count(chr(97 + place)) for place in range(26)]) for text in texts]


@pytest.fixture
def open_with_embedder(db: str) -> Iterator[Callable[..., Holdfast]]:
    """Open the store with the test's embedder and without a background worker."""
    made: list[Holdfast] = []

    def open_one(embedder: Embedder | None = None) -> Holdfast:
        ctx = Context(store=open_store(db), caller=ME, embedder=embedder or Letters())
        made.append(Holdfast(ctx, Settings(db=db)))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


def count_embeddings(hold: Holdfast, model: str = "letters") -> dict[str, list[tuple[int, int]]]:
    """Return the passages with a current embedding, by memory."""
    with hold.ctx.reading() as session:
        said = dict(session.query_sql("select id, content_hash from memory", {}))
        found: dict[str, list[tuple[int, int]]] = {}
        for id, begins, ends, _, made_of in session.vectors(list(said), model):
            if made_of == said[id]:
                found.setdefault(id, []).append((begins, ends))
    return found


def fill(hold: Holdfast, number: int) -> list[str]:
    items = [{"title": f"t {at}", "content": f"note number {at} of many"} for at in range(number)]
    return list(hold.bulk_store(memories=items).ids)


def test_a_memory_is_found_by_meaning_right_after_it_was_stored(db: str) -> None:
    with holdfast.open(db, agent_id=ME.agent, once=True) as hold:
        hold.store(title="a", content="The team meets each morning at half past nine in the blue room.")
        hold.store(title="b", content="Our database runs on port 5433.")
        answer = hold.recall("when is the daily gathering?")
        assert ([hit.title for hit in answer.memories][:1], answer.mode) == (["a"], "hybrid")
        assert count_embeddings(hold, MODEL) == {}


def test_another_process_finds_a_memory_by_meaning(db: str) -> None:
    script = "import sys, holdfast; print([m.title for m in holdfast.open(sys.argv[1]).recall(sys.argv[2]).memories])"
    with holdfast.open(db, agent_id=ME.agent, once=True) as hold:
        hold.store(title="a", content="The team meets each morning at half past nine in the blue room.")
        asked = [sys.executable, "-c", script, db, "the daily gathering"]
        assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "['a']\n"
        hold.reembed()
        hold.store(title="b", content="Everybody gathers once a day.")
        found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        assert sorted(found) == sorted("['a', 'b']\n")


def test_embeddings_are_computed_in_the_background_after_a_store(db: str) -> None:
    with holdfast.open(db, agent_id=ME.agent) as hold:
        ids = fill(hold, 40)
        while set(count_embeddings(hold, MODEL)) != set(ids):
            hold.ctx.store.wait_for_commit(0.1)
        assert hold.recall("note").meta.degraded is None


def test_the_embedding_worker_waits_while_a_write_is_running(db: str) -> None:
    with holdfast.open(settings=Settings(db=db, agent_id=ME.agent, embedder="minilm")) as hold:
        assert hold.embedding_worker is not None
        with suppress(OperationCancelled), hold.ctx.transaction():
            begun = monotonic()
            assert hold.embedding_worker.last_write_time() >= begun
            raise OperationCancelled
        assert hold.embedding_worker.last_write_time() < begun


def test_every_passage_has_an_embedding_and_so_does_a_title_that_adds_to_it(
    open_with_embedder: Callable[..., Holdfast],
) -> None:
    embedder = Letters()
    hold = open_with_embedder(embedder)
    text = "One sentence stands here, and it is short. " * 8
    long = hold.store(title="of something else entirely", content=text)
    short = hold.store(title="deploy", content="We deploy on Tuesdays.")
    made = hold.reembed()
    assert (made.memories, made.passages, made.refused) == (2, 3 + 1, [])
    assert count_embeddings(hold)[long.id][0] == (-1, -1)
    assert [text[begins:ends] for begins, ends in count_embeddings(hold)[long.id][1:]] == embedder.asked[1:3]
    assert count_embeddings(hold)[short.id] == [(0, len("We deploy on Tuesdays."))]


def test_existing_embeddings_are_not_computed_again(open_with_embedder: Callable[..., Holdfast]) -> None:
    embedder = Letters()
    hold = open_with_embedder(embedder)
    ids = fill(hold, 150)
    assert (hold.reembed().memories, set(count_embeddings(hold))) == (150, set(ids))
    asked = len(embedder.asked)
    assert hold.reembed().memories == 0
    hold.update(ids[7], priority=9)
    assert hold.reembed().memories == 0
    assert len(embedder.asked) == asked
    hold.update(ids[7], content="something new")
    assert (hold.reembed().memories, embedder.asked[asked:]) == (1, ["something new"])


def test_a_changed_text_is_not_found_by_its_former_meaning(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder()
    one = hold.store(title="x", content="zzzz zzzz zzzz")
    hold.reembed()
    hold.update(one.id, content="aaaa aaaa aaaa")
    (letters,) = Letters().embed(["zzzz"])
    with hold.ctx.reading() as session:
        asked = Embedding("letters", letters)
        assert search_index.find_nearest(session, ME, asked, EVERYTHING, hold.ctx.now(), limit=9) == []
    hold.reembed()
    assert list(count_embeddings(hold)) == [one.id]


def test_embedding_resumes_where_it_was_stopped(open_with_embedder: Callable[..., Holdfast]) -> None:
    class Enough(Exception):
        pass

    def enough() -> None:
        if len(embedder.asked) >= 100:
            raise Enough

    embedder = Letters(fails=enough)
    hold = open_with_embedder(embedder)
    ids = fill(hold, 200)
    with pytest.raises(Enough):
        hold.reembed()
    done = set(count_embeddings(hold))
    assert 0 < len(done) < 200
    other = Letters()
    assert open_with_embedder(other).reembed().memories == 200 - len(done)
    assert set(count_embeddings(hold)) == set(ids)


def test_embedding_stops_when_its_caller_cancels(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder()
    fill(hold, 10)
    stop = threading.Event()
    stop.set()
    with pytest.raises(OperationCancelled):
        hold.call("reembed", {}, progress=Progress(stop=stop))
    assert count_embeddings(hold) == {}


def test_a_text_refused_by_the_model_is_named_and_the_others_are_embedded(
    open_with_embedder: Callable[..., Holdfast],
) -> None:
    hold = open_with_embedder(Letters(refuses="poison"))
    ids = fill(hold, 20)
    bad = hold.store(title="bad", content="a poison pill")
    made = hold.reembed()
    assert (made.memories, [(one.id, one.error) for one in made.refused]) == (20, [(bad.id, "It is refused.")])
    assert set(count_embeddings(hold)) == set(ids)
    assert hold.reembed(everything=True).refused[0].id == bad.id


def test_a_model_that_refuses_every_text_fails_as_a_whole(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder(Letters(refuses="note"))
    fill(hold, 5)
    with pytest.raises(EmbedderFailed, match="It is refused"):
        hold.reembed()
    assert hold.recall("note").count == 5


def test_a_query_without_an_embedding_uses_keywords_and_reports_it(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder(Letters(refuses="?"))
    hold.store(title="x", content="We deploy on Tuesdays.")
    answer = hold.recall("when do we deploy?")
    assert (answer.mode, answer.count) == ("keyword", 1)
    assert answer.meta.degraded == "Keyword search only. It is refused."


def test_embeddings_of_two_models_never_mix(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder(Letters("one"))
    fill(hold, 40)
    hold.reembed()
    other = open_with_embedder(Letters("two"))
    answer = other.recall("note")
    assert (answer.mode, answer.meta.degraded.startswith("Many new memories")) == ("keyword", True)
    other.reembed()
    assert other.recall("note").mode == "hybrid"
    assert [(one.model, one.memories) for one in other.stats().embeddings] == [("one", 40), ("two", 40)]


def test_concurrent_workers_embed_each_memory_once(open_with_embedder: Callable[..., Holdfast]) -> None:
    holds = [open_with_embedder() for _ in range(4)]
    ids = fill(holds[0], 300)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda ctx: ctx.reembed().memories, holds))
    assert sum(made) == 300
    assert count_embeddings(holds[0]).keys() == set(ids)


def test_deleted_memories_need_no_embeddings(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder()
    ids = fill(hold, 3)
    hold.delete(ids[0])
    assert (hold.reembed().memories, set(count_embeddings(hold))) == (2, set(ids[1:]))


def test_a_killed_embedding_process_leaves_its_work_to_the_next(db: str, tmp_path: Path) -> None:
    script = """
import os, sys, holdfast
from holdfast.features.embeddings import service as embed
hold = holdfast.open(sys.argv[1], once=True)
made = embed.embed_next(hold.ctx, hold.ctx.embedder)
print(made.memories, flush=True)
os.kill(os.getpid(), 9)
"""
    with holdfast.open(db, agent_id=ME.agent, once=True) as hold:
        ids = fill(hold, 100)
        told = subprocess.run([sys.executable, "-c", script, db], capture_output=True, text=True, check=False).stdout
        assert len(count_embeddings(hold, MODEL)) == int(told) == embed.BATCH
        assert hold.reembed().memories == 100 - embed.BATCH
        assert set(count_embeddings(hold, MODEL)) == set(ids)


def test_a_model_with_changed_output_is_not_used_and_reported(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder()
    fill(hold, 3)
    hold.reembed()

    class Shorter(Letters):
        def embed(self, texts: Sequence[str]) -> list[Vector]:
            return [unit_vector([1.0, 2.0]) for _ in texts]

    answer = open_with_embedder(Shorter()).recall("note number 2")
    assert (answer.mode, answer.count) == ("keyword", 3)
    assert answer.meta.degraded == "Keyword search only. letters returned 2 dimensions; its stored embeddings have 26."


def test_a_model_that_fails_for_every_text_is_not_blamed_on_one_text(
    open_with_embedder: Callable[..., Holdfast],
) -> None:
    """A single due memory must not be given up because the model was unavailable."""
    hold = open_with_embedder(Letters(refuses=""))
    one = hold.store(title="x", content="We sold the old automobile.")
    with pytest.raises(EmbedderFailed):
        hold.reembed()
    assert (open_with_embedder().reembed().memories, list(count_embeddings(hold))) == (1, [one.id])


def test_missing_embeddings_are_reported_whoever_owns_the_first_memory(
    open_with_embedder: Callable[..., Holdfast],
) -> None:
    hold = open_with_embedder()
    hold.store(title="secret", content="of somebody else", scope="private")
    fill(hold, 40)
    other = Caller("ai:other@there", has_fixed_agent=True)
    answer = hold.call("recall", {"context": "note"}, caller=other)
    assert answer.meta.degraded.startswith("Many new memories have no embeddings yet")


def test_a_small_namespace_is_searched_by_meaning_while_others_are_queued(db: str) -> None:
    with holdfast.open(db, agent_id=ME.agent, once=True) as hold:
        fill(hold, 60)
        hold.store(title="a", content="The team meets each morning in the blue room.", namespace="tiny")
        answer = hold.recall("where is the daily gathering?", namespace="tiny")
        assert [hit.title for hit in answer.memories] == ["a"]


def test_all_embeddings_can_be_recomputed(open_with_embedder: Callable[..., Holdfast]) -> None:
    hold = open_with_embedder()
    ids = fill(hold, 5)
    hold.reembed()

    class Shorter(Letters):
        def embed(self, texts: Sequence[str]) -> list[Vector]:
            return [unit_vector([1.0, 2.0]) for _ in texts]

    other = open_with_embedder(Shorter())
    hold.store(title="one more", content="that is due")
    with pytest.raises(EmbedderFailed, match="returned 2 dimensions; its stored embeddings have 26"):
        other.reembed()
    made = other.reembed(everything=True)
    assert (made.memories, made.dropped) == (len(ids) + 1, len(ids))
    assert other.recall("note").mode == "hybrid"


def test_a_failing_model_removes_no_embedding_queued_for_recomputation(
    open_with_embedder: Callable[..., Holdfast],
) -> None:
    hold = open_with_embedder()
    ids = fill(hold, 5)
    own = {"model": "letters", "vector": [1.0] * 26}
    ids.append(hold.store(title="brought", content="by its owner", embedding=own).id)
    hold.reembed()
    before = count_embeddings(hold)

    def away() -> None:
        raise EmbedderFailed("It is away.", retryable=True)

    with pytest.raises(EmbedderFailed, match="It is away"):
        open_with_embedder(Letters(fails=away)).reembed(everything=True)
    assert (count_embeddings(hold), set(before)) == (before, set(ids))
    assert open_with_embedder().reembed().memories == 0


def test_recomputation_resumes_and_old_embeddings_serve_until_then(open_with_embedder: Callable[..., Holdfast]) -> None:
    def enough() -> None:
        if len(embedder.asked) > embed.BATCH:
            raise EmbedderFailed("It is away.", retryable=True)

    hold = open_with_embedder()
    ids = fill(hold, 150)
    hold.reembed()
    embedder = Letters(fails=enough)
    with pytest.raises(EmbedderFailed):
        open_with_embedder(embedder).reembed(everything=True)
    assert set(count_embeddings(hold)) == set(ids)
    answer = open_with_embedder().recall("note number 149")
    assert (answer.mode, answer.meta.degraded) == ("hybrid", None)
    last = Letters()
    assert open_with_embedder(last).reembed(everything=True).memories == 150 - embed.BATCH
    assert sorted(set(embedder.asked[1:]) | set(last.asked[1:])) == sorted(
        f"note number {at} of many" for at in range(150)
    )
    assert open_with_embedder(last).reembed().memories == 0
    assert open_with_embedder().reembed(everything=True).memories == 150


@pytest.mark.parametrize("question", ["...", " - ", "%_^", "\u200b", "\U0001f389", "((("], ids=ascii)
def test_an_empty_query_finds_nothing(db: str, question: str) -> None:
    with holdfast.open(db, agent_id=ME.agent, once=True) as hold:
        hold.store(title="a", content="ลูกค้าจ่ายเงินแล้ว")
        assert hold.recall(question).count == 0


def test_a_query_of_unknown_words_is_embedded_by_characters(db: str) -> None:
    with holdfast.open(db, agent_id=ME.agent, once=True) as hold:
        hold.store(title="thai", content="ลูกค้าจ่ายเงินแล้ว")
        hold.store(title="cat", content="我家的猫叫小白，喜欢吃三文鱼。")
        assert hold.recall("猫吃什么").memories[0].title == "cat"


@pytest.mark.parametrize(
    "other",
    [
        "Do not take ibuprofen together with the blood thinner after dinner each day",
        "Do take ibuprofen together with the 2 blood thinner after dinner each day",
    ],
    ids=["negation", "number"],
)
def test_a_differing_statement_is_not_grouped_as_similar(
    open_with_embedder: Callable[..., Holdfast], other: str
) -> None:
    hold = open_with_embedder()
    hold.store(title="A1", content="Do take ibuprofen together with the blood thinner after dinner each day")
    hold.store(title="A2", content=other)
    hold.store(title="A3", content="do take ibuprofen, together with blood thinner, after a dinner each day!")
    answer = hold.recall("may I take ibuprofen with the blood thinner?")
    assert sorted(len(hit.like or ()) for hit in answer.memories) == [0, 1]


def test_scores_never_rise_even_if_a_superseded_memory_matches_better(
    open_with_embedder: Callable[..., Holdfast],
) -> None:
    hold = open_with_embedder()
    old = hold.store(title="Office", content="Our office is in Elm Street, at the corner of Elm Street.")
    new = hold.store(title="Moved", content="We moved to Oak Avenue.")
    hold.link(source_id=new.id, target_id=old.id, relation="supersedes")
    answer = hold.recall("Elm Street office")
    assert [hit.title for hit in answer.memories] == ["Moved", "Office"]
    assert answer.memories[0].score >= answer.memories[1].score

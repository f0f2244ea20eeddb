"""Feedback: verdicts are stored, change ranking a little, and stay private to an agent."""

from typing import Any

import pytest

import holdfast
from engines import hide_store
from holdfast.features.recall import flush_access as use
from holdfast.features.recall import recall_log as recalls
from holdfast.features.recall import search_index
from holdfast.kernel.errors import Forbidden, Invalid, NotFound
from holdfast.settings import Settings

QUESTION = "when do we deploy?"


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def store_two(ctx: Any) -> list[str]:
    contents = ("We deploy on Tuesdays.", "They deploy on Fridays.")
    return [ctx.store(title=f"{number}", content=content).id for number, content in enumerate(contents)]


def ask(ctx: Any, question: str = QUESTION, **more: Any) -> str:
    return str(ctx.recall(question, **more).recall_id)


def count_logged(ctx: Any) -> int:
    with ctx.ctx.reading() as session:
        return int(session.rows("recall_log_count")[0][0])


def score(ctx: Any, id: str) -> float:
    return next(float(hit.why.score) for hit in ctx.recall(QUESTION, explain=True).memories if hit.id == id)


def test_used_memories_rise_and_wrong_ones_fall_further(hold: Any) -> None:
    used, wrong = store_two(hold)
    before = {id: score(hold, id) for id in (used, wrong)}
    kept = hold.feedback(ask(hold), verdicts={used: "used", wrong: "wrong"})
    assert [(one.id, one.outcome, one.utility) for one in kept.judged] == [
        (used, "applied", 0.2),
        (wrong, "applied", -0.4),
    ]
    assert before[used] < score(hold, used) < 1.1 * before[used]
    assert 0.9 * before[wrong] < score(hold, wrong) < before[wrong]


def test_a_recall_writes_nothing_until_it_is_flushed(hold: Any) -> None:
    store_two(hold)
    recall = ask(hold)
    assert count_logged(hold) == 0
    assert [one.recall_id for one in hold.recalls().recalls] == [recall]
    use.flush_access_log(hold.ctx)
    assert count_logged(hold) == 1
    assert [one.recall_id for one in hold.recalls().recalls] == [recall]


def test_a_read_only_caller_leaves_no_trace(hold: Any) -> None:
    ids = store_two(hold)
    found = hold.recall("deploy", note=False)
    use.flush_access_log(hold.ctx)
    assert {hit.id for hit in found.memories} == set(ids)
    assert (found.recall_id, count_logged(hold), hold.recalls().recalls) == (None, 0, [])
    assert [hold.get(id).access_count for id in ids] == [0, 0]


def test_repeating_a_verdict_changes_nothing_and_a_new_one_replaces_it(hold: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    told = [hold.feedback(recall, verdict, [id]).judged[0] for verdict in ("used", "used", "ignored")]
    assert [(one.outcome, one.utility) for one in told] == [("applied", 0.2), ("noop", 0.2), ("applied", -0.05)]


def test_each_agent_has_its_own_verdict(hold: Any, seen_by: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    other = seen_by("ai:other@there", right="admin")
    assert hold.feedback(recall, "used", [id]).judged[0].utility == 0.2
    assert other.feedback(recall, "used", [id]).judged[0].utility == pytest.approx(1 / 3)
    said = {"ai:tester@here": "used", "ai:other@there": "used"}
    assert [hit.verdicts for hit in hold.recalls().recalls[0].hits if hit.id == id] == [said]


def test_a_verdict_on_a_memory_outside_the_results_is_refused_with_all_others(hold: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    other = hold.store(title="Lunch", content="Soup.").id
    for verdicts in ({id: "used", other: "used"}, {id: "used", "0": "used"}, {id: "used", id[:30]: "wrong"}):
        with pytest.raises(Invalid):
            hold.feedback(recall, verdicts=verdicts)
    assert [hit.verdicts for hit in hold.recalls().recalls[0].hits] == [{}, {}]


def test_verdicts_and_hits_require_each_other(hold: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    for given in ({}, {"verdict": "used"}, {"ids": [id]}, {"ids": [id], "verdicts": {id: "used"}}):
        with pytest.raises(Invalid):
            hold.feedback(recall, **given)


def test_a_recall_of_another_agent_is_not_found_except_by_an_admin(hold: Any, seen_by: Any) -> None:
    id, _ = store_two(hold)
    mine = ask(hold)
    theirs = ask(other := seen_by("ai:other@there", right="write"))
    with pytest.raises(NotFound):
        other.feedback(mine, "used", [id])
    with pytest.raises(NotFound):
        seen_by("ai:third@there", right="admin", namespaces=("team",)).feedback(mine, "used", [id])
    with pytest.raises(NotFound):
        hold.feedback("no-such-recall", "used", [id])
    assert [one.recall_id for one in other.recalls().recalls] == [theirs]
    assert {one.recall_id for one in hold.recalls().recalls} == {mine, theirs}
    assert [one.recall_id for one in hold.recalls(agent_id="ai:other@there").recalls] == [theirs]
    with pytest.raises(Forbidden):
        other.recalls(agent_id="ai:tester@here")


def test_a_hit_made_private_since_is_neither_shown_nor_rated(hold: Any, seen_by: Any) -> None:
    id, shared = store_two(hold)
    other = seen_by("ai:other@there", right="write")
    recall = ask(other)
    hold.update(id, scope="private")
    with pytest.raises(Invalid):
        other.feedback(recall, "used", [id])
    assert [hit.id for hit in other.recalls().recalls[0].hits] == [shared]


def test_a_recall_is_listed_with_the_parts_of_its_scores(hold: Any) -> None:
    store_two(hold)
    answer = hold.recall(QUESTION, explain=True)
    use.flush_access_log(hold.ctx)
    (one,) = hold.recalls().recalls
    assert (one.recall_id, one.question, one.agent_id) == (answer.recall_id, QUESTION, "ai:tester@here")
    for hit, kept in zip(answer.memories, one.hits, strict=True):
        assert (kept.id, kept.score, kept.adjustment) == (hit.id, hit.why.score, hit.why.adjustment)
        assert kept.parts == {name: part.value for name, part in hit.why.parts.items()}


def test_recalls_are_listed_newest_first_in_pages(hold: Any, clock: Any) -> None:
    store_two(hold)
    made = []
    for number in range(5):
        made.append(ask(hold))
        clock.move(seconds=1)
        if number == 2:
            use.flush_access_log(hold.ctx)
    first = hold.recalls(limit=3).recalls
    second = hold.recalls(limit=3, before=first[-1].recall_id).recalls
    assert [one.recall_id for one in (*first, *second)] == made[::-1]


def test_memories_cited_by_a_block_can_be_rated(hold: Any) -> None:
    store_two(hold)
    block = hold.context(QUESTION)
    kept = hold.feedback(block.recall_id, "used", block.cited)
    assert [one.id for one in kept.judged] == block.cited


def test_a_recall_that_found_nothing_has_no_id(hold: Any) -> None:
    assert hold.recall("nothing at all").recall_id is None
    use.flush_access_log(hold.ctx)
    assert count_logged(hold) == 0


def test_queries_are_pruned_after_a_while_and_verdicts_stay(hold: Any, clock: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    hold.feedback(recall, "used", [id])
    clock.move(days=31)
    hold.gc()
    assert hold.recalls().count == 0
    with pytest.raises(NotFound):
        hold.feedback(recall, "wrong", [id])
    with hold.ctx.reading() as session:
        assert search_index.read_utilities(session, [id]) == {id: 0.2}


def test_a_verdict_counts_without_a_stored_query(db: str, clock: Any) -> None:
    with holdfast.open(settings=Settings(db=db, recall_retention_days=0), now=clock) as hold:
        id, _ = store_two(hold)
        recall = ask(hold)
        assert hold.feedback(recall, "used", [id]).judged[0].utility == 0.2
        (one,) = hold.recalls().recalls
        assert (one.recall_id, one.question) == (recall, None)


def test_the_number_of_stored_recalls_is_limited_and_rated_ones_stay_longest(
    hold: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalls, "MAX_RECALLS", 4)
    monkeypatch.setattr(recalls, "PRUNE_BATCH", 1)
    id, _ = store_two(hold)
    made = []
    for number in range(6):
        made.append(ask(hold))
        clock.move(seconds=1)
        if number == 0:
            hold.feedback(made[0], "used", [id])
        use.flush_access_log(hold.ctx)
    assert [one.recall_id for one in hold.recalls().recalls] == [made[number] for number in (5, 4, 3, 0)]


def test_a_purge_removes_verdicts_queries_and_ids(hold: Any) -> None:
    id, other = store_two(hold)
    recall = ask(hold)
    hold.feedback(recall, verdicts={id: "used", other: "used"})
    waiting = ask(hold)
    hold.archive(ids=[id])
    hold.archive_purge(ids=[id])
    use.flush_access_log(hold.ctx)
    shown = {one.recall_id: one for one in hold.recalls().recalls}
    assert [hit.id for hit in shown[recall].hits] == [other] == [hit.id for hit in shown[waiting].hits]
    assert shown[recall].question is None
    with hold.ctx.reading() as session:
        rows = [
            str(row)
            for table in ("recall_log", "recall_feedback")
            for row in session.query_sql(f"select * from {table}", {})
        ]
        assert search_index.read_utilities(session, [id]) == {}
    assert len(rows) == 3
    assert not any(id in row for row in rows)


def test_feedback_that_cannot_be_written_is_deferred(hold: Any, db: str) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    with hide_store(db):
        use.flush_access_log(hold.ctx)
    assert hold.feedback(recall, "used", [id]).judged[0].outcome == "applied"


def test_recalls_that_could_not_be_written_come_before_newer_ones_and_the_oldest_are_dropped() -> None:
    many = [recalls.PendingRecall(f"{number}", number, "ai:tester@here", "?", ()) for number in range(5)]
    log = recalls.RecallLog(max_recalls=4)
    log.extend(many[:3])
    written = log.drain()
    assert (written, list(log)) == (many[:3], [])
    log.extend(many[3:])
    log.put_back(written)
    assert log.drain() == many[1:]

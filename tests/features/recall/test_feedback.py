"""Feedback: verdicts are stored, change ranking a little, and stay private to an agent."""

from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from engines import hide_store
from holdfast.features.recall import flush_access as use
from holdfast.features.recall import recall_store as recalls
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


def test_what_was_used_is_lifted_and_what_was_wrong_is_lowered_more(hold: Any) -> None:
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


def test_who_only_looks_leaves_no_trace(hold: Any) -> None:
    ids = store_two(hold)
    found = hold.recall("deploy", note=False)
    use.flush_access_log(hold.ctx)
    assert {hit.id for hit in found.memories} == set(ids)
    assert (found.recall_id, count_logged(hold), hold.recalls().recalls) == (UNSET, 0, [])
    assert [hold.get(id).access_count for id in ids] == [0, 0]


def test_the_same_verdict_twice_changes_nothing_and_another_takes_its_place(hold: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    told = [hold.feedback(recall, verdict, [id]).judged[0] for verdict in ("used", "used", "ignored")]
    assert [(one.outcome, one.utility) for one in told] == [("applied", 0.2), ("noop", 0.2), ("applied", -0.05)]


def test_each_agent_has_a_verdict_of_its_own(hold: Any, seen_by: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    other = seen_by("ai:other@there", right="admin")
    assert hold.feedback(recall, "used", [id]).judged[0].utility == 0.2
    assert other.feedback(recall, "used", [id]).judged[0].utility == pytest.approx(1 / 3)
    said = {"ai:tester@here": "used", "ai:other@there": "used"}
    assert [hit.verdicts for hit in hold.recalls().recalls[0].hits if hit.id == id] == [said]


def test_what_was_no_hit_is_refused_and_nothing_of_the_rest_is_kept(hold: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    other = hold.store(title="Lunch", content="Soup.").id
    for verdicts in ({id: "used", other: "used"}, {id: "used", "0": "used"}, {id: "used", id[:30]: "wrong"}):
        with pytest.raises(Invalid):
            hold.feedback(recall, verdicts=verdicts)
    assert [hit.verdicts for hit in hold.recalls().recalls[0].hits] == [{}, {}]


def test_a_verdict_without_hits_and_hits_without_a_verdict_are_refused(hold: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    for given in ({}, {"verdict": "used"}, {"ids": [id]}, {"ids": [id], "verdicts": {id: "used"}}):
        with pytest.raises(Invalid):
            hold.feedback(recall, **given)


def test_another_agents_recall_does_not_exist_unless_one_may_do_everything(hold: Any, seen_by: Any) -> None:
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


def test_a_hit_that_was_made_private_since_is_not_shown_and_not_judged(hold: Any, seen_by: Any) -> None:
    id, shared = store_two(hold)
    other = seen_by("ai:other@there", right="write")
    recall = ask(other)
    hold.update(id, scope="private")
    with pytest.raises(Invalid):
        other.feedback(recall, "used", [id])
    assert [hit.id for hit in other.recalls().recalls[0].hits] == [shared]


def test_a_recall_is_listed_with_what_its_scores_are_made_of(hold: Any) -> None:
    store_two(hold)
    answer = hold.recall(QUESTION, explain=True)
    use.flush_access_log(hold.ctx)
    (one,) = hold.recalls().recalls
    assert (one.recall_id, one.question, one.agent_id) == (answer.recall_id, QUESTION, "ai:tester@here")
    for hit, kept in zip(answer.memories, one.hits, strict=True):
        assert (kept.id, kept.score, kept.adjustment) == (hit.id, hit.why.score, hit.why.adjustment)
        assert kept.parts == {name: part.value for name, part in hit.why.parts.items()}


def test_recalls_are_listed_from_the_newest_on_page_by_page(hold: Any, clock: Any) -> None:
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


def test_what_a_block_cites_can_be_judged_too(hold: Any) -> None:
    store_two(hold)
    block = hold.context(QUESTION)
    kept = hold.feedback(block.recall_id, "used", block.cited)
    assert [one.id for one in kept.judged] == block.cited


def test_a_recall_that_found_nothing_has_no_id(hold: Any) -> None:
    assert hold.recall("nothing at all").recall_id is UNSET
    use.flush_access_log(hold.ctx)
    assert count_logged(hold) == 0


def test_questions_go_after_a_while_and_verdicts_stay(hold: Any, clock: Any) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    hold.feedback(recall, "used", [id])
    clock.move(days=31)
    hold.gc()
    assert hold.recalls().count == 0
    with pytest.raises(NotFound):
        hold.feedback(recall, "wrong", [id])
    with hold.ctx.reading() as session:
        assert recalls.read_utilities(session, [id]) == {id: 0.2}


def test_without_questions_kept_a_verdict_still_counts(db: str, clock: Any) -> None:
    with holdfast.open(settings=Settings(db=db, recall_retention_days=0), now=clock) as hold:
        id, _ = store_two(hold)
        recall = ask(hold)
        assert hold.feedback(recall, "used", [id]).judged[0].utility == 0.2
        (one,) = hold.recalls().recalls
        assert (one.recall_id, one.question) == (recall, UNSET)


def test_so_many_recalls_are_kept_and_those_with_a_verdict_longest(
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


def test_a_purge_takes_verdicts_questions_and_the_id_with_it(hold: Any) -> None:
    id, other = store_two(hold)
    recall = ask(hold)
    hold.feedback(recall, verdicts={id: "used", other: "used"})
    waiting = ask(hold)
    hold.archive(ids=[id])
    hold.archive_purge(ids=[id])
    use.flush_access_log(hold.ctx)
    shown = {one.recall_id: one for one in hold.recalls().recalls}
    assert [hit.id for hit in shown[recall].hits] == [other] == [hit.id for hit in shown[waiting].hits]
    assert shown[recall].question is UNSET
    with hold.ctx.reading() as session:
        rows = [
            str(row)
            for table in ("recall_log", "recall_feedback")
            for row in session.query_sql(f"select * from {table}", {})
        ]
        assert recalls.read_utilities(session, [id]) == {}
    assert len(rows) == 3
    assert not any(id in row for row in rows)


def test_what_cannot_be_written_now_waits(hold: Any, db: str) -> None:
    id, _ = store_two(hold)
    recall = ask(hold)
    with hide_store(db):
        use.flush_access_log(hold.ctx)
    assert hold.feedback(recall, "used", [id]).judged[0].outcome == "applied"

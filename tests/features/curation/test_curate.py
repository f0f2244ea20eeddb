"""The curator: shown first, then done, each change by itself, all of it to be taken back."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.curation import service as curate_service
from holdfast.features.curation import store as curation
from holdfast.features.curation.run import LEASE_MICROSECONDS, alone
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import Cancelled, CuratorBusy, Forbidden, Invalid, NotFound
from holdfast.kernel.journal.kinds import MEMORY, memory_of
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.storage import leases
from holdfast.kernel.timestamps import DAY, SECOND

POOL = "The connection pool keeps ten connections for all of the workers of the server."
ALIKE = (POOL, POOL.replace("all of the", "all the"), POOL.replace("all of the workers", "all workers"))
TITLES = ("Pool", "Connection pool", "Pool of connections")


@pytest.fixture
def pools(timed: holdfast.Holdfast, clock: Any) -> list[str]:
    """Three memories that say the same, of which one has labels and one is important."""
    found = []
    for number, (title, text) in enumerate(zip(TITLES, ALIKE, strict=True)):
        clock.move(seconds=1)
        made = timed.store(title=title, content=text, tags=[f"t{number}", "db"], priority=4 + number)
        found.append(str(made.id))
    clock.move(seconds=1)
    return found


def rows(hold: holdfast.Holdfast) -> list[tuple[Any, ...]]:
    """Everything that is kept of memories, but for their versions."""
    with hold.hold.reading() as session:
        return session.ask(
            "select id, namespace, title, content, kind, tier, priority, confidence, scope, agent, tags, metadata, "
            "citations, expires_at, state, reason from memory order by id",
            {},
        )


def live(hold: holdfast.Holdfast) -> dict[str, Any]:
    return {memory.id: memory for memory in hold.list(limit=100).memories}


def test_unless_it_is_asked_to_apply_it_nothing_is_changed(timed: holdfast.Holdfast, pools: list[str]) -> None:
    before = rows(timed), timed.verify().head
    shown = timed.curate()
    assert (shown.dry_run, shown.run_id, shown.changed) == (True, None, 1)
    assert [(one.step, one.outcome, set(one.ids)) for one in shown.done] == [("duplicates", "changed", set(pools))]
    assert (rows(timed), timed.verify().head) == before
    assert timed.curate_runs().count == 0
    assert timed.curate(dry_run=True).changed == 1
    with pytest.raises(Invalid):
        timed.curate(dry_run=True, apply=True)


def test_what_is_shown_is_what_is_done_when_it_is_applied(timed: holdfast.Holdfast, clock: Any) -> None:
    for title, text in {"Pool": POOL, "Connections": POOL.replace("all of the", "the")}.items():
        timed.store(title=title, content=text)
    clock.move(seconds=1)
    timed.store(title="Workers", content=POOL.replace("ten", "twelve"))
    clock.move(seconds=1)
    shown, applied = timed.curate(), timed.curate(apply=True)
    assert [(one.outcome, one.what) for one in shown.done] == [(one.outcome, one.what) for one in applied.done]
    assert shown.steps == applied.steps
    assert shown.steps["contradictions"].proposed == 1


def test_what_says_the_same_is_made_one_and_archived(timed: holdfast.Holdfast, pools: list[str]) -> None:
    done = timed.curate(apply=True)
    (made,) = live(timed).values()
    assert made.content in ALIKE
    assert (made.priority, set(made.tags)) == (6, {"db", "t0", "t1", "t2"})
    assert (made.memory_kind, made.metadata["derived_from"], made.metadata["method"]) == (
        "observation",
        pools,
        "heuristic",
    )
    assert {memory.id for memory in timed.archive_list().archived} == set(pools)
    links = {(link.relation, link.target_id) for link in timed.get(made.id).links}
    assert links == {("derived_from", id) for id in pools}
    assert (done.changed, done.steps["duplicates"].changed, done.ended) == (1, 1, "all was looked at")
    assert not timed.get(made.id).stale
    assert timed.verify().intact


def test_a_second_run_has_nothing_to_do(timed: holdfast.Holdfast, pools: list[str]) -> None:
    timed.curate(apply=True)
    entries = timed.verify().entries
    again = timed.curate(apply=True)
    assert (again.changed, again.proposed, again.steps["duplicates"].looked_at) == (0, 0, 0)
    assert timed.verify().entries == entries


def test_a_run_is_taken_back_and_its_work_not_done_again(timed: holdfast.Holdfast, pools: list[str]) -> None:
    before = rows(timed)
    done = timed.curate(apply=True)
    back = timed.curate_rollback(done.run_id)
    assert [(one.step, one.outcome) for one in back.outcomes] == [("duplicates", "applied")]
    assert [row for row in rows(timed) if row[14] != "deleted"] == before
    assert set(live(timed)) == set(pools)
    assert timed.curate(apply=True).changed == 0
    assert timed.curate_rollback(done.run_id).outcomes == []
    assert {run.run_id: run.status for run in timed.curate_runs().runs}[done.run_id] == "taken back"
    assert timed.verify().intact


def test_what_was_parted_again_does_not_become_one_by_way_of_a_third(
    timed: holdfast.Holdfast, clock: Any, pools: list[str]
) -> None:
    timed.curate_rollback(timed.curate(apply=True).run_id)
    clock.move(seconds=1)
    timed.store(title="Workers", content=POOL.replace("all of the workers", "workers"))
    clock.move(seconds=1)
    done = timed.curate(apply=True, steps=["duplicates"])
    assert done.changed == 1
    assert all(len({*pools} & {*one.ids}) < 2 for one in done.done)


def test_what_somebody_changed_since_is_not_taken_back_and_told(
    timed: holdfast.Holdfast, clock: Any, pools: list[str]
) -> None:
    said = "The north gate is painted red each spring by all of the painters."
    other = [timed.store(title="Gate", content=said).id]
    clock.move(seconds=1)
    other.append(timed.store(title="North gate", content=said.replace("all of the", "all the")).id)
    clock.move(seconds=1)
    done = timed.curate(apply=True)
    assert done.changed == 2
    made = next(memory for memory in live(timed).values() if "ate" in memory.title)
    timed.update(made.id, content="The north gate is painted green now.")
    back = timed.curate_rollback(done.run_id)
    assert {one.memory_id: (one.outcome, one.code) for one in back.outcomes} == {
        other[0]: ("rejected", "CHANGED_SINCE"),
        pools[0]: ("applied", back.outcomes[-1].code),
    }
    assert timed.get(made.id).content == "The north gate is painted green now."
    assert {memory.id for memory in timed.archive_list().archived} == set(other)
    assert {run.run_id: run.status for run in timed.curate_runs().runs}[done.run_id] == "partly taken back"


def test_links_of_what_is_made_one_lead_on_from_it(timed: holdfast.Holdfast, pools: list[str]) -> None:
    seen = timed.store(title="Seen", content="Something else entirely, about lunch.").id
    timed.link(pools[0], seen)
    timed.link(seen, pools[1], relation="contradicts")
    timed.curate(apply=True, steps=["duplicates"])
    (made,) = [memory.id for memory in live(timed).values() if memory.id != seen]
    links = {(link.source_id, link.relation, link.target_id) for link in timed.get(made).links}
    assert {(made, "related_to", seen), (seen, "contradicts", made)} <= links


@pytest.mark.parametrize("relation", ["reflects_on", "derived_from", "supersedes"])
def test_what_others_stand_on_is_only_proposed_to_be_made_one(
    timed: holdfast.Holdfast, clock: Any, pools: list[str], relation: str
) -> None:
    above = timed.store(title="Above", content="What follows from it is another matter.").id
    ends = (above, pools[0]) if relation != "supersedes" else (pools[0], above)
    timed.link(*ends, relation=relation)
    clock.move(seconds=1)
    done = timed.curate(apply=True, steps=["duplicates"])
    assert [set(one.ids[1:]) for one in done.done if one.outcome == "changed"] == [set(pools[1:])]
    assert pools[0] in live(timed)
    (offer,) = timed.curate_proposals().proposals
    assert (offer.kind, pools[0] in (offer.memory_id, offer.other_id)) == ("duplicate", True)
    assert timed.curate_decide([offer.id], decision="accept").outcomes[0].outcome == "applied"
    assert pools[0] not in live(timed)


def test_only_one_owner_scope_kind_and_namespace_is_made_one(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    seen_by("ai:ada@here").store(title="A", content=POOL)
    seen_by("ai:bob@here").store(title="B", content=POOL)
    seen_by("ai:ada@here").store(title="C", content=POOL, scope="team")
    seen_by("ai:ada@here").store(title="D", content=POOL, namespace="other")
    seen_by("ai:ada@here").store(title="E", content=POOL, kind="fact")
    before = rows(timed)
    timed.curate(apply=True, steps=["duplicates"])
    assert rows(timed) == before


def test_a_turn_of_a_conversation_stays_one(timed: holdfast.Holdfast) -> None:
    for place in (1, 2):
        timed.store(title=f"Turn {place}", content=POOL, kind="conversation", thread="chat", place=place)
    assert timed.curate(apply=True).changed == 0


def test_what_others_keep_for_themselves_is_not_looked_at(
    timed: holdfast.Holdfast, clock: Any, seen_by: Callable[..., Any]
) -> None:
    ada, bob = seen_by("ai:ada@here"), seen_by("ai:bob@here")
    for title, text in zip(TITLES[:2], ALIKE, strict=False):
        clock.move(seconds=1)
        ada.store(title=title, content=text, scope="private")
    assert bob.curate(apply=True).scanned == 0
    mine = ada.curate(apply=True)
    assert (mine.changed, [memory.scope for memory in ada.list().memories]) == (1, ["private"])
    assert ada.list().memories[0].agent_id == "ai:ada@here"
    with pytest.raises(NotFound):
        seen_by("ai:bob@here", right="write").curate_rollback(run_id=mine.run_id)


def test_a_private_memory_that_is_granted_is_left(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    ada, bob = seen_by("ai:ada@here"), seen_by("ai:bob@here")
    ids = [ada.store(title=title, content=text, scope="private").id for title, text in zip(TITLES, ALIKE, strict=True)]
    for id in ids:
        ada.grant(id=id, agent_id="ai:bob@here", permission="write")
    assert bob.curate(apply=True).changed == 0
    assert ada.curate(apply=True).changed == 0
    assert {memory.id for memory in bob.list().memories} == set(ids)


def test_the_standard_of_a_namespace_stays(timed: holdfast.Holdfast, pools: list[str]) -> None:
    timed.namespace_set_standard(namespace="team", id=pools[1])
    timed.curate(apply=True)
    assert pools[1] in live(timed)
    assert len(live(timed)) == 2


def test_namespaces_are_chosen_and_left_out(timed: holdfast.Holdfast, clock: Any) -> None:
    for place in ("a", "a/b", "c", "_hidden"):
        for title, text in zip(TITLES, ALIKE, strict=True):
            clock.move(seconds=1)
            timed.store(title=title, content=text, namespace=place)
    assert timed.curate(include_namespace=["a"], exclude_namespace=["a/b"]).changed == 1
    assert timed.curate(include_namespace=["a"]).changed == 2
    assert timed.curate(exclude_namespace=["a"]).changed == 1
    with pytest.raises(Forbidden):
        timed.call("curate", {"include_namespace": ["c"]}, caller=_key("a"))


def _key(namespace: str) -> Caller:
    return Caller("ai:key@here", right="write", namespaces=(namespace,))


def test_a_contradiction_is_proposed_and_marked_when_accepted(timed: holdfast.Holdfast, clock: Any) -> None:
    old = timed.store(title="Old", content=POOL).id
    clock.move(days=1)
    new = timed.store(title="New", content=POOL.replace("ten", "twelve")).id
    before = rows(timed)
    done = timed.curate(apply=True, steps=["contradictions"])
    assert (done.changed, done.proposed) == (0, 1)
    assert rows(timed) == before
    (offer,) = timed.curate_proposals().proposals
    assert (offer.kind, {offer.memory_id, offer.other_id}) == ("contradiction", {old, new})
    assert offer.details["evidence"][0]["difference"] == "ten vs twelve"
    assert offer.details["method"] == "heuristic"
    assert timed.curate_decide([offer.id], decision="accept").outcomes[0].outcome == "applied"
    assert "contradicts" in {link.relation for link in timed.get(old).links}
    assert timed.curate(apply=True, steps=["contradictions"]).proposed == 0
    assert timed.curate_proposals().count == 0
    assert set(live(timed)) == {old, new}


def test_labels_are_proposed_once_and_added_when_accepted(timed: holdfast.Holdfast) -> None:
    id = timed.store(title="Pool", content=f"{POOL} A connection pool is small.").id
    assert timed.curate(apply=True, steps=["tags"]).proposed == 1
    assert (timed.get(id).tags, timed.get(id).version) == ((), 1)
    (offer,) = timed.curate_proposals().proposals
    timed.curate_decide([offer.id], decision="accept")
    assert list(timed.get(id).tags) == offer.details["tags"]
    (refused,) = timed.curate_decide([offer.id], decision="dismiss").outcomes
    assert (refused.outcome, refused.code) == ("rejected", "CONFLICT")


def test_a_dismissed_proposal_comes_again_only_when_the_text_changes(timed: holdfast.Holdfast) -> None:
    id = timed.store(title="Pool", content=f"{POOL} A connection pool is small.").id
    timed.curate(apply=True, steps=["tags"])
    timed.curate_decide([timed.curate_proposals().proposals[0].id], decision="dismiss")
    timed.update(id, priority=9)
    assert timed.curate(apply=True, steps=["tags"]).proposed == 0
    timed.update(id, content=f"{POOL} A connection pool is large.")
    assert timed.curate(apply=True, steps=["tags"]).proposed == 1


def test_what_changed_since_it_was_proposed_is_not_accepted(timed: holdfast.Holdfast) -> None:
    id = timed.store(title="Pool", content=f"{POOL} A connection pool is small.").id
    timed.curate(apply=True, steps=["tags"])
    timed.update(id, content="Now about soup.")
    (refused,) = timed.curate_decide([timed.curate_proposals().proposals[0].id], decision="accept").outcomes
    assert refused.code == "CHANGED_SINCE"
    assert timed.get(id).tags == ()


def test_use_moves_a_priority_once_for_the_same_grounds(timed: holdfast.Holdfast, clock: Any) -> None:
    idle = timed.store(title="Idle", content="Nobody asks for this.", tier="long").id
    used = timed.store(title="Used", content="Everybody asks for this.", tier="long").id
    clock.move(days=31)
    _used(timed, used, 12, clock())
    done = timed.curate(apply=True, steps=["priorities"])
    assert done.steps["priorities"].changed == 2
    assert (timed.get(used).priority, timed.get(idle).priority) == (6, 4)
    assert timed.curate(apply=True, steps=["priorities"]).changed == 0
    clock.move(days=31)
    assert [one.ids for one in timed.curate(apply=True, steps=["priorities"]).done] == [[idle]]


def _used(hold: holdfast.Holdfast, id: str, times: int, at: int) -> None:
    with hold.hold.store.writing() as session:
        session.do("access_add", memory=id, origin="here", uses=times, used_at=at)


def test_a_moved_priority_makes_nothing_newer_and_loses_against_a_person(timed: holdfast.Holdfast, clock: Any) -> None:
    id = timed.store(title="Idle", content="Nobody asks for this.", tier="long").id
    written = timed.get(id).updated_at
    clock.move(days=31)
    timed.curate(apply=True, steps=["priorities"])
    assert (timed.get(id).priority, timed.get(id).updated_at) == (4, written)
    assert written_at(timed, id, "priority") < (clock() - 30 * DAY) // 1000 << 16
    back = timed.history(id).changes[-1]
    assert back.op == "curate"
    timed.undo(back.seq)
    assert timed.get(id).priority == 5
    assert timed.verify().intact


def written_at(hold: holdfast.Holdfast, id: str, name: str) -> int:
    """The time of the stamp of a memory's field."""
    with hold.hold.reading() as session:
        (row,) = session.assembled(("memory_select", "memory.one"), {"id": id})
        (raw,) = session.row("memory_cells", id=id) or (b"",)
    known = cells.unpack(raw, cells.flatten(MEMORY.shape, memory_of(row)))
    return max(stamp.time for stamp in known.own[name].values)


def test_a_persona_is_made_anew_when_what_it_stands_on_falls(timed: holdfast.Holdfast) -> None:
    first = timed.store(title="One", content="Ada likes tea.", tier="long").id
    timed.store(title="Two", content="Ada wrote programs.", tier="long")
    before = timed.persona_generate("Ada").persona
    assert timed.curate(apply=True, steps=["personas"]).changed == 0
    timed.delete(first)
    done = timed.curate(apply=True, steps=["personas"])
    assert done.changed == 1
    after = timed.persona("Ada").persona
    assert (after.version, "tea" in after.content, bool(after.stale)) == (2, False, False)
    timed.curate_rollback(done.run_id)
    assert timed.persona("Ada").persona.id == before.id


def test_a_run_goes_on_where_the_one_before_ended(timed: holdfast.Holdfast) -> None:
    words = ("gate", "door", "wall", "roof", "lamp")
    for word in words:
        for title in (word, f"{word} house"):
            said = f"The {word} of the {word} house stands by the {word} tree, as Ada told us long ago."
            timed.store(title=title, content=said, tags=[title])
    ended = []
    for _ in range(len(words)):
        done = timed.curate(apply=True, steps=["duplicates"], max_ops=1)
        ended.append((done.changed, done.ended))
    assert ended == [(1, "max_ops")] * 5
    last = timed.curate(apply=True, steps=["duplicates"], max_ops=1)
    assert (last.changed, last.ended, len(live(timed))) == (0, "all was looked at", 5)


def test_no_run_does_more_than_it_may_even_with_one_memory(timed: holdfast.Holdfast, clock: Any) -> None:
    for count in ("ten", "twelve", "nine", "thirty"):
        clock.move(seconds=1)
        timed.store(title=f"Pool {count}", content=POOL.replace("ten", count))
    all_of_it = timed.curate().proposed
    runs = [timed.curate(apply=True, max_ops=1) for _ in range(all_of_it + 1)]
    assert all_of_it > 4
    assert [(run.proposed, run.ended) for run in runs[:-1]] == [(1, "max_ops")] * all_of_it
    assert (runs[-1].proposed, runs[-1].ended) == (0, "all was looked at")
    assert timed.curate_proposals().count == all_of_it


def test_a_run_looks_at_nothing_twice_until_it_has_come_around(timed: holdfast.Holdfast, clock: Any) -> None:
    for word in ("gate", "door", "wall"):
        clock.move(seconds=1)
        timed.store(title=word, content=f"The {word} of the {word} house stands by the {word} tree, as Ada told.")
    runs = [timed.curate(apply=True, steps=["tags"], max_ops=1) for _ in range(5)]
    assert [run.scanned for run in runs] == [1, 1, 1, 3, 3]
    assert [run.proposed for run in runs] == [1, 1, 1, 0, 0]


def test_more_than_a_page_is_looked_at(timed: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.features.curation.run.PAGE", 2)
    for number in range(7):
        timed.store(title=f"N{number}", content=f"Number {number} is alone.")
    assert timed.curate(apply=True).scanned == 7


def test_one_curator_at_a_time_until_its_lease_is_over(timed: holdfast.Holdfast, clock: Any, pools: list[str]) -> None:
    with alone(timed.hold, "another"):
        with pytest.raises(CuratorBusy) as busy:
            timed.curate(apply=True)
        assert busy.value.retryable
        assert timed.curate().changed == 1
        clock.move(seconds=LEASE_MICROSECONDS // SECOND)
        assert timed.curate(apply=True).changed == 1


def test_a_curator_that_lost_its_lease_changes_nothing_more(
    timed: holdfast.Holdfast, clock: Any, pools: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that hung for so long that another took over."""
    whole = curate_service.perform

    def slow(run: Any, *rest: Any) -> None:
        clock.move(seconds=120)
        with timed.hold.store.writing() as session:
            assert leases.take(session, "curate", "another", clock() + 60 * SECOND, clock())
        whole(run, *rest)

    monkeypatch.setattr(curate_service, "perform", slow)
    with pytest.raises(CuratorBusy):
        timed.curate(apply=True)
    assert set(live(timed)) == set(pools)
    assert [run.status for run in timed.curate_runs().runs] == ["failed"]


def test_a_run_that_is_stopped_keeps_what_it_did_and_lets_go(
    timed: holdfast.Holdfast, clock: Any, pools: list[str]
) -> None:
    stop = threading.Event()
    told = Progress(lambda done, total, what: stop.set() if done == 3 else None, stop)
    timed.store(title="Lunch", content="Soup is served at noon in the blue kitchen by the window.")
    clock.move(seconds=1)
    with pytest.raises(Cancelled):
        timed.call("curate", {"apply": True}, progress=told)
    assert not set(pools) & set(live(timed))
    with timed.hold.reading() as session:
        assert leases.held(session, "curate", clock()) is None
    assert [run.status for run in timed.curate_runs().runs] == ["stopped"]
    assert timed.curate(apply=True).ended == "all was looked at"


def test_a_purged_memory_is_forgotten_by_curators(timed: holdfast.Holdfast) -> None:
    ids = [timed.store(title=n, content=POOL.replace("ten", n)).id for n in ("seven", "eight")]
    timed.curate(apply=True)
    assert timed.curate_proposals().count > 0
    timed.archive(ids=[ids[0]])
    timed.archive_purge(ids=[ids[0]])
    with timed.hold.reading() as session:
        kept = [
            str(row) for table in ("curate_offer", "curate_done") for row in session.ask(f"select * from {table}", {})
        ]
        assert not any(ids[0] in row or "seven" in row for row in kept)
        assert curation.done(session, "duplicates", [ids[1]])


def test_a_proposal_is_shown_to_those_who_may_see_its_memories(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    ada, bob = seen_by("ai:ada@here"), seen_by("ai:bob@here")
    ada.store(title="Mine", content=f"{POOL} A connection pool is small.", scope="private")
    ada.curate(apply=True)
    (offer,) = ada.curate_proposals().proposals
    assert bob.curate_proposals().count == 0
    (refused,) = bob.curate_decide(ids=[offer.id], decision="accept").outcomes
    assert refused.code == "NOT_FOUND"

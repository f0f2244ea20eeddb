"""The curator: dry run, apply, proposals, rollback, lease."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.curation import service as curate_service
from holdfast.features.curation import store as curation
from holdfast.features.curation.run import LEASE
from holdfast.kernel.context import Caller, Progress
from holdfast.kernel.errors import CuratorBusy, Forbidden, Invalid, NotFound, OperationCancelled
from holdfast.kernel.journal.kinds import MEMORY, load_memory
from holdfast.kernel.records import field_versions
from holdfast.kernel.storage import leases
from holdfast.kernel.timestamps import DAY, SECOND

POOL = "The connection pool keeps ten connections for all of the workers of the server."
SIMILAR = (POOL, POOL.replace("all of the", "all the"), POOL.replace("all of the workers", "all workers"))
TITLES = ("Pool", "Connection pool", "Pool of connections")


@pytest.fixture
def pools(clocked_store: holdfast.Holdfast, clock: Any) -> list[str]:
    """Store three near-duplicates, one with tags and one with a high priority."""
    found = []
    for number, (title, text) in enumerate(zip(TITLES, SIMILAR, strict=True)):
        clock.move(seconds=1)
        made = clocked_store.store(title=title, content=text, tags=[f"t{number}", "db"], priority=4 + number)
        found.append(str(made.id))
    clock.move(seconds=1)
    return found


def read_rows(hold: holdfast.Holdfast) -> list[tuple[Any, ...]]:
    """Read all memory rows without their versions."""
    with hold.ctx.reading() as session:
        return session.query_sql(
            "select id, namespace, title, content, kind, tier, priority, confidence, scope, agent, tags, metadata, "
            "citations, expires_at, state, reason from memory order by id",
            {},
        )


def list_live(hold: holdfast.Holdfast) -> dict[str, Any]:
    return {memory.id: memory for memory in hold.list(limit=100).memories}


def test_without_apply_nothing_is_changed(clocked_store: holdfast.Holdfast, pools: list[str]) -> None:
    before = read_rows(clocked_store), clocked_store.verify().head
    shown = clocked_store.curate()
    assert (shown.dry_run, shown.run_id, shown.changed) == (True, None, 1)
    assert [(one.step, one.outcome, set(one.ids)) for one in shown.done] == [("duplicates", "changed", set(pools))]
    assert (read_rows(clocked_store), clocked_store.verify().head) == before
    assert clocked_store.curate_runs().count == 0
    assert clocked_store.curate(dry_run=True).changed == 1
    with pytest.raises(Invalid):
        clocked_store.curate(dry_run=True, apply=True)


def test_a_dry_run_shows_what_apply_does(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    for title, text in {"Pool": POOL, "Connections": POOL.replace("all of the", "the")}.items():
        clocked_store.store(title=title, content=text)
    clock.move(seconds=1)
    clocked_store.store(title="Workers", content=POOL.replace("ten", "twelve"))
    clock.move(seconds=1)
    shown, applied = clocked_store.curate(), clocked_store.curate(apply=True)
    assert [(one.outcome, one.what) for one in shown.done] == [(one.outcome, one.what) for one in applied.done]
    assert shown.steps == applied.steps
    assert shown.steps["contradictions"].proposed == 1


def test_near_duplicates_are_merged_and_archived(clocked_store: holdfast.Holdfast, pools: list[str]) -> None:
    done = clocked_store.curate(apply=True)
    (made,) = list_live(clocked_store).values()
    assert made.content in SIMILAR
    assert (made.priority, set(made.tags)) == (6, {"db", "t0", "t1", "t2"})
    assert (made.memory_kind, made.metadata["derived_from"], made.metadata["method"]) == (
        "observation",
        pools,
        "heuristic",
    )
    assert {memory.id for memory in clocked_store.archive_list().archived} == set(pools)
    links = {(link.relation, link.target_id) for link in clocked_store.get(made.id).links}
    assert links == {("derived_from", id) for id in pools}
    assert (done.changed, done.steps["duplicates"].changed, done.ended) == (1, 1, "all was looked at")
    assert not clocked_store.get(made.id).stale
    assert clocked_store.verify().intact


def test_a_second_run_has_nothing_to_do(clocked_store: holdfast.Holdfast, pools: list[str]) -> None:
    clocked_store.curate(apply=True)
    entries = clocked_store.verify().entries
    again = clocked_store.curate(apply=True)
    assert (again.changed, again.proposed, again.steps["duplicates"].looked_at) == (0, 0, 0)
    assert clocked_store.verify().entries == entries


def test_a_rolled_back_run_is_not_repeated(clocked_store: holdfast.Holdfast, pools: list[str]) -> None:
    before = read_rows(clocked_store)
    done = clocked_store.curate(apply=True)
    back = clocked_store.curate_rollback(done.run_id)
    assert [(one.step, one.outcome) for one in back.outcomes] == [("duplicates", "applied")]
    assert [row for row in read_rows(clocked_store) if row[14] != "deleted"] == before
    assert set(list_live(clocked_store)) == set(pools)
    assert clocked_store.curate(apply=True).changed == 0
    assert clocked_store.curate_rollback(done.run_id).outcomes == []
    assert {run.run_id: run.status for run in clocked_store.curate_runs().runs}[done.run_id] == "taken back"
    assert clocked_store.verify().intact


def test_separated_memories_are_not_merged_through_a_third(
    clocked_store: holdfast.Holdfast, clock: Any, pools: list[str]
) -> None:
    clocked_store.curate_rollback(clocked_store.curate(apply=True).run_id)
    clock.move(seconds=1)
    clocked_store.store(title="Workers", content=POOL.replace("all of the workers", "workers"))
    clock.move(seconds=1)
    done = clocked_store.curate(apply=True, steps=["duplicates"])
    assert done.changed == 1
    assert all(len({*pools} & {*one.ids}) < 2 for one in done.done)


def test_changes_edited_since_are_reported_and_not_rolled_back(
    clocked_store: holdfast.Holdfast, clock: Any, pools: list[str]
) -> None:
    said = "The north gate is painted red each spring by all of the painters."
    other = [clocked_store.store(title="Gate", content=said).id]
    clock.move(seconds=1)
    other.append(clocked_store.store(title="North gate", content=said.replace("all of the", "all the")).id)
    clock.move(seconds=1)
    done = clocked_store.curate(apply=True)
    assert done.changed == 2
    made = next(memory for memory in list_live(clocked_store).values() if "ate" in memory.title)
    clocked_store.update(made.id, content="The north gate is painted green now.")
    back = clocked_store.curate_rollback(done.run_id)
    assert {one.memory_id: (one.outcome, one.code) for one in back.outcomes} == {
        other[0]: ("rejected", "CHANGED_SINCE"),
        pools[0]: ("applied", back.outcomes[-1].code),
    }
    assert clocked_store.get(made.id).content == "The north gate is painted green now."
    assert {memory.id for memory in clocked_store.archive_list().archived} == set(other)
    assert {run.run_id: run.status for run in clocked_store.curate_runs().runs}[done.run_id] == "partly taken back"


def test_links_are_carried_over_to_the_merged_memory(clocked_store: holdfast.Holdfast, pools: list[str]) -> None:
    seen = clocked_store.store(title="Seen", content="Something else entirely, about lunch.").id
    clocked_store.link(pools[0], seen)
    clocked_store.link(seen, pools[1], relation="contradicts")
    clocked_store.curate(apply=True, steps=["duplicates"])
    (made,) = [memory.id for memory in list_live(clocked_store).values() if memory.id != seen]
    links = {(link.source_id, link.relation, link.target_id) for link in clocked_store.get(made).links}
    assert {(made, "related_to", seen), (seen, "contradicts", made)} <= links


@pytest.mark.parametrize("relation", ["reflects_on", "derived_from", "supersedes"])
def test_merging_memories_with_dependents_is_only_proposed(
    clocked_store: holdfast.Holdfast, clock: Any, pools: list[str], relation: str
) -> None:
    above = clocked_store.store(title="Above", content="What follows from it is another matter.").id
    ends = (above, pools[0]) if relation != "supersedes" else (pools[0], above)
    clocked_store.link(*ends, relation=relation)
    clock.move(seconds=1)
    done = clocked_store.curate(apply=True, steps=["duplicates"])
    assert [set(one.ids[1:]) for one in done.done if one.outcome == "changed"] == [set(pools[1:])]
    assert pools[0] in list_live(clocked_store)
    (offer,) = clocked_store.curate_proposals().proposals
    assert (offer.kind, pools[0] in (offer.memory_id, offer.other_id)) == ("duplicate", True)
    assert clocked_store.curate_decide([offer.id], decision="accept").outcomes[0].outcome == "applied"
    assert pools[0] not in list_live(clocked_store)


def test_only_memories_of_one_owner_scope_kind_and_namespace_are_merged(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    seen_by("ai:ada@here").store(title="A", content=POOL)
    seen_by("ai:bob@here").store(title="B", content=POOL)
    seen_by("ai:ada@here").store(title="C", content=POOL, scope="team")
    seen_by("ai:ada@here").store(title="D", content=POOL, namespace="other")
    seen_by("ai:ada@here").store(title="E", content=POOL, kind="fact")
    before = read_rows(clocked_store)
    clocked_store.curate(apply=True, steps=["duplicates"])
    assert read_rows(clocked_store) == before


def test_messages_of_conversations_are_not_merged(clocked_store: holdfast.Holdfast) -> None:
    for place in (1, 2):
        clocked_store.store(title=f"Turn {place}", content=POOL, kind="conversation", thread="chat", place=place)
    assert clocked_store.curate(apply=True).changed == 0


def test_private_memories_of_others_are_not_curated(
    clocked_store: holdfast.Holdfast, clock: Any, seen_by: Callable[..., Any]
) -> None:
    ada, bob = seen_by("ai:ada@here"), seen_by("ai:bob@here")
    for title, text in zip(TITLES[:2], SIMILAR, strict=False):
        clock.move(seconds=1)
        ada.store(title=title, content=text, scope="private")
    assert bob.curate(apply=True).scanned == 0
    mine = ada.curate(apply=True)
    assert (mine.changed, [memory.scope for memory in ada.list().memories]) == (1, ["private"])
    assert ada.list().memories[0].agent_id == "ai:ada@here"
    with pytest.raises(NotFound):
        seen_by("ai:bob@here", right="write").curate_rollback(run_id=mine.run_id)


def test_a_granted_private_memory_is_not_merged(clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    ada, bob = seen_by("ai:ada@here"), seen_by("ai:bob@here")
    ids = [
        ada.store(title=title, content=text, scope="private").id for title, text in zip(TITLES, SIMILAR, strict=True)
    ]
    for id in ids:
        ada.grant(id=id, agent_id="ai:bob@here", permission="write")
    assert bob.curate(apply=True).changed == 0
    assert ada.curate(apply=True).changed == 0
    assert {memory.id for memory in bob.list().memories} == set(ids)


def test_namespace_standards_are_not_merged(clocked_store: holdfast.Holdfast, pools: list[str]) -> None:
    clocked_store.namespace_set_standard(namespace="team", id=pools[1])
    clocked_store.curate(apply=True)
    assert pools[1] in list_live(clocked_store)
    assert len(list_live(clocked_store)) == 2


def test_namespaces_can_be_included_and_excluded(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    for place in ("a", "a/b", "c", "_hidden"):
        for title, text in zip(TITLES, SIMILAR, strict=True):
            clock.move(seconds=1)
            clocked_store.store(title=title, content=text, namespace=place)
    assert clocked_store.curate(include_namespace=["a"], exclude_namespace=["a/b"]).changed == 1
    assert clocked_store.curate(include_namespace=["a"]).changed == 2
    assert clocked_store.curate(exclude_namespace=["a"]).changed == 1
    with pytest.raises(Forbidden):
        clocked_store.call("curate", {"include_namespace": ["c"]}, caller=_build_caller("a"))


def _build_caller(namespace: str) -> Caller:
    return Caller("ai:key@here", right="write", namespaces=(namespace,))


def test_a_contradiction_is_proposed_and_marked_when_accepted(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    old = clocked_store.store(title="Old", content=POOL).id
    clock.move(days=1)
    new = clocked_store.store(title="New", content=POOL.replace("ten", "twelve")).id
    before = read_rows(clocked_store)
    done = clocked_store.curate(apply=True, steps=["contradictions"])
    assert (done.changed, done.proposed) == (0, 1)
    assert read_rows(clocked_store) == before
    (offer,) = clocked_store.curate_proposals().proposals
    assert (offer.kind, {offer.memory_id, offer.other_id}) == ("contradiction", {old, new})
    assert offer.details["evidence"][0]["difference"] == "ten vs twelve"
    assert offer.details["method"] == "heuristic"
    assert clocked_store.curate_decide([offer.id], decision="accept").outcomes[0].outcome == "applied"
    assert "contradicts" in {link.relation for link in clocked_store.get(old).links}
    assert clocked_store.curate(apply=True, steps=["contradictions"]).proposed == 0
    assert clocked_store.curate_proposals().count == 0
    assert set(list_live(clocked_store)) == {old, new}


def test_tags_are_proposed_once_and_added_when_accepted(clocked_store: holdfast.Holdfast) -> None:
    id = clocked_store.store(title="Pool", content=f"{POOL} A connection pool is small.").id
    assert clocked_store.curate(apply=True, steps=["tags"]).proposed == 1
    assert (clocked_store.get(id).tags, clocked_store.get(id).version) == ((), 1)
    (offer,) = clocked_store.curate_proposals().proposals
    clocked_store.curate_decide([offer.id], decision="accept")
    assert list(clocked_store.get(id).tags) == offer.details["tags"]
    (refused,) = clocked_store.curate_decide([offer.id], decision="dismiss").outcomes
    assert (refused.outcome, refused.code) == ("rejected", "CONFLICT")


def test_a_dismissed_proposal_is_repeated_only_when_the_text_changes(clocked_store: holdfast.Holdfast) -> None:
    id = clocked_store.store(title="Pool", content=f"{POOL} A connection pool is small.").id
    clocked_store.curate(apply=True, steps=["tags"])
    clocked_store.curate_decide([clocked_store.curate_proposals().proposals[0].id], decision="dismiss")
    clocked_store.update(id, priority=9)
    assert clocked_store.curate(apply=True, steps=["tags"]).proposed == 0
    clocked_store.update(id, content=f"{POOL} A connection pool is large.")
    assert clocked_store.curate(apply=True, steps=["tags"]).proposed == 1


def test_an_outdated_proposal_is_not_accepted(clocked_store: holdfast.Holdfast) -> None:
    id = clocked_store.store(title="Pool", content=f"{POOL} A connection pool is small.").id
    clocked_store.curate(apply=True, steps=["tags"])
    clocked_store.update(id, content="Now about soup.")
    (refused,) = clocked_store.curate_decide(
        [clocked_store.curate_proposals().proposals[0].id], decision="accept"
    ).outcomes
    assert refused.code == "CHANGED_SINCE"
    assert clocked_store.get(id).tags == ()


def test_use_changes_a_priority_once_for_the_same_evidence(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    idle = clocked_store.store(title="Idle", content="Nobody asks for this.", tier="long").id
    used = clocked_store.store(title="Used", content="Everybody asks for this.", tier="long").id
    clock.move(days=31)
    _record_uses(clocked_store, used, 12, clock())
    done = clocked_store.curate(apply=True, steps=["priorities"])
    assert done.steps["priorities"].changed == 2
    assert (clocked_store.get(used).priority, clocked_store.get(idle).priority) == (6, 4)
    assert clocked_store.curate(apply=True, steps=["priorities"]).changed == 0
    clock.move(days=31)
    assert [one.ids for one in clocked_store.curate(apply=True, steps=["priorities"]).done] == [[idle]]


def _record_uses(hold: holdfast.Holdfast, id: str, times: int, at: int) -> None:
    with hold.ctx.store.transaction() as session:
        session.do("memory_access_add", memory=id, origin="here", uses=times, used_at=at)


def test_a_curated_priority_makes_nothing_newer_and_loses_to_a_person(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    id = clocked_store.store(title="Idle", content="Nobody asks for this.", tier="long").id
    written = clocked_store.get(id).updated_at
    clock.move(days=31)
    clocked_store.curate(apply=True, steps=["priorities"])
    assert (clocked_store.get(id).priority, clocked_store.get(id).updated_at) == (4, written)
    assert written_at(clocked_store, id, "priority") < (clock() - 30 * DAY) // 1000 << 16
    back = clocked_store.history(id).changes[-1]
    assert back.op == "curate"
    clocked_store.undo(back.seq)
    assert clocked_store.get(id).priority == 5
    assert clocked_store.verify().intact


def written_at(hold: holdfast.Holdfast, id: str, name: str) -> int:
    """Return the timestamp of a memory's field version."""
    with hold.ctx.reading() as session:
        (row,) = session.select(("memory_select", "memory.one"), {"id": id})
        (raw,) = session.row("memory_field_versions", id=id) or (b"",)
    known = field_versions.unpack(raw, field_versions.flatten(MEMORY.merge_schema, load_memory(row)))
    return max(stamp.time for stamp in known.own[name].values)


def test_a_persona_is_regenerated_when_its_sources_change(clocked_store: holdfast.Holdfast) -> None:
    first = clocked_store.store(title="One", content="Ada likes tea.", tier="long").id
    clocked_store.store(title="Two", content="Ada wrote programs.", tier="long")
    before = clocked_store.persona_generate("Ada").persona
    assert clocked_store.curate(apply=True, steps=["personas"]).changed == 0
    clocked_store.delete(first)
    done = clocked_store.curate(apply=True, steps=["personas"])
    assert done.changed == 1
    after = clocked_store.persona("Ada").persona
    assert (after.version, "tea" in after.content, bool(after.stale)) == (2, False, False)
    clocked_store.curate_rollback(done.run_id)
    assert clocked_store.persona("Ada").persona.id == before.id


def test_a_run_continues_where_the_previous_one_ended(clocked_store: holdfast.Holdfast) -> None:
    words = ("gate", "door", "wall", "roof", "lamp")
    for word in words:
        for title in (word, f"{word} house"):
            said = f"The {word} of the {word} house stands by the {word} tree, as Ada told us long ago."
            clocked_store.store(title=title, content=said, tags=[title])
    ended = []
    for _ in range(len(words)):
        done = clocked_store.curate(apply=True, steps=["duplicates"], max_ops=1)
        ended.append((done.changed, done.ended))
    assert ended == [(1, "max_ops")] * 5
    last = clocked_store.curate(apply=True, steps=["duplicates"], max_ops=1)
    assert (last.changed, last.ended, len(list_live(clocked_store))) == (0, "all was looked at", 5)


def test_a_run_respects_max_ops_even_with_one_memory(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    for count in ("ten", "twelve", "nine", "thirty"):
        clock.move(seconds=1)
        clocked_store.store(title=f"Pool {count}", content=POOL.replace("ten", count))
    all_of_it = clocked_store.curate().proposed
    runs = [clocked_store.curate(apply=True, max_ops=1) for _ in range(all_of_it + 1)]
    assert all_of_it > 4
    assert [(run.proposed, run.ended) for run in runs[:-1]] == [(1, "max_ops")] * all_of_it
    assert (runs[-1].proposed, runs[-1].ended) == (0, "all was looked at")
    assert clocked_store.curate_proposals().count == all_of_it


def test_memories_are_checked_once_per_cycle(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    for word in ("gate", "door", "wall"):
        clock.move(seconds=1)
        clocked_store.store(
            title=word, content=f"The {word} of the {word} house stands by the {word} tree, as Ada told."
        )
    runs = [clocked_store.curate(apply=True, steps=["tags"], max_ops=1) for _ in range(5)]
    assert [run.scanned for run in runs] == [1, 1, 1, 3, 3]
    assert [run.proposed for run in runs] == [1, 1, 1, 0, 0]


def test_more_than_one_page_is_checked(clocked_store: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.features.curation.run.PAGE", 2)
    for number in range(7):
        clocked_store.store(title=f"N{number}", content=f"Number {number} is alone.")
    assert clocked_store.curate(apply=True).scanned == 7


def test_one_curator_at_a_time_until_its_lease_ends(
    clocked_store: holdfast.Holdfast, clock: Any, pools: list[str]
) -> None:
    with LEASE.hold(clocked_store.ctx, "another"):
        with pytest.raises(CuratorBusy) as busy:
            clocked_store.curate(apply=True)
        assert busy.value.retryable
        assert clocked_store.curate().changed == 1
        clock.move(seconds=LEASE.duration // SECOND)
        assert clocked_store.curate(apply=True).changed == 1


def test_a_curator_without_its_lease_changes_nothing(
    clocked_store: holdfast.Holdfast, clock: Any, pools: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The curator hangs until another one takes over."""
    whole = curate_service.perform_step

    def slow(run: Any, *rest: Any) -> None:
        clock.move(seconds=120)
        with clocked_store.ctx.store.transaction() as session:
            assert leases.acquire(session, "curate", "another", clock() + 60 * SECOND, clock())
        whole(run, *rest)

    monkeypatch.setattr(curate_service, "perform_step", slow)
    with pytest.raises(CuratorBusy):
        clocked_store.curate(apply=True)
    assert set(list_live(clocked_store)) == set(pools)
    assert [run.status for run in clocked_store.curate_runs().runs] == ["failed"]


def test_a_stopped_run_keeps_its_changes_and_releases_the_lease(
    clocked_store: holdfast.Holdfast, clock: Any, pools: list[str]
) -> None:
    stop = threading.Event()
    told = Progress(lambda done, total, what: stop.set() if done == 3 else None, stop)
    clocked_store.store(title="Lunch", content="Soup is served at noon in the blue kitchen by the window.")
    clock.move(seconds=1)
    with pytest.raises(OperationCancelled):
        clocked_store.call("curate", {"apply": True}, progress=told)
    assert not set(pools) & set(list_live(clocked_store))
    with clocked_store.ctx.reading() as session:
        assert leases.get_lease(session, "curate", clock()) is None
    assert [run.status for run in clocked_store.curate_runs().runs] == ["stopped"]
    assert clocked_store.curate(apply=True).ended == "all was looked at"


def test_purging_a_memory_erases_its_marks_and_proposals(clocked_store: holdfast.Holdfast) -> None:
    ids = [clocked_store.store(title=n, content=POOL.replace("ten", n)).id for n in ("seven", "eight")]
    clocked_store.curate(apply=True)
    assert clocked_store.curate_proposals().count > 0
    clocked_store.archive(ids=[ids[0]])
    clocked_store.archive_purge(ids=[ids[0]])
    with clocked_store.ctx.reading() as session:
        kept = [
            str(row)
            for table in ("curate_proposal", "curate_mark")
            for row in session.query_sql(f"select * from {table}", {})
        ]
        assert not any(ids[0] in row or "seven" in row for row in kept)
        assert curation.get_marks(session, "duplicates", [ids[1]])


def test_proposals_are_visible_with_their_memories(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    ada, bob = seen_by("ai:ada@here"), seen_by("ai:bob@here")
    ada.store(title="Mine", content=f"{POOL} A connection pool is small.", scope="private")
    ada.curate(apply=True)
    (offer,) = ada.curate_proposals().proposals
    assert bob.curate_proposals().count == 0
    (refused,) = bob.curate_decide(ids=[offer.id], decision="accept").outcomes
    assert refused.code == "NOT_FOUND"

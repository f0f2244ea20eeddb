"""Compaction keeps the final states, which can be verified and reach stores that were offline."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.apply_changes import SyncResult
from holdfast.features.sync.compact_journal import compact, read_size
from holdfast.features.sync.exchange import LocalEndpoint, apply_pages, read_missing_pages
from holdfast.features.sync.wire import HelloRequest
from holdfast.kernel.errors import HistoryCompacted, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import get_compaction_point
from holdfast.kernel.records.namespace_patterns import PeerScope
from timeouts import TIMEOUT

DAY = 86_400 * 10**6
Make = Callable[..., holdfast.Holdfast]


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.at = 1_790_000_000_000_000

    def __call__(self) -> int:
        self.at += 1000
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def old(make: Make, clock: Clock) -> holdfast.Holdfast:
    """A store with a history of 60 days."""
    store = make(now=clock)
    kept = store.store(title="Plan", content="First draft.", tags=["whispered"], tier="long")
    other = store.store(title="Other", content="It stays as it is.", tier="long")
    gone = store.store(title="Gone", content="It goes.", tier="long")
    for draft in ("Second draft.", "Third draft."):
        store.update(id=kept.id, content=draft)
    store.update(id=kept.id, tags=["b"])
    store.link(source_id=kept.id, target_id=other.id, relation="related_to")
    store.delete(id=gone.id)
    clock.at += 60 * DAY
    return store


def digest(store: holdfast.Holdfast) -> str:
    with store.ctx.reading() as session:
        return telling.compute_digest(session)


def count_entries(store: holdfast.Holdfast) -> int:
    with store.ctx.reading() as session:
        return read_size(session).entries


def same(*stores: holdfast.Holdfast) -> bool:
    return len({digest(store) for store in stores}) == 1


def test_compaction_drops_replaced_entries_and_changes_no_search_result(old: holdfast.Holdfast) -> None:
    before, said = digest(old), old.list(limit=100).memories
    entries = count_entries(old)
    done = compact(old.ctx, 30)
    assert (done.folded, done.records, done.held_back) == (4, 2, 0)
    assert done.entries == count_entries(old) == entries - 4
    assert digest(old) == before
    assert old.list(limit=100).memories == said
    assert old.verify().intact


def test_a_dry_run_reports_what_would_be_compacted_and_compacts_nothing(old: holdfast.Holdfast) -> None:
    planned = compact(old.ctx, 30, dry_run=True)
    assert planned.folded == 4
    assert compact(old.ctx, 30).folded == 4
    assert compact(old.ctx, 30).folded == 0


def plan(store: holdfast.Holdfast) -> str:
    return next(memory.id for memory in store.list(limit=100).memories if memory.title == "Plan")


def test_entries_within_the_retention_period_stay_complete(old: holdfast.Holdfast) -> None:
    assert compact(old.ctx, 90).folded == 0
    old.update(id=plan(old), content="A young draft.")
    compact(old.ctx, 30)
    old.update(id=plan(old), content="A younger draft.")
    history = old.history(id=plan(old))
    assert [change.memory["content"] for change in history.changes] == [
        "Third draft.",
        "A young draft.",
        "A younger draft.",
    ]
    assert history.folded_before == history.changes[0].at
    old.undo(change=history.changes[-1].seq)
    assert old.get(id=plan(old)).content == "A young draft."
    assert old.verify().intact


def test_history_below_the_compaction_point_is_reported_as_compacted(old: holdfast.Holdfast) -> None:
    first, second, *_ = old.history(id=plan(old)).changes
    last = old.history(id=plan(old)).changes[-1]
    compact(old.ctx, 30)
    with pytest.raises(HistoryCompacted):
        old.undo(change=second.seq)
    with pytest.raises(HistoryCompacted):
        old.undo(change=last.seq)
    with pytest.raises(HistoryCompacted):
        old.get(id=plan(old), known_at=first.at)
    with pytest.raises(HistoryCompacted):
        old.recall(context="draft", known_at=first.at)
    with pytest.raises(NotFound):
        old.undo(change=10_000)
    found = old.recall(context="draft", as_of=first.at)
    assert "were compacted" in found.meta.degraded
    assert old.recall(context="draft", as_of=last.at).count == 1


def test_a_new_peer_receives_compacted_records_whole(old: holdfast.Holdfast, make: Make) -> None:
    compact(old.ctx, 30)
    new, third = make(), make()
    mine = new.store(title="Mine", content="Nobody has seen this yet.")
    done = new.sync(remote=old.settings.db)
    assert (done.pulled, done.pushed, done.rejected) == (2, 1, 0)
    assert same(old, new)
    assert new.get(id=mine.id).content == "Nobody has seen this yet."
    third.sync(remote=new.settings.db)
    assert same(old, new, third)
    assert all(store.verify().intact for store in (old, new, third))
    assert vectors(old) == vectors(new) == vectors(third)
    assert new.sync(remote=old.settings.db).pulled == 0


def vectors(store: holdfast.Holdfast) -> dict[str, telling.VectorEntry]:
    with store.ctx.reading() as session:
        return telling.read_vector(session)


def test_a_peer_absent_during_compaction_keeps_its_own_changes(
    old: holdfast.Holdfast, make: Make, clock: Clock
) -> None:
    away = make(now=clock)
    away.sync(remote=old.settings.db)
    away.update(id=plan(away), priority=9)
    away.update(id=plan(away), content="Written far away.")
    old.update(id=plan(old), content="Written at home.")
    old.update(id=plan(old), content="Written at home twice.")
    clock.at += 60 * DAY
    assert compact(old.ctx, 30).folded > 0
    away.sync(remote=old.settings.db)
    away.sync(remote=old.settings.db)
    assert same(old, away)
    assert [store.conflicts().count for store in (old, away)] == [1, 1]
    assert old.get(id=plan(old)).priority == 9
    assert old.verify().intact
    assert away.verify().intact


def test_compacting_again_after_a_bootstrap_loses_nothing(old: holdfast.Holdfast, make: Make, clock: Clock) -> None:
    compact(old.ctx, 30)
    new = make(now=clock)
    new.sync(remote=old.settings.db)
    new.update(id=plan(new), content="Fourth draft.")
    new.update(id=plan(new), content="Fifth draft.")
    clock.at += 60 * DAY
    new.sync(remote=old.settings.db)
    for store in (old, new):
        compact(store.ctx, 30)
        assert store.verify().intact
    latest = make(now=clock)
    latest.sync(remote=new.settings.db)
    assert same(old, new, latest)
    assert vectors(old) == vectors(latest)


@pytest.mark.parametrize(
    "harm",
    [
        "update journal set actor = 'somebody' where seq = (select min(seq) from journal)",
        "delete from journal where seq = (select min(seq) from journal)",
        "update compacted_record set field_versions = '{}'",
        "update compacted_record set digest = hash from compaction_point",
        "update compacted_record set seq = seq - 1",
        "delete from compacted_record",
        "update compaction_point set removed_entries = 0",
        "update compaction_point set recorded_at = 1",
        "delete from compaction_point",
    ],
)
def test_an_edit_below_the_compaction_point_is_detected(old: holdfast.Holdfast, harm: str) -> None:
    compact(old.ctx, 30)
    with old.ctx.store.transaction() as session:
        session.execute_sql(harm, [{}])
    assert not old.verify().intact


def test_a_purge_erases_compacted_entries_too(old: holdfast.Holdfast, make: Make) -> None:
    compact(old.ctx, 30)
    id = plan(old)
    old.archive(ids=[id])
    old.archive_purge(ids=[id])
    with old.ctx.reading() as session:
        said = session.query_sql("select count(*) from compacted_record where field_versions like '%whispered%'", {})
        said += session.query_sql("select count(*) from journal where body like '%draft%' or delta like '%draft%'", {})
    assert said == [(0,), (0,)]
    new = make()
    new.sync(remote=old.settings.db)
    assert same(old, new)
    assert old.verify().intact
    assert new.verify().intact


def test_compacted_entries_unknown_to_a_purge_stay_and_are_verified(
    old: holdfast.Holdfast, make: Make, clock: Clock
) -> None:
    away, id = make(now=clock), plan(old)
    away.sync(remote=old.settings.db, trust_source=True)
    away.archive(ids=[id])
    away.archive_purge(ids=[id])
    old.update(id=id, content="A draft that was not heard of when it was purged.")
    compact(old.ctx, 0)
    away.sync(remote=old.settings.db, trust_source=True)
    assert same(old, away)
    assert [old.verify().findings, away.verify().findings] == [[], []]
    with old.ctx.store.transaction() as session:
        session.execute_sql("update memory set content = 'Forged.' where id = :id", [{"id": id}])
    assert not old.verify().intact


def record_cursor(store: holdfast.Holdfast, peer: holdfast.Holdfast, followed: int) -> None:
    """Record the cursor of a peer in a store, as a hello does."""
    with peer.ctx.reading() as session:
        greeting = telling.build_handshake(session, peer.ctx.now())
    with store.ctx.reading() as session:
        reached = {journal.get_head(session).origin: followed}
    said = HelloRequest(greeting=greeting, kinds=[], reached=reached)
    store.peer_hello(message=msgspec.to_builtins(said))


def test_entries_missing_on_an_enrolled_peer_are_retained(old: holdfast.Holdfast, make: Make, clock: Clock) -> None:
    peer = make(now=clock)
    old.peer_add(name="desk", token=peer.peer_token().token)
    done = old.compact(older_than=30)
    assert (done.folded, done.waits_for) == (0, "desk")
    assert done.held_back == old.verify().entries
    peer.sync(remote=old.settings.db)
    record_cursor(old, peer, followed=5)
    done = old.compact(older_than=30)
    assert (done.folded, done.floor, done.waits_for) == (2, 5, "desk")
    assert old.verify().intact


KILLED = """
import os, signal, sys
import holdfast
from holdfast.features.sync import compact_journal
from holdfast.features.sync.compact_journal import compact, read_size
from holdfast.kernel.journal.transaction import Transaction

compact_journal.WINDOW_ENTRIES = 2
left = [int(sys.argv[2])]

def put_and_die(tx, point, put=Transaction.put_compaction_point):
    put(tx, point)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

Transaction.put_compaction_point = put_and_die
with holdfast.open(sys.argv[1]) as store:
    compact(store.ctx, 0)
"""


@pytest.mark.parametrize("step", [1, 3])
def test_a_killed_compaction_leaves_an_intact_journal_and_the_next_one_continues(
    old: holdfast.Holdfast, step: int
) -> None:
    before = digest(old)
    killed = subprocess.run([sys.executable, "-c", KILLED, old.settings.db, str(step)], timeout=TIMEOUT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert old.verify().intact
    compact(old.ctx, 0)
    assert old.verify().intact
    assert digest(old) == before
    with old.ctx.reading() as session:
        floor = get_compaction_point(session)
        assert floor is not None
        assert floor.removed_entries == 4


def test_entries_above_a_gap_are_not_compacted_until_the_gap_is_filled(make: Make, clock: Clock) -> None:
    author, reader, third = (make(now=clock) for _ in range(3))
    author.store(title="Hidden", content="Not for this reader.", namespace="own", tier="long")
    kept = author.store(title="Open", content="First.", namespace="team", tier="long")
    author.update(id=kept.id, content="Second.")
    scope = PeerScope(tell=("team",), take=("**",))
    source, target = LocalEndpoint(author.ctx, scope=scope), LocalEndpoint(reader.ctx)
    apply_pages(target, read_missing_pages(source, target, 100), SyncResult())
    assert reader.get(id=kept.id).content == "Second."
    assert compact(reader.ctx, 0).folded == 0
    third.sync(remote=reader.settings.db)
    reader.sync(remote=author.settings.db, trust_source=True)
    third.sync(remote=reader.settings.db, trust_source=True)
    assert same(author, reader, third)
    assert vectors(author) == vectors(third)
    author.update(id=kept.id, content="Third.")
    reader.sync(remote=author.settings.db)
    assert compact(reader.ctx, 0).folded == 2
    assert reader.verify().intact


def test_a_compaction_point_survives_a_restore_and_a_copy(old: holdfast.Holdfast, make: Make, tmp_path: Path) -> None:
    compact(old.ctx, 30)
    snapshot = old.backup(to=str(tmp_path / "kept")).path
    old.store(title="Later", content="It is not in the snapshot.")
    old.restore(**{"from": snapshot})
    assert old.verify().intact
    old.store(title="Again", content="It follows.")
    assert old.verify().intact
    shutil.copyfile(snapshot, tmp_path / "copied.db")
    with holdfast.open(str(tmp_path / "copied.db"), agent_id="human:ann@home") as copied:
        copied.store(title="There", content="In the copy.")
        assert copied.verify().intact

"""Archive, restore, forget, delete, collect and purge."""

import threading
from typing import Any

import apsw
import pytest

import holdfast
from engines import raw_connection
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import FilterRequired, Invalid, NotFound, OperationCancelled, TitleTaken, VersionConflict


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def plan(hold: Any) -> Any:
    return hold.store(title="Plan", content="We deploy on Tuesdays.", namespace="team", tags=["ops"], tier="mid")


def titles(page: Any) -> list[str]:
    return sorted(one.title for one in getattr(page, page.__struct_fields__[0]))


def test_a_deleted_memory_appears_only_in_its_history(hold: Any, plan: Any) -> None:
    deleted = hold.delete(plan.id)
    assert (deleted.deleted, deleted.id, deleted.version) == (True, plan.id, 2)
    for gone in (hold.list(), hold.search("deploy"), hold.recall("deploy"), hold.archive_list()):
        assert gone.count == 0
    with pytest.raises(NotFound):
        hold.get(plan.id)
    with pytest.raises(NotFound):
        hold.delete(plan.id)
    assert [one.op for one in hold.history(plan.id).changes] == ["store", "delete"]


def test_a_delete_expecting_another_version_deletes_nothing(hold: Any, plan: Any) -> None:
    with pytest.raises(VersionConflict):
        hold.delete(plan.id, expected_version=2)
    assert hold.delete(plan.id, expected_version=1).version == 2


def test_an_archived_memory_is_found_only_by_its_id(hold: Any, plan: Any) -> None:
    answer = hold.archive(ids=[plan.id], reason="done with it")
    assert (answer.archived, answer.missing, answer.count) == ([plan.id], [], 1)
    assert hold.list().count == hold.search("deploy").count == hold.recall("deploy").count == 0
    [kept] = hold.archive_list().archived
    assert (kept.id, kept.state, kept.archive_reason, kept.version) == (plan.id, "archived", "done with it", 2)
    assert hold.get(plan.id).state == "archived"


def test_archiving_several_returns_an_outcome_for_each(hold: Any, plan: Any, seen_by: Any) -> None:
    hidden = seen_by("ai:other@here").store(title="Hidden", content="x", scope="private")
    answer = hold.archive(ids=[plan.id, "no-such-memory", hidden.id])
    assert [(one.outcome, one.code) for one in answer.outcomes] == [
        ("applied", None),
        ("rejected", "NOT_FOUND"),
        ("rejected", "NOT_FOUND"),
    ]
    assert answer.missing == ["no-such-memory", hidden.id]


@pytest.mark.parametrize("reason", ["a\x00b", "\x1b[2J", "   "], ids=ascii)
def test_a_reason_is_normalized_text(hold: Any, plan: Any, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        hold.archive(ids=[plan.id], reason=reason)
    assert refused.value.details == {"fields": ["reason"]}
    assert hold.list().count == 1


def test_restoring_makes_a_memory_live_and_restarts_its_lifetime(hold: Any, plan: Any, clock: Any) -> None:
    hold.archive(ids=[plan.id])
    clock.move(days=30)
    restored = hold.archive_restore(plan.id)
    assert (restored.state, restored.expires_at, restored.version) == ("live", clock.after(days=7), 3)
    assert restored.archive_reason is None
    assert [one.id for one in hold.recall("deploy").memories] == [plan.id]


def test_a_restored_expired_memory_is_live_and_not_collected_again(hold: Any, plan: Any, clock: Any) -> None:
    clock.move(days=8)
    hold.gc()
    assert hold.archive_restore(plan.id).expires_at == clock.after(days=7)
    assert hold.gc().collected == 0
    assert titles(hold.list()) == ["Plan"]


def test_restoring_an_expired_long_term_memory_restarts_its_lifetime(hold: Any, clock: Any) -> None:
    kept = hold.store(title="Plan", content="first", tier="long", ttl_secs=3600)
    hold.archive(ids=[kept.id])
    assert hold.archive_restore(kept.id).expires_at == kept.expires_at
    clock.move(hours=2)
    assert hold.archive_restore(kept.id).expires_at is None


def test_restoring_keeps_a_later_end_and_an_endless_lifetime(hold: Any, clock: Any) -> None:
    later = hold.store(title="later", content="x", expires_at="2027-01-01")
    endless = hold.store(title="endless", content="x", tier="long")
    hold.archive(ids=[later.id, endless.id])
    clock.move(days=30)
    assert hold.archive_restore(later.id).expires_at == later.expires_at
    assert hold.archive_restore(endless.id).expires_at is None


def test_restoring_onto_a_taken_title_is_refused_and_the_error_names_its_memory(hold: Any, plan: Any) -> None:
    hold.archive(ids=[plan.id])
    other = hold.store(title="Plan", content="x", namespace="team")
    with pytest.raises(TitleTaken) as refused:
        hold.archive_restore(plan.id)
    assert refused.value.details == {"existing_id": other.id}
    assert hold.get(plan.id).state == "archived"


@pytest.mark.parametrize("which", ["live", "deleted", "unknown"])
def test_only_an_archived_memory_can_be_restored(hold: Any, plan: Any, which: str) -> None:
    if which == "deleted":
        hold.delete(plan.id)
    with pytest.raises(NotFound):
        hold.archive_restore("no-such-memory" if which == "unknown" else plan.id)


def test_links_survive_archive_and_restore(hold: Any, plan: Any) -> None:
    other = hold.store(title="Other", content="x")
    hold.link(source_id=plan.id, target_id=other.id, relation="supersedes")
    before = hold.get(plan.id).links
    hold.archive(ids=[plan.id])
    hold.archive_restore(plan.id)
    assert hold.get(plan.id).links == before
    assert [link.relation for link in before] == ["supersedes"]


def test_forgetting_without_a_filter_is_refused(hold: Any, plan: Any) -> None:
    for nothing in ({}, {"namespace": None}, {"pattern": ""}, {"dry_run": True}, {"dry_run": False, "tier": None}):
        with pytest.raises(FilterRequired):
            hold.forget(**nothing)
    assert hold.list().count == 1


@pytest.mark.parametrize(
    ("filter", "left"),
    [
        ({"namespace": "team"}, ["Elsewhere", "Lunch", "Sub"]),
        ({"pattern": "deploy"}, ["Lunch", "Sub"]),
        ({"pattern": "deploy noon"}, ["Sub"]),
        ({"tier": "long"}, ["Elsewhere", "Lunch", "Plan"]),
        ({"namespace": "team", "pattern": "deploy"}, ["Elsewhere", "Lunch", "Sub"]),
        ({"namespace": "team", "tier": "long"}, ["Elsewhere", "Lunch", "Plan", "Sub"]),
        ({"pattern": "nothing-of-this-kind"}, ["Elsewhere", "Lunch", "Plan", "Sub"]),
        ({"pattern": '" * ('}, ["Elsewhere", "Lunch", "Plan", "Sub"]),
        ({"namespace": "tea"}, ["Elsewhere", "Lunch", "Plan", "Sub"]),
    ],
    ids=["namespace", "pattern", "words", "tier", "both", "neither", "no-match", "operators", "prefix"],
)
def test_forgetting_archives_only_what_the_filter_matches(
    hold: Any, plan: Any, filter: dict[str, str], left: list[str]
) -> None:
    hold.store(title="Elsewhere", content="We deploy here too.", namespace="other", tier="mid")
    hold.store(title="Lunch", content="at noon", namespace="other", tier="mid")
    hold.store(title="Sub", content="x", namespace="team/sub", tier="long")
    would = hold.forget(**filter, dry_run=True)
    assert (hold.list().count, would.deleted, would.would_delete) == (4, 0, 4 - len(left))
    gone = hold.forget(**filter)
    assert titles(hold.list()) == left
    assert (gone.archived, sorted(gone.ids)) == (4 - len(left), sorted(would.ids))
    assert hold.archive_list().count == 4 - len(left)


def test_forgotten_memories_can_be_restored(hold: Any, plan: Any) -> None:
    hold.forget(namespace="team")
    assert hold.archive_list().archived[0].archive_reason == "forget"
    assert hold.archive_restore(plan.id).content == "We deploy on Tuesdays."


def test_forgetting_skips_and_names_memories_without_write_access(hold: Any, plan: Any, seen_by: Any) -> None:
    other = seen_by("ai:other@here")
    theirs = other.store(title="Theirs", content="We deploy.", namespace="team", scope="private")
    other.grant(theirs.id, agent_id="ai:tester@here", permission="read")
    for dry_run in (True, False):
        answer = hold.forget(namespace="team", dry_run=dry_run)
        assert (answer.ids, answer.kept) == ([plan.id], [theirs.id])
    assert titles(hold.list()) == ["Theirs"]


def test_forgetting_is_all_or_nothing(hold: Any) -> None:
    """A cancelled forget changes nothing."""
    hold.bulk_store(memories=[{"title": f"{n}", "content": "deploy"} for n in range(5)])
    stop = threading.Event()
    progress = Progress(lambda done, total, what: stop.set() if done == 3 else None, stop)
    with pytest.raises(OperationCancelled):
        hold.call("forget", {"pattern": "deploy"}, progress=progress)
    assert (hold.list().count, hold.events().next) == (5, 5)


def test_forgetting_does_not_reach_invisible_memories(hold: Any, plan: Any, seen_by: Any) -> None:
    hidden = seen_by("ai:other@here").store(title="Hidden", content="deploy", namespace="team", scope="private")
    assert hold.forget(namespace="team").ids == [plan.id]
    assert seen_by("ai:other@here").get(hidden.id).state == "live"


def test_expired_memories_are_invisible_before_and_after_collection(hold: Any, plan: Any, clock: Any) -> None:
    clock.move(days=7, seconds=-1)
    assert hold.list().count == 1
    clock.move(seconds=1)
    for collected in (False, True):
        assert hold.list().count == hold.search("deploy").count == hold.recall("deploy").count == 0, collected
        assert hold.archive_list().archived[0].id == plan.id
        assert hold.stats().total == 0
        hold.gc()


def test_collecting_returns_a_count_and_is_not_replicated(hold: Any, plan: Any, clock: Any) -> None:
    clock.move(days=8)
    before = hold.events().next
    assert (hold.gc(dry_run=True).collected, hold.gc().collected, hold.gc().collected) == (1, 1, 0)
    assert hold.events().next == before
    assert hold.get(plan.id).version == 1
    assert hold.verify().intact


def test_the_archive_is_counted_by_namespace(hold: Any, plan: Any) -> None:
    other = hold.store(title="Other", content="x")
    hold.archive(ids=[plan.id, other.id])
    stats = hold.archive_stats()
    assert stats.archived_total == 2
    assert {(one.namespace, one.count) for one in stats.by_namespace} == {("team", 1), ("global", 1)}


def test_purging_erases_the_content_and_the_journal_still_verifies(hold: Any, db: str) -> None:
    secret = hold.store(
        title="CANARY title",
        content="CANARY content",
        metadata={"k": "CANARY value"},
        citations=[{"uri": "doc:CANARY", "accessed_at": "2026-01-31"}],
        source_uri="doc:CANARY",
        speaker="CANARY",
        thread="CANARY",
    )
    hold.update(secret.id, content="CANARY again")
    other = hold.store(title="Other", content="stays")
    hold.archive(ids=[secret.id])
    assert hold.archive_purge(ids=[secret.id]).purged == 1
    assert hold.archive_list().count == 0
    assert [(one.op, one.memory is None) for one in hold.history(secret.id).changes] == [
        ("store", True),
        ("update", True),
        ("archive", True),
        ("purge", False),
    ]
    assert "CANARY" not in str(hold.history(secret.id)) + str(hold.events())
    assert hold.get(other.id).content == "stays"
    assert hold.verify().intact
    assert "canar" not in everything_in(db).lower()


def test_a_store_read_before_a_purge_verifies_after_it(hold: Any, plan: Any) -> None:
    """FTS5 caches the structure of its index per connection."""
    assert hold.recall("deploy").count == 1
    hold.archive(ids=[plan.id])
    hold.archive_purge(ids=[plan.id])
    assert hold.ctx.store.faults() == []


def everything_in(db: str) -> str:
    """Every value of every table, including the full-text index's words."""
    if db.startswith("postgresql:"):
        with raw_connection(db) as connection:
            tables = connection.execute("select tablename from pg_tables where schemaname = current_schema")
            return values_in(connection, [str(name) for (name,) in tables])
    file = apsw.Connection(db)
    tables = file.execute("select name from sqlite_schema where type = 'table'")
    return values_in(file, [*(name for (name,) in tables), "memory_vocab"])


def values_in(connection: Any, tables: list[str]) -> str:
    assert "memory" in tables
    return " ".join(str(row) for table in tables for row in connection.execute(f'select * from "{table}"'))


def test_a_purged_memory_cannot_be_restored(hold: Any, plan: Any) -> None:
    hold.archive(ids=[plan.id])
    hold.archive_purge(ids=[plan.id])
    for change in hold.history(plan.id).changes:
        with pytest.raises(NotFound):
            hold.undo(change.seq)
    with pytest.raises(NotFound):
        hold.archive_restore(plan.id)


def test_purging_reaches_only_archived_memories(hold: Any, plan: Any) -> None:
    with pytest.raises(NotFound):
        hold.archive_purge(ids=[plan.id])
    assert hold.archive_purge(older_than_days=0).purged == 0
    assert hold.list().count == 1


@pytest.mark.parametrize("nothing", [{}, {"ids": []}, {"ids": None}], ids=str)
def test_purging_without_a_filter_is_refused(hold: Any, plan: Any, nothing: dict[str, Any]) -> None:
    hold.archive(ids=[plan.id])
    with pytest.raises(FilterRequired):
        hold.archive_purge(**nothing)
    assert hold.archive_list().count == 1


def test_purging_by_age_counts_from_archival(hold: Any, clock: Any) -> None:
    """A memory written long ago that expired yesterday has been archived for one day."""
    hold.store(title="expires in 60 days", content="x", expires_at=clock.after(days=60))
    archived = hold.store(title="archived today", content="x", tier="long")
    hold.archive(ids=[archived.id])
    clock.move(days=61)
    hold.gc()
    assert titles(hold.archive_list()) == ["archived today", "expires in 60 days"]
    assert hold.archive_purge(older_than_days=30).purged == 1
    assert titles(hold.archive_list()) == ["expires in 60 days"]
    clock.move(days=30)
    assert hold.archive_purge(older_than_days=30).purged == 1


def test_purging_a_selection_is_all_or_nothing(hold: Any, plan: Any) -> None:
    hold.archive(ids=[plan.id])
    with pytest.raises(NotFound):
        hold.archive_purge(ids=[plan.id, "no-such-memory"])
    assert hold.archive_list().count == 1


def test_purging_does_not_reach_invisible_memories(hold: Any, plan: Any, seen_by: Any) -> None:
    other = seen_by("ai:other@here")
    hidden = other.store(title="Hidden", content="x", scope="private")
    other.archive(ids=[hidden.id])
    hold.archive(ids=[plan.id])
    assert hold.archive_purge(older_than_days=0).purged == 1
    assert other.archive_list().archived[0].id == hidden.id


def test_archiving_and_restoring_bump_the_version(hold: Any, plan: Any) -> None:
    versions = [plan.version]
    hold.archive(ids=[plan.id])
    versions.append(hold.get(plan.id).version)
    versions.append(hold.archive_restore(plan.id).version)
    hold.forget(namespace="team")
    versions.append(hold.get(plan.id).version)
    versions.append(hold.archive_restore(plan.id).version)
    versions.append(hold.promote(plan.id).version)
    versions.append(hold.delete(plan.id).version)
    assert versions == [1, 2, 3, 4, 5, 6, 7]

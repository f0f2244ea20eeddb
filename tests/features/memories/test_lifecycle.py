"""Archive, restore, forget, delete, collect and purge."""

import threading
from typing import Any

import apsw
import pytest
from msgspec import UNSET

import holdfast
from engines import raw_connection
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import FilterRequired, Invalid, NotFound, OperationCancelled, TitleTaken, VersionConflict


@pytest.fixture
def ctx(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def plan(ctx: Any) -> Any:
    return ctx.store(title="Plan", content="We deploy on Tuesdays.", namespace="team", tags=["ops"], tier="mid")


def titles(page: Any) -> list[str]:
    return sorted(one.title for one in getattr(page, page.__struct_fields__[0]))


def test_a_deleted_memory_is_in_no_view_but_its_history(ctx: Any, plan: Any) -> None:
    deleted = ctx.delete(plan.id)
    assert (deleted.deleted, deleted.id, deleted.version) == (True, plan.id, 2)
    for gone in (ctx.list(), ctx.search("deploy"), ctx.recall("deploy"), ctx.archive_list()):
        assert gone.count == 0
    with pytest.raises(NotFound):
        ctx.get(plan.id)
    with pytest.raises(NotFound):
        ctx.delete(plan.id)
    assert [one.op for one in ctx.history(plan.id).changes] == ["store", "delete"]


def test_a_delete_that_expects_another_version_deletes_nothing(ctx: Any, plan: Any) -> None:
    with pytest.raises(VersionConflict):
        ctx.delete(plan.id, expected_version=2)
    assert ctx.delete(plan.id, expected_version=1).version == 2


def test_an_archived_memory_is_out_of_the_way_and_still_found_by_its_id(ctx: Any, plan: Any) -> None:
    answer = ctx.archive(ids=[plan.id], reason="done with it")
    assert (answer.archived, answer.missing, answer.count) == ([plan.id], [], 1)
    assert ctx.list().count == ctx.search("deploy").count == ctx.recall("deploy").count == 0
    [kept] = ctx.archive_list().archived
    assert (kept.id, kept.state, kept.archive_reason, kept.version) == (plan.id, "archived", "done with it", 2)
    assert ctx.get(plan.id).state == "archived"


def test_archiving_several_gives_each_its_outcome(ctx: Any, plan: Any, seen_by: Any) -> None:
    hidden = seen_by("ai:other@here").store(title="Hidden", content="x", scope="private")
    answer = ctx.archive(ids=[plan.id, "no-such-memory", hidden.id])
    assert [(one.outcome, one.code) for one in answer.outcomes] == [
        ("applied", UNSET),
        ("rejected", "NOT_FOUND"),
        ("rejected", "NOT_FOUND"),
    ]
    assert answer.missing == ["no-such-memory", hidden.id]


@pytest.mark.parametrize("reason", ["a\x00b", "\x1b[2J", "   "], ids=ascii)
def test_a_reason_is_clean_text(ctx: Any, plan: Any, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        ctx.archive(ids=[plan.id], reason=reason)
    assert refused.value.details == {"fields": ["reason"]}
    assert ctx.list().count == 1


def test_restoring_makes_a_memory_live_and_restarts_its_lifetime(ctx: Any, plan: Any, clock: Any) -> None:
    ctx.archive(ids=[plan.id])
    clock.move(days=30)
    restored = ctx.archive_restore(plan.id)
    assert (restored.state, restored.expires_at, restored.version) == ("live", clock.after(days=7), 3)
    assert restored.archive_reason is UNSET
    assert [one.id for one in ctx.recall("deploy").memories] == [plan.id]


def test_restoring_what_has_expired_gives_a_live_row_that_is_not_collected_again(
    ctx: Any, plan: Any, clock: Any
) -> None:
    clock.move(days=8)
    ctx.gc()
    assert ctx.archive_restore(plan.id).expires_at == clock.after(days=7)
    assert ctx.gc().collected == 0
    assert titles(ctx.list()) == ["Plan"]


def test_restoring_an_expired_long_term_memory_restarts_its_lifetime(ctx: Any, clock: Any) -> None:
    kept = ctx.store(title="Plan", content="first", tier="long", ttl_secs=3600)
    ctx.archive(ids=[kept.id])
    assert ctx.archive_restore(kept.id).expires_at == kept.expires_at
    clock.move(hours=2)
    assert ctx.archive_restore(kept.id).expires_at is UNSET


def test_restoring_leaves_a_later_end_and_an_endless_life_alone(ctx: Any, clock: Any) -> None:
    later = ctx.store(title="later", content="x", expires_at="2027-01-01")
    endless = ctx.store(title="endless", content="x", tier="long")
    ctx.archive(ids=[later.id, endless.id])
    clock.move(days=30)
    assert ctx.archive_restore(later.id).expires_at == later.expires_at
    assert ctx.archive_restore(endless.id).expires_at is UNSET


def test_restoring_onto_a_taken_title_is_refused_and_the_error_names_its_memory(ctx: Any, plan: Any) -> None:
    ctx.archive(ids=[plan.id])
    other = ctx.store(title="Plan", content="x", namespace="team")
    with pytest.raises(TitleTaken) as refused:
        ctx.archive_restore(plan.id)
    assert refused.value.details == {"existing_id": other.id}
    assert ctx.get(plan.id).state == "archived"


@pytest.mark.parametrize("which", ["live", "deleted", "unknown"])
def test_only_what_is_in_the_archive_can_be_restored(ctx: Any, plan: Any, which: str) -> None:
    if which == "deleted":
        ctx.delete(plan.id)
    with pytest.raises(NotFound):
        ctx.archive_restore("no-such-memory" if which == "unknown" else plan.id)


def test_links_survive_archive_and_restore(ctx: Any, plan: Any) -> None:
    other = ctx.store(title="Other", content="x")
    ctx.link(source_id=plan.id, target_id=other.id, relation="supersedes")
    before = ctx.get(plan.id).links
    ctx.archive(ids=[plan.id])
    ctx.archive_restore(plan.id)
    assert ctx.get(plan.id).links == before
    assert [link.relation for link in before] == ["supersedes"]


def test_forgetting_without_a_filter_is_refused(ctx: Any, plan: Any) -> None:
    for nothing in ({}, {"namespace": None}, {"pattern": ""}, {"dry_run": True}, {"dry_run": False, "tier": None}):
        with pytest.raises(FilterRequired):
            ctx.forget(**nothing)
    assert ctx.list().count == 1


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
def test_forgetting_archives_what_the_filter_names_and_nothing_else(
    ctx: Any, plan: Any, filter: dict[str, str], left: list[str]
) -> None:
    ctx.store(title="Elsewhere", content="We deploy here too.", namespace="other", tier="mid")
    ctx.store(title="Lunch", content="at noon", namespace="other", tier="mid")
    ctx.store(title="Sub", content="x", namespace="team/sub", tier="long")
    would = ctx.forget(**filter, dry_run=True)
    assert (ctx.list().count, would.deleted, would.would_delete) == (4, 0, 4 - len(left))
    gone = ctx.forget(**filter)
    assert titles(ctx.list()) == left
    assert (gone.archived, sorted(gone.ids)) == (4 - len(left), sorted(would.ids))
    assert ctx.archive_list().count == 4 - len(left)


def test_what_was_forgotten_can_be_restored(ctx: Any, plan: Any) -> None:
    ctx.forget(namespace="team")
    assert ctx.archive_list().archived[0].archive_reason == "forget"
    assert ctx.archive_restore(plan.id).content == "We deploy on Tuesdays."


def test_forgetting_leaves_what_another_has_not_granted_and_names_it(ctx: Any, plan: Any, seen_by: Any) -> None:
    other = seen_by("ai:other@here")
    theirs = other.store(title="Theirs", content="We deploy.", namespace="team", scope="private")
    other.grant(theirs.id, agent_id="ai:tester@here", permission="read")
    for dry_run in (True, False):
        answer = ctx.forget(namespace="team", dry_run=dry_run)
        assert (answer.ids, answer.kept) == ([plan.id], [theirs.id])
    assert titles(ctx.list()) == ["Theirs"]


def test_forgetting_is_all_or_nothing(ctx: Any) -> None:
    """A cancelled forget changes nothing."""
    ctx.bulk_store(memories=[{"title": f"{n}", "content": "deploy"} for n in range(5)])
    stop = threading.Event()
    progress = Progress(lambda done, total, what: stop.set() if done == 3 else None, stop)
    with pytest.raises(OperationCancelled):
        ctx.call("forget", {"pattern": "deploy"}, progress=progress)
    assert (ctx.list().count, ctx.events().next) == (5, 5)


def test_forgetting_does_not_reach_what_the_caller_does_not_see(ctx: Any, plan: Any, seen_by: Any) -> None:
    hidden = seen_by("ai:other@here").store(title="Hidden", content="deploy", namespace="team", scope="private")
    assert ctx.forget(namespace="team").ids == [plan.id]
    assert seen_by("ai:other@here").get(hidden.id).state == "live"


def test_what_has_expired_is_seen_no_more_collected_or_not(ctx: Any, plan: Any, clock: Any) -> None:
    clock.move(days=7, seconds=-1)
    assert ctx.list().count == 1
    clock.move(seconds=1)
    for collected in (False, True):
        assert ctx.list().count == ctx.search("deploy").count == ctx.recall("deploy").count == 0, collected
        assert ctx.archive_list().archived[0].id == plan.id
        assert ctx.stats().total == 0
        ctx.gc()


def test_collecting_returns_a_count_and_is_not_replicated(ctx: Any, plan: Any, clock: Any) -> None:
    clock.move(days=8)
    before = ctx.events().next
    assert (ctx.gc(dry_run=True).collected, ctx.gc().collected, ctx.gc().collected) == (1, 1, 0)
    assert ctx.events().next == before
    assert ctx.get(plan.id).version == 1
    assert ctx.verify().intact


def test_the_archive_is_counted_by_namespace(ctx: Any, plan: Any) -> None:
    other = ctx.store(title="Other", content="x")
    ctx.archive(ids=[plan.id, other.id])
    stats = ctx.archive_stats()
    assert stats.archived_total == 2
    assert {(one.namespace, one.count) for one in stats.by_namespace} == {("team", 1), ("global", 1)}


def test_purging_erases_the_content_and_the_journal_still_verifies(ctx: Any, db: str) -> None:
    secret = ctx.store(
        title="CANARY title",
        content="CANARY content",
        metadata={"k": "CANARY value"},
        citations=[{"uri": "doc:CANARY", "accessed_at": "2026-01-31"}],
        source_uri="doc:CANARY",
        speaker="CANARY",
        thread="CANARY",
    )
    ctx.update(secret.id, content="CANARY again")
    other = ctx.store(title="Other", content="stays")
    ctx.archive(ids=[secret.id])
    assert ctx.archive_purge(ids=[secret.id]).purged == 1
    assert ctx.archive_list().count == 0
    assert [(one.op, one.memory is UNSET) for one in ctx.history(secret.id).changes] == [
        ("store", True),
        ("update", True),
        ("archive", True),
        ("purge", False),
    ]
    assert "CANARY" not in str(ctx.history(secret.id)) + str(ctx.events())
    assert ctx.get(other.id).content == "stays"
    assert ctx.verify().intact
    assert "canar" not in everything_in(db).lower()


def test_a_store_that_was_read_before_a_purge_is_found_sound_after_it(ctx: Any, plan: Any) -> None:
    """FTS5 caches the structure of its index per connection."""
    assert ctx.recall("deploy").count == 1
    ctx.archive(ids=[plan.id])
    ctx.archive_purge(ids=[plan.id])
    assert ctx.ctx.store.faults() == []


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


def test_a_purged_memory_cannot_be_restored(ctx: Any, plan: Any) -> None:
    ctx.archive(ids=[plan.id])
    ctx.archive_purge(ids=[plan.id])
    for change in ctx.history(plan.id).changes:
        with pytest.raises(NotFound):
            ctx.undo(change.seq)
    with pytest.raises(NotFound):
        ctx.archive_restore(plan.id)


def test_purging_reaches_only_what_is_in_the_archive(ctx: Any, plan: Any) -> None:
    with pytest.raises(NotFound):
        ctx.archive_purge(ids=[plan.id])
    assert ctx.archive_purge(older_than_days=0).purged == 0
    assert ctx.list().count == 1


@pytest.mark.parametrize("nothing", [{}, {"ids": []}, {"ids": None}], ids=str)
def test_purging_without_a_filter_is_refused(ctx: Any, plan: Any, nothing: dict[str, Any]) -> None:
    ctx.archive(ids=[plan.id])
    with pytest.raises(FilterRequired):
        ctx.archive_purge(**nothing)
    assert ctx.archive_list().count == 1


def test_purging_by_age_counts_from_archival(ctx: Any, clock: Any) -> None:
    """A memory written long ago that expired yesterday has been archived for one day."""
    ctx.store(title="expires in 60 days", content="x", expires_at=clock.after(days=60))
    archived = ctx.store(title="archived today", content="x", tier="long")
    ctx.archive(ids=[archived.id])
    clock.move(days=61)
    ctx.gc()
    assert titles(ctx.archive_list()) == ["archived today", "expires in 60 days"]
    assert ctx.archive_purge(older_than_days=30).purged == 1
    assert titles(ctx.archive_list()) == ["expires in 60 days"]
    clock.move(days=30)
    assert ctx.archive_purge(older_than_days=30).purged == 1


def test_purging_some_is_all_or_nothing(ctx: Any, plan: Any) -> None:
    ctx.archive(ids=[plan.id])
    with pytest.raises(NotFound):
        ctx.archive_purge(ids=[plan.id, "no-such-memory"])
    assert ctx.archive_list().count == 1


def test_purging_does_not_reach_what_the_caller_does_not_see(ctx: Any, plan: Any, seen_by: Any) -> None:
    other = seen_by("ai:other@here")
    hidden = other.store(title="Hidden", content="x", scope="private")
    other.archive(ids=[hidden.id])
    ctx.archive(ids=[plan.id])
    assert ctx.archive_purge(older_than_days=0).purged == 1
    assert other.archive_list().archived[0].id == hidden.id


def test_every_way_out_and_back_bumps_the_version(ctx: Any, plan: Any) -> None:
    versions = [plan.version]
    ctx.archive(ids=[plan.id])
    versions.append(ctx.get(plan.id).version)
    versions.append(ctx.archive_restore(plan.id).version)
    ctx.forget(namespace="team")
    versions.append(ctx.get(plan.id).version)
    versions.append(ctx.archive_restore(plan.id).version)
    versions.append(ctx.promote(plan.id).version)
    versions.append(ctx.delete(plan.id).version)
    assert versions == [1, 2, 3, 4, 5, 6, 7]

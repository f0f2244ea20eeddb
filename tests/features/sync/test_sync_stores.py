"""Sync of two stores: the reported counts are correct, and nothing is half applied."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.features.sync import apply_changes, exchange, read_changes
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.errors import Conflict, NotAStore, NotFound
from holdfast.kernel.records.change import Change
from holdfast.kernel.storage.port import Session

DAY = 86_400 * 10**6


def test_a_first_sync_transfers_everything_and_a_second_nothing(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    here.store(title="Mine", content="I said this.")
    there.store(title="Theirs", content="They said that.")
    first, second = (here.sync(remote=there.settings.db) for _ in range(2))
    assert (first.pulled, first.pushed, first.rejected) == (1, 1, 0)
    assert (second.pulled, second.pushed) == (0, 0)
    assert {m.title for m in here.list().memories} == {m.title for m in there.list().memories} == {"Mine", "Theirs"}


@pytest.mark.parametrize(("direction", "mine", "theirs"), [("pull", 2, 1), ("push", 1, 2)])
def test_a_one_way_sync_leaves_the_other_store_unchanged(
    here: holdfast.Holdfast, there: holdfast.Holdfast, direction: str, mine: int, theirs: int
) -> None:
    here.store(title="Mine", content="I said this.")
    there.store(title="Theirs", content="They said that.")
    here.sync(remote=there.settings.db, direction=direction)
    assert (here.stats().total, there.stats().total) == (mine, theirs)


def test_a_dry_run_reports_what_the_run_does_and_changes_nothing(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    kept = there.store(title="Theirs", content="They said that.")
    here.sync(remote=there.settings.db)
    there.update(id=kept.id, content="They said more.")
    there.store(title="New", content="It is new.")
    heads = [store.verify().head for store in (here, there)]
    planned = here.sync(remote=there.settings.db, dry_run=True)
    assert (planned.pull.new, planned.pull.update, planned.push.new) == (1, 1, 0)
    assert [store.verify().head for store in (here, there)] == heads
    assert here.sync(remote=there.settings.db).pulled == 2


def test_a_pulled_memory_belongs_to_the_puller_and_keeps_its_first_author(
    here: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast]
) -> None:
    there = make(agent_id="ai:bob@away")
    kept = there.store(title="Theirs", content="They said that.")
    here.sync(remote=there.settings.db, direction="pull")
    pulled = here.get(id=kept.id)
    assert (pulled.agent_id, pulled.metadata["imported_from_agent_id"]) == ("human:ann@home", "ai:bob@away")
    assert here.verify().intact
    here.sync(remote=there.settings.db)
    assert there.get(id=kept.id).agent_id == "ai:bob@away"


def test_a_trusted_source_keeps_the_owners_of_memories(
    here: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast]
) -> None:
    there = make(agent_id="ai:bob@away")
    kept = there.store(title="Theirs", content="They said that.")
    here.sync(remote=there.settings.db, trust_source=True)
    assert here.get(id=kept.id).agent_id == "ai:bob@away"


def test_deletions_stick_and_concurrent_edits_become_conflicts(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    kept = here.store(title="Fleeting", content="It was so.")
    here.sync(remote=there.settings.db)
    there.update(id=kept.id, content="It was otherwise.")
    here.delete(id=kept.id)
    for _ in range(2):
        here.sync(remote=there.settings.db, trust_source=True)
    assert [store.list().memories for store in (here, there)] == [[], []]
    (conflict,) = here.conflicts().conflicts
    assert (conflict.field, conflict.shown.value, conflict.other.value) == ("state", "deleted", "live")


def test_a_purge_also_erases_copies_on_other_stores(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    kept = here.store(title="Secret", content="The word is abracadabra.", tags=["hush"])
    here.sync(remote=there.settings.db, trust_source=True)
    here.archive(ids=[kept.id])
    here.archive_purge(ids=[kept.id])
    here.sync(remote=there.settings.db, trust_source=True)
    with there.ctx.reading() as session:
        told = str(session.rows("change_feed", after=0, limit=100)) + str(session.rows("memory_select"))
    assert "abracadabra" not in told
    assert "hush" not in told
    assert there.verify().intact


def test_links_reflections_and_invalidations_are_synced(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    ground = here.store(title="Ground", content="It rains.")
    drawn = here.reflect(source_ids=[ground.id], title="Drawn", content="Take a coat.")
    here.sync(remote=there.settings.db, trust_source=True)
    there.delete(id=ground.id)
    here.sync(remote=there.settings.db, trust_source=True)
    assert here.get(id=drawn.id).stale.cause == "deleted"
    assert [one.id for one in here.invalidations().invalidations] == [
        one.id for one in there.invalidations().invalidations
    ]


def test_a_change_altered_in_transit_is_quarantined_and_named(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    there.store(title="Theirs", content="They said that.")
    taken = take(here, there, lambda change: msgspec.structs.replace(change, body=change.body.replace("that", "this")))
    assert [(one.reason, one.change.kind) for one in taken.list_rejected] == [("forged", "memory")]
    assert here.stats().total == 0


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        ({"signature": "no signature"}, "forged"),
        ({"signature": ""}, "forged"),
        ({"origin": "nobody.1-00000000"}, "unsigned"),
        ({"n": 99}, "forged"),
    ],
)
def test_an_impossible_change_is_quarantined_and_the_others_are_applied(
    here: holdfast.Holdfast, there: holdfast.Holdfast, spoilt: dict[str, object], reason: str
) -> None:
    there.store(title="Spoilt", content="It is spoilt on its way.")
    there.store(title="Whole", content="It arrives as it was sent.")
    taken = take(here, there, lambda change: msgspec.structs.replace(change, **spoilt) if change.n == 1 else change)
    assert [one.reason for one in taken.list_rejected] == [reason]
    assert [memory.title for memory in here.list().memories] == ["Whole"]


def test_a_change_forged_in_the_name_of_this_store_is_quarantined(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    there.store(title="Theirs", content="They said that.")
    with here.ctx.reading() as session:
        own = read_changes.build_handshake(session, here.ctx.now()).origin
    taken = take(here, there, lambda change: msgspec.structs.replace(change, origin=own))
    assert [one.reason for one in taken.list_rejected] == ["forked"]
    assert here.verify().intact


def test_a_far_future_change_waits_until_it_is_due(
    here: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast]
) -> None:
    ahead = make(now=lambda: here.ctx.now() + 30 * DAY)
    ahead.store(title="Later", content="It will be.")
    assert here.sync(remote=ahead.settings.db, direction="pull").errors[0].reason == "future"
    assert here.stats().total == 0


def test_an_edit_arriving_before_its_record_waits_for_it(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    kept = there.store(title="Theirs", content="They said that.")
    there.update(id=kept.id, content="They said more.")
    taken = take(here, there, lambda change: change, order=(1, 0))
    assert taken.list_rejected == []
    assert here.get(id=kept.id).content == "They said more."
    with here.ctx.reading() as session:
        assert session.rows("quarantine_list") == []


def test_fields_of_a_newer_release_are_stored_and_relayed(
    here: holdfast.Holdfast, there: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast]
) -> None:
    there.store(title="Theirs", content="They said that.")
    third = make()
    with there.ctx.store.transaction() as session:
        session.execute_sql(
            "update journal set body = :body where seq = 1",
            [{"body": _body(session).replace('"title":', '"mood":"glad","title":')}],
        )
    here.sync(remote=there.settings.db, direction="pull", trust_source=True)
    third.sync(remote=here.settings.db, direction="pull", trust_source=True)
    with third.ctx.reading() as session:
        (change,) = read_changes.read_page(session, key(third), 0, {}, 10).changes
    assert msgspec.json.decode(change.body)["mood"] == "glad"
    assert [store.verify().findings for store in (here, third)] == [[], []]


def test_an_interrupted_sync_resumes(
    here: holdfast.Holdfast, there: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        there.store(title=f"Number {number}", content=f"It is {number}.")
    monkeypatch.setattr(exchange, "PAGE", 2)
    pages = iter(range(10))

    finish = apply_changes.ChangeApplier.finish

    def cut(*given: object) -> None:
        if next(pages) == 1:
            raise KeyboardInterrupt
        finish(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(apply_changes.ChangeApplier, "finish", cut)
    with pytest.raises(KeyboardInterrupt):
        sync_stores(here.ctx, there.ctx, "pull")
    assert here.stats().total == 2
    assert sync_stores(here.ctx, there.ctx, "pull").pulled.memory_count == 3


def test_a_skill_is_synced_with_its_files(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    text = "---\nname: tidy\ndescription: Tidies up.\n---\nSweep first.\n"
    kept = here.skill_register(inline_skill=text)
    here.sync(remote=there.settings.db)
    assert there.skill_get(skill_id=kept.id).body == here.skill_get(skill_id=kept.id).body
    assert there.verify().intact


def test_a_remote_that_is_not_another_store_is_refused(here: holdfast.Holdfast, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        here.sync(remote=str(tmp_path / "nothing.db"))
    (tmp_path / "text.db").write_text("not a store")
    with pytest.raises(NotAStore):
        here.sync(remote=str(tmp_path / "text.db"))
    with pytest.raises(Conflict):
        here.sync(remote=here.settings.db)


def take(
    here: holdfast.Holdfast,
    there: holdfast.Holdfast,
    tamper: Callable[[Change], Change],
    order: tuple[int, ...] | None = None,
) -> apply_changes.SyncResult:
    """Apply a page that a third party altered."""
    with there.ctx.reading() as session:
        greeting = read_changes.build_handshake(session, there.ctx.now())
        page = read_changes.read_page(session, key(there), 0, {}, 100)
    changes = [tamper(change) for change in page.changes]
    page = page._replace(changes=[changes[place] for place in order] if order else changes)
    taken = apply_changes.SyncResult()
    with here.ctx.transaction() as write:
        applier = apply_changes.ChangeApplier(write, greeting, taken)
        applier.merge(applier.verify(page))
        applier.finish(page.bases)
    return taken


def key(store: holdfast.Holdfast) -> bytes:
    with store.ctx.reading() as session:
        found = store.ctx.store.signing_key(session)
    assert found is not None
    return found


def _body(session: Session) -> str:
    return str(session.query_sql("select body from journal where seq = 1", {})[0][0])

"""Regression tests of former security holes."""

from typing import Any

import pytest

import holdfast
from holdfast.features.access import keys
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, NotFound, TitleTaken
from holdfast.surfaces.http.authentication import authenticate


def confined_caller(right: str = "write", agent: str = "key:confined") -> Caller:
    return Caller(agent=agent, right=right, namespaces=("team",), key="k", has_fixed_agent=True)  # type: ignore[arg-type]


def test_a_store_that_had_a_key_stays_closed_after_its_last_key_is_revoked(hold: holdfast.Holdfast) -> None:
    made = hold.key_create(name="only")
    hold.key_revoke(made.id)
    with pytest.raises(holdfast.HoldfastError, match="valid key is required"):
        authenticate(hold, [])


def test_a_restored_snapshot_does_not_restore_keys(hold: holdfast.Holdfast) -> None:
    snapshot = hold.backup().snapshot
    made = hold.key_create(name="later")
    hold.call("restore", {"from": snapshot})
    with hold.ctx.reading() as session:
        found = keys.find_key(session, made.key)
    assert found is not None
    assert found.id == made.id


@pytest.mark.parametrize("agent", ["ai:tester@here", "key:adm", "*"])
def test_an_admin_limited_to_namespaces_cannot_create_a_key_for_another_agent(
    hold: holdfast.Holdfast, agent: str
) -> None:
    hold.key_create(name="adm", scope="admin")
    hold.store("Mine", "by the tester")
    with pytest.raises(Forbidden):
        hold.call(
            "key_create", {"name": "imp", "namespaces": ["team"], "agent_id": agent}, caller=confined_caller("admin")
        )


def test_an_admin_limited_to_namespaces_cannot_run_doctor(hold: holdfast.Holdfast) -> None:
    with pytest.raises(Forbidden):
        hold.call("doctor", {}, caller=confined_caller("admin"))


def test_a_taken_title_does_not_reveal_the_private_memory_with_it(hold: holdfast.Holdfast) -> None:
    secret = hold.store("Plan", "hidden", scope="private")
    other = Caller(agent="ai:other@here")
    mine = hold.call("store", {"title": "Mine", "content": "x"}, caller=other)
    with pytest.raises(TitleTaken) as error:
        hold.call("update", {"id": mine.id, "title": "Plan"}, caller=other)
    assert secret.id not in str(error.value.to_json())


def test_a_key_limited_to_namespaces_undoes_nothing_outside(hold: holdfast.Holdfast) -> None:
    inside = hold.store("Inside", "x", namespace="team")
    outside = hold.store("Outside", "y", namespace="elsewhere")
    hold.link(inside.id, outside.id)
    hold.agent_register("ai:scout@here", "ai:scout")
    for change in (3, 4):
        with pytest.raises(NotFound):
            hold.call("undo", {"change": change}, caller=confined_caller())


def test_a_purged_entity_leaves_its_names_nowhere(hold: holdfast.Holdfast, db: str) -> None:
    entity = hold.entity_register(canonical_name="Canary Ltd", namespace="global", aliases=["CNRY"])
    hold.archive(ids=[entity.entity_id])
    hold.archive_purge(ids=[entity.entity_id])
    with hold.ctx.reading() as session:
        rows = [*session.rows("alias_all", after="", limit=99), *session.rows("journal_page", after=0, limit=99)]
    assert "anary" not in str(rows)
    assert "CNRY" not in str(rows)
    assert hold.verify().intact


def test_a_promotion_by_use_is_attributed_to_the_reader(hold: holdfast.Holdfast) -> None:
    from holdfast.features.recall import flush_access as use

    memory = hold.store("Often", "asked for", tier="mid")
    reader = Caller(agent="ai:reader@here", right="read")
    for _ in range(5):
        hold.call("recall", {"context": "asked"}, caller=reader)
    use.flush_access_log(hold.ctx)
    last = hold.history(memory.id).changes[-1]
    assert (last.op, last.actor) == ("promote", "ai:reader@here")


def test_read_only_shared_memories_do_not_block_forgetting_ones_own(hold: Any) -> None:
    theirs = hold.store("Theirs", "words", scope="private")
    hold.grant(theirs.id, agent_id="ai:other@here")
    other = Caller(agent="ai:other@here")
    mine = hold.call("store", {"title": "Mine", "content": "words"}, caller=other)
    gone = hold.call("forget", {"namespace": "global"}, caller=other)
    assert (gone.ids, gone.kept) == ([mine.id], [theirs.id])


def test_archived_memories_are_found_on_request(hold: Any) -> None:
    memory = hold.store("Old", "parchment")
    hold.archive(ids=[memory.id])
    assert (hold.recall("parchment").count, hold.search("parchment").count) == (0, 0)
    assert hold.recall("parchment", include_archived=True).memories[0].id == memory.id
    assert hold.search("parchment", include_archived=True).results[0].id == memory.id


def test_doctor_finds_a_dropped_or_added_trigger(hold: Any, db: str) -> None:
    import apsw

    raw = apsw.Connection(db)
    raw.execute("drop trigger memory_text_added")
    raw.execute("create trigger evil after insert on memory begin delete from memory_tag; end")
    raw.close()
    report = str(hold.doctor())
    assert "trigger memory_text_added" in report
    assert "trigger evil" in report

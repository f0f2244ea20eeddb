"""Ways round the rules that were found once, and stay closed."""

from typing import Any

import pytest

import holdfast
from holdfast.features.access import keys
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import Forbidden, NotFound, TitleTaken
from holdfast.surfaces.http.authentication import authenticate


def confined_caller(right: str = "write", agent: str = "key:confined") -> Caller:
    return Caller(agent=agent, right=right, namespaces=("team",), key="k", has_fixed_agent=True)  # type: ignore[arg-type]


def test_a_store_that_had_a_key_stays_closed_when_its_last_key_is_revoked(ctx: holdfast.Holdfast) -> None:
    made = ctx.key_create(name="only")
    ctx.key_revoke(made.id)
    with pytest.raises(holdfast.HoldfastError, match="valid key is needed"):
        authenticate(ctx, [])


def test_keys_do_not_go_back_with_a_restored_snapshot(ctx: holdfast.Holdfast) -> None:
    snapshot = ctx.backup().snapshot
    made = ctx.key_create(name="later")
    ctx.call("restore", {"from": snapshot})
    with ctx.ctx.reading() as session:
        found = keys.find_key(session, made.key)
    assert found is not None
    assert found.id == made.id


@pytest.mark.parametrize("agent", ["ai:tester@here", "key:adm", "*"])
def test_a_confined_admin_makes_no_key_that_speaks_for_somebody_else(ctx: holdfast.Holdfast, agent: str) -> None:
    ctx.key_create(name="adm", scope="admin")
    ctx.store("Mine", "by the tester")
    with pytest.raises(Forbidden):
        ctx.call(
            "key_create", {"name": "imp", "namespaces": ["team"], "agent_id": agent}, caller=confined_caller("admin")
        )


def test_a_confined_admin_does_not_examine_the_whole_store(ctx: holdfast.Holdfast) -> None:
    with pytest.raises(Forbidden):
        ctx.call("doctor", {}, caller=confined_caller("admin"))


def test_a_taken_title_does_not_tell_whose_private_memory_takes_it(ctx: holdfast.Holdfast) -> None:
    secret = ctx.store("Plan", "hidden", scope="private")
    other = Caller(agent="ai:other@here")
    mine = ctx.call("store", {"title": "Mine", "content": "x"}, caller=other)
    with pytest.raises(TitleTaken) as told:
        ctx.call("update", {"id": mine.id, "title": "Plan"}, caller=other)
    assert secret.id not in str(told.value.to_json())


def test_a_confined_key_undoes_nothing_outside_its_reach(ctx: holdfast.Holdfast) -> None:
    inside = ctx.store("Inside", "x", namespace="team")
    outside = ctx.store("Outside", "y", namespace="elsewhere")
    ctx.link(inside.id, outside.id)
    ctx.agent_register("ai:scout@here", "ai:scout")
    for change in (3, 4):
        with pytest.raises(NotFound):
            ctx.call("undo", {"change": change}, caller=confined_caller())


def test_a_purged_entity_leaves_its_names_nowhere(ctx: holdfast.Holdfast, db: str) -> None:
    entity = ctx.entity_register(canonical_name="Canary Ltd", namespace="global", aliases=["CNRY"])
    ctx.archive(ids=[entity.entity_id])
    ctx.archive_purge(ids=[entity.entity_id])
    with ctx.ctx.reading() as session:
        said = [*session.rows("alias_all", after="", limit=99), *session.rows("journal_page", after=0, limit=99)]
    assert "anary" not in str(said)
    assert "CNRY" not in str(said)
    assert ctx.verify().intact


def test_a_promotion_by_use_is_told_of_who_used_it(ctx: holdfast.Holdfast) -> None:
    from holdfast.features.recall import flush_access as use

    memory = ctx.store("Often", "asked for", tier="mid")
    reader = Caller(agent="ai:reader@here", right="read")
    for _ in range(5):
        ctx.call("recall", {"context": "asked"}, caller=reader)
    use.flush_access_log(ctx.ctx)
    last = ctx.history(memory.id).changes[-1]
    assert (last.op, last.actor) == ("promote", "ai:reader@here")


def test_what_is_shared_with_you_to_read_does_not_keep_you_from_forgetting_your_own(ctx: Any) -> None:
    theirs = ctx.store("Theirs", "words", scope="private")
    ctx.grant(theirs.id, agent_id="ai:other@here")
    other = Caller(agent="ai:other@here")
    mine = ctx.call("store", {"title": "Mine", "content": "words"}, caller=other)
    gone = ctx.call("forget", {"namespace": "global"}, caller=other)
    assert (gone.ids, gone.kept) == ([mine.id], [theirs.id])


def test_archived_memories_are_found_when_asked_for(ctx: Any) -> None:
    memory = ctx.store("Old", "parchment")
    ctx.archive(ids=[memory.id])
    assert (ctx.recall("parchment").count, ctx.search("parchment").count) == (0, 0)
    assert ctx.recall("parchment", include_archived=True).memories[0].id == memory.id
    assert ctx.search("parchment", include_archived=True).results[0].id == memory.id


def test_doctor_finds_a_trigger_that_was_dropped_or_added(ctx: Any, db: str) -> None:
    import apsw

    raw = apsw.Connection(db)
    raw.execute("drop trigger memory_text_added")
    raw.execute("create trigger evil after insert on memory begin delete from memory_tag; end")
    raw.close()
    said = str(ctx.doctor())
    assert "trigger memory_text_added" in said
    assert "trigger evil" in said

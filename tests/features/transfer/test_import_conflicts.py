"""Imports over existing records: the later state is kept, and merging happens only on request."""

from envelopes import Open, counts, import_envelope, memory

import holdfast


def test_a_taken_title_is_refused_merged_or_numbered_as_asked(open_store: Open) -> None:
    envelope = {"memories": [memory(tags=["new"])], "links": []}
    seen = {}
    for on_conflict in ("error", "merge", "version"):
        ctx = open_store(on_conflict)
        kept = ctx.store(title="One", content="mine", namespace="elsewhere", tags=["old"])
        answer = import_envelope(ctx, envelope, on_conflict=on_conflict)
        seen[on_conflict] = (
            counts(answer),
            [error.code for error in answer.errors],
            {(row.id == kept.id, row.title, row.content, tuple(row.tags)) for row in ctx.list().memories},
        )
    assert seen == {
        "error": ((0, 0, 0, 0, 1), ["TITLE_TAKEN"], {(True, "One", "mine", ("old",))}),
        "merge": ((0, 1, 0, 0, 0), [], {(True, "One", "first", ("old", "new"))}),
        "version": ((1, 0, 0, 0, 0), [], {(True, "One", "mine", ("old",)), (False, "One (2)", "first", ("new",))}),
    }


def test_what_points_to_a_memory_that_was_merged_points_to_the_one_it_became(ctx: holdfast.Holdfast) -> None:
    kept = ctx.store(title="One", content="mine", namespace="elsewhere")
    link = {"source_id": "m-2", "target_id": "m-1", "relation": "supersedes"}
    import_envelope(ctx, {"memories": [memory(), memory(id="m-2", title="Two")], "links": [link]})
    assert [(one.source_id, one.target_id) for one in ctx.get("m-2").links] == [("m-2", kept.id)]


def test_a_private_memory_is_never_merged_into_one_that_others_see(ctx: holdfast.Holdfast) -> None:
    ctx.store(title="One", content="mine", namespace="elsewhere")
    answer = import_envelope(ctx, {"memories": [memory(metadata={"scope": "private"})]})
    assert [error.code for error in answer.errors] == ["TITLE_TAKEN"]
    assert ctx.list().memories[0].content == "mine"


def test_the_later_state_of_a_memory_stays_whichever_side_it_is_on(ctx: holdfast.Holdfast) -> None:
    first = ctx.store(title="One", content="first")
    before = ctx.export()
    ctx.update(first.id, content="second")
    after = ctx.export()
    assert counts(import_envelope(ctx, before)) == (0, 0, 0, 1, 0)
    assert ctx.get(first.id).content == "second"
    ctx.undo(change=2)
    after["memories"][0]["updated_at"] = "2999-01-01T00:00:00Z"
    assert counts(import_envelope(ctx, after)) == (0, 1, 0, 0, 0)
    assert ctx.get(first.id).content == "second"


def test_an_edit_made_in_the_file_is_taken_in(ctx: holdfast.Holdfast) -> None:
    first = ctx.store(title="One", content="first")
    exported = ctx.export()
    exported["memories"][0]["content"] = "edited by hand"
    assert counts(import_envelope(ctx, exported)) == (0, 1, 0, 0, 0)
    changed = ctx.get(first.id)
    assert (changed.content, changed.version) == ("edited by hand", 2)
    assert ctx.verify().intact


def test_a_deleted_memory_comes_back(ctx: holdfast.Holdfast) -> None:
    first = ctx.store(title="One", content="first")
    exported = ctx.export()
    ctx.delete(first.id)
    assert counts(import_envelope(ctx, exported)) == (0, 1, 0, 0, 0)
    assert ctx.get(first.id).content == "first"


def test_a_revoked_grant_stays_revoked(ctx: holdfast.Holdfast) -> None:
    first = ctx.store(title="One", content="first", scope="private")
    ctx.grant(id=first.id, agent_id="ai:other@here")
    exported = ctx.export()
    ctx.revoke(id=first.id, agent_id="ai:other@here")
    assert import_envelope(ctx, exported).arrays["grants"].older == 1
    assert ctx.export()["grants"] == []


def test_lists_that_we_do_not_know_grow_together(ctx: holdfast.Holdfast) -> None:
    import_envelope(ctx, {"memories": [], "boards": [{"id": 1}, {"id": 2}]})
    import_envelope(ctx, {"memories": [], "boards": [{"id": 2}, {"id": 3}]})
    assert ctx.export()["boards"] == [{"id": 1}, {"id": 2}, {"id": 3}]

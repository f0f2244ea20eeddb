"""Imports over existing records: the later state is kept, and merging happens only on request."""

from envelopes import Open, counts, import_envelope, memory

import holdfast


def test_a_taken_title_is_refused_merged_or_numbered_as_requested(open_store: Open) -> None:
    envelope = {"memories": [memory(tags=["new"])], "links": []}
    seen = {}
    for on_conflict in ("error", "merge", "version"):
        hold = open_store(on_conflict)
        kept = hold.store(title="One", content="mine", namespace="elsewhere", tags=["old"])
        answer = import_envelope(hold, envelope, on_conflict=on_conflict)
        seen[on_conflict] = (
            counts(answer),
            [error.code for error in answer.errors],
            {(row.id == kept.id, row.title, row.content, tuple(row.tags)) for row in hold.list().memories},
        )
    assert seen == {
        "error": ((0, 0, 0, 0, 1), ["TITLE_TAKEN"], {(True, "One", "mine", ("old",))}),
        "merge": ((0, 1, 0, 0, 0), [], {(True, "One", "first", ("old", "new"))}),
        "version": ((1, 0, 0, 0, 0), [], {(True, "One", "mine", ("old",)), (False, "One (2)", "first", ("new",))}),
    }


def test_links_to_a_merged_memory_point_to_its_target(hold: holdfast.Holdfast) -> None:
    kept = hold.store(title="One", content="mine", namespace="elsewhere")
    link = {"source_id": "m-2", "target_id": "m-1", "relation": "supersedes"}
    import_envelope(hold, {"memories": [memory(), memory(id="m-2", title="Two")], "links": [link]})
    assert [(one.source_id, one.target_id) for one in hold.get("m-2").links] == [("m-2", kept.id)]


def test_a_private_memory_is_never_merged_into_a_visible_one(hold: holdfast.Holdfast) -> None:
    hold.store(title="One", content="mine", namespace="elsewhere")
    answer = import_envelope(hold, {"memories": [memory(metadata={"scope": "private"})]})
    assert [error.code for error in answer.errors] == ["TITLE_TAKEN"]
    assert hold.list().memories[0].content == "mine"


def test_the_later_state_of_a_memory_wins_on_either_side(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first")
    before = hold.export()
    hold.update(first.id, content="second")
    after = hold.export()
    assert counts(import_envelope(hold, before)) == (0, 0, 0, 1, 0)
    assert hold.get(first.id).content == "second"
    hold.undo(change=2)
    after["memories"][0]["updated_at"] = "2999-01-01T00:00:00Z"
    assert counts(import_envelope(hold, after)) == (0, 1, 0, 0, 0)
    assert hold.get(first.id).content == "second"


def test_an_edit_made_in_the_file_is_imported(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first")
    exported = hold.export()
    exported["memories"][0]["content"] = "edited by hand"
    assert counts(import_envelope(hold, exported)) == (0, 1, 0, 0, 0)
    changed = hold.get(first.id)
    assert (changed.content, changed.version) == ("edited by hand", 2)
    assert hold.verify().intact


def test_a_deleted_memory_is_restored_by_an_import(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first")
    exported = hold.export()
    hold.delete(first.id)
    assert counts(import_envelope(hold, exported)) == (0, 1, 0, 0, 0)
    assert hold.get(first.id).content == "first"


def test_a_revoked_grant_stays_revoked(hold: holdfast.Holdfast) -> None:
    first = hold.store(title="One", content="first", scope="private")
    hold.grant(id=first.id, agent_id="ai:other@here")
    exported = hold.export()
    hold.revoke(id=first.id, agent_id="ai:other@here")
    assert import_envelope(hold, exported).arrays["grants"].older == 1
    assert hold.export()["grants"] == []


def test_unknown_lists_are_merged(hold: holdfast.Holdfast) -> None:
    import_envelope(hold, {"memories": [], "boards": [{"id": 1}, {"id": 2}]})
    import_envelope(hold, {"memories": [], "boards": [{"id": 2}, {"id": 3}]})
    assert hold.export()["boards"] == [{"id": 1}, {"id": 2}, {"id": 3}]

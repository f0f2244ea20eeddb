"""A purge erases a skill permanently."""

from hashlib import sha256
from typing import Any

import pytest
from skill_samples import FILES, TEXT, export_store, skill_text

import holdfast
from holdfast.kernel.errors import NotFound


def test_a_purge_erases_a_skill_from_its_history_too(hold: holdfast.Holdfast) -> None:
    secret = {"path": "a.txt", "content": "hunter2"}
    made = hold.skill_register(inline_skill=skill_text("Hunter2"), files=[secret, FILES[0]])
    hold.skill_register(inline_skill=skill_text("Two", description="hunter2"), files=[secret])
    kept = hold.skill_register(inline_skill=skill_text("x", name="other"), files=[FILES[0]])
    assert hold.skill_delete("deploy", purge=True).purged
    with hold.ctx.reading() as session:
        rows = [str(session.query_sql(f"select * from {table}", {})) for table in ("journal", "skill_version", "skill")]
        digests = {row[0] for row in session.query_sql("select digest from skill_piece", {})}
    assert "unter2" not in "".join(rows)
    assert sha256(b"hunter2").hexdigest() not in digests
    assert hold.skill_resource(kept.id, "scripts/run.sh").content == "make deploy\n"
    assert {one.description for one in hold.skill_history("global/deploy").versions} == {"purged"}
    assert hold.verify().intact
    again = hold.skill_register(inline_skill=skill_text("Hunter2"), files=[secret, FILES[0]])
    assert (again.id, again.outcome) == (made.id, "registered")
    got = hold.skill_get("deploy")
    assert (got.body, got.signed) == ("Hunter2", True)
    assert hold.verify().intact


def test_a_purged_version_cannot_be_used_again(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    old = clocked_store.skill_register(inline_skill=skill_text("One"))
    clocked_store.skill_delete(old.id, purge=True)
    clock.move(hours=1)
    clocked_store.skill_register(inline_skill=skill_text("Two"))
    with pytest.raises(NotFound):
        clocked_store.skill_get(old.id)
    with pytest.raises(NotFound):
        clocked_store.skill_rollback("deploy")
    with pytest.raises(NotFound):
        clocked_store.skill_rollback("deploy", version=old.id)
    assert [row["namespace"] for row in export_store(clocked_store)["skill_versions"]] == ["global"]
    assert clocked_store.verify().intact


def test_a_purged_skill_is_restored_completely_by_an_import(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, files=FILES)
    before, whole = hold.skill_export(made.id), export_store(hold)
    hold.skill_delete("deploy", purge=True)
    undone = hold.skill_history("global/deploy").changes[0].change
    hold.undo(undone)
    assert hold.skill_list().total == 0
    assert hold.call("import", {"envelope": whole}).rejected == 0
    assert hold.skill_export("deploy") == before
    assert hold.verify().intact

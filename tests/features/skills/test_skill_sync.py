"""Exports, imports and backups contain skills."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skill_samples import FILES, TEXT, confine, count_entries, export_store, skill_text

import holdfast


def test_an_export_includes_skills_without_loss(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    hold.skill_register(inline_skill=skill_text("One"), namespace="team")
    made = hold.skill_register(
        inline_skill=skill_text("Two", more="composes_with_reflections:\n  - namespace: team\n"),
        files=[*FILES, {"path": "b", "content": "/w==", "encoding": "base64"}],
        namespace="team",
    )
    hold.skill_register(inline_skill=skill_text("x", name="gone"))
    hold.skill_delete("gone")
    whole = export_store(hold)
    with holdfast.open(str(tmp_path / "other.db"), agent_id="ai:other@there") as other:
        taken = other.call("import", {"envelope": whole})
        assert (taken.rejected, taken.arrays["skill_versions"].imported, taken.arrays["skills"].imported) == (0, 2, 1)
        assert other.skill_export(made.id) == hold.skill_export(made.id)
        assert [one.id for one in other.skill_history("deploy").versions] == [
            one.id for one in hold.skill_history("deploy").versions
        ]
        again = other.call("import", {"envelope": whole})
        assert (again.rejected, again.arrays["skill_versions"].unchanged, again.arrays["skills"].unchanged) == (0, 2, 1)
        back = export_store(other)
        assert {name: back[name] for name in ("skills", "skill_versions")} == {
            name: whole[name] for name in ("skills", "skill_versions")
        }
        assert other.verify().intact
        assert not other.skill_get("deploy").signed


def test_an_export_of_a_namespace_includes_only_its_skills(hold: holdfast.Holdfast) -> None:
    for namespace in ("team", "team/ops", "home"):
        hold.skill_register(inline_skill=TEXT, namespace=namespace)
    assert {row["namespace"] for row in export_store(hold, namespace="team")["skills"]} == {"team", "team/ops"}


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 64},
        {"files": [{"path": "SKILL.md", "content": TEXT.replace("How", "Why")}]},
        {"files": [{"path": "SKILL.md", "content": TEXT}, {"path": "../x", "content": ""}]},
        {"files": []},
        {"name": "other"},
        {"namespace": "elsewhere"},
        {"signature": "0" * 128},
    ],
    ids=["digest", "content", "path", "no files", "name", "namespace", "signature"],
)
def test_a_skill_with_a_false_digest_is_not_imported(hold: holdfast.Holdfast, change: dict[str, Any]) -> None:
    hold.skill_register(inline_skill=TEXT, namespace="team")
    whole = export_store(hold)
    hold.skill_delete("deploy")
    whole["skill_versions"] = [{**whole["skill_versions"][0], **change}]
    whole["skills"] = []
    before = count_entries(hold)
    assert hold.call("import", {"envelope": whole}).rejected == 1
    assert count_entries(hold) == before
    assert hold.verify().intact


def test_a_key_limited_to_namespaces_imports_no_skill_elsewhere(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    clocked_store.skill_register(inline_skill=TEXT, namespace="team")
    whole = export_store(clocked_store)
    taken = getattr(confine(seen_by, "home"), "import")(envelope=whole)
    assert [fault.code for fault in taken.errors if fault.array.startswith("skill")] == ["FORBIDDEN", "FORBIDDEN"]


def test_a_restored_backup_has_its_skills(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, files=FILES)
    before = hold.skill_export(made.id)
    copy = hold.backup()
    hold.skill_register(inline_skill=skill_text("Two"))
    hold.restore(**{"from": copy.snapshot})
    assert hold.skill_export("deploy") == before
    assert hold.verify().intact


def test_doctor_counts_skills(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT)
    counts = next(section.facts for section in hold.doctor().sections if section.name == "counts")
    assert counts["skills"] == 1

"""An export equals what was registered."""

from pathlib import Path

import pytest
from skill_samples import FILES, TEXT, skill_text

import holdfast
from holdfast.kernel.errors import Conflict


def test_an_exported_skill_equals_the_registered_one(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    (folder / "assets").mkdir(parents=True)
    raw = (
        b'---\r\nname: deploy\r\ndescription: "Says \\"so\\": yes"   \r\nmetadata:\r\n  n: 007\r\n  b: \'yes\'\r\n'
        b"composes_with_reflections:\r\n  - {namespace: team, min_depth: 1}\r\n---\r\n\r\n  body \t\r\n"
    )
    (folder / "SKILL.md").write_bytes(raw)
    (folder / "assets" / "x.bin").write_bytes(bytes(range(256)))
    made = hold.skill_register(str(folder))
    out = tmp_path / "out" / "deploy"
    told = hold.skill_export(made.id, str(out))
    assert (out / "SKILL.md").read_bytes() == raw
    assert (out / "assets" / "x.bin").read_bytes() == bytes(range(256))
    assert (told.resources_exported, told.target_folder) == (1, str(out))
    assert hold.skill_register(str(out)).outcome == "unchanged"
    sent = {file.path: (file.content, file.encoding) for file in hold.skill_export(made.id).files}
    assert sent["SKILL.md"] == (raw.decode(), "utf-8")
    assert sent["assets/x.bin"][1] == "base64"


def test_an_export_replaces_only_an_older_export(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    hold.skill_register(inline_skill=skill_text("One"), files=FILES)
    hold.skill_export("deploy", str(tmp_path / "deploy"))
    second = hold.skill_register(inline_skill=skill_text("Two"))
    hold.skill_export("deploy", str(tmp_path / "deploy"))
    assert [place.name for place in (tmp_path / "deploy").iterdir()] == ["SKILL.md"]
    (tmp_path / "deploy" / "SKILL.md").write_text(skill_text("Edited, not registered"))
    with pytest.raises(Conflict, match=r"'SKILL\.md', which is in no version"):
        hold.skill_export(second.id, str(tmp_path / "deploy"))
    assert "Edited" in (tmp_path / "deploy" / "SKILL.md").read_text()
    hold.skill_register(inline_skill=skill_text("x", name="cook"))
    hold.skill_export("cook", str(tmp_path / "cook"))
    with pytest.raises(Conflict):
        hold.skill_export(second.id, str(tmp_path / "cook"))


def test_exported_files_can_be_registered_again(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(
        inline_skill=TEXT, files=[*FILES, {"path": "b", "content": "/w==", "encoding": "base64"}]
    )
    sent = hold.skill_export(made.id).files
    inline = next(file.content for file in sent if file.path == "SKILL.md")
    beside = [
        {"path": file.path, "content": file.content, "encoding": file.encoding}
        for file in sent
        if file.path != "SKILL.md"
    ]
    assert hold.skill_register(inline_skill=inline, files=beside).outcome == "unchanged"

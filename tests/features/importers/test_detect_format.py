"""The format of an export is detected by its content; unknown and mixed ones are refused."""

import os
from pathlib import Path

import exports
import pytest
from exports import records
from read_records import problems, turns

from holdfast.features.importers.model import Note
from holdfast.kernel.errors import Invalid, NotFound


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b'{"a": 1}', b"[]", b"[1, 2]", b""])
def test_an_unknown_format_is_refused_and_the_formats_are_listed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "what"
    path.write_bytes(content)
    with pytest.raises(Invalid, match="The formats are chatgpt, claude, claude-code, codex, slack"):
        records(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x1f\x8b\x08\x00", "what is compressed: unpack it first"),
        (b"%PDF-1.7\n", "what is a PDF: convert it to text first"),
        ('{"type": "entity"}'.encode("utf-16"), "what is in UTF-16: save it as UTF-8"),
        (b"\n<!DOCTYPE html><html>", "what is a web page: use the JSON file of the export"),
        (b" \n", "what is empty"),
    ],
    ids=["packed", "pdf", "utf-16", "page", "empty"],
)
def test_commonly_mistaken_files_are_reported_with_advice(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "what"
    path.write_bytes(content)
    with pytest.raises(Invalid, match=told):
        records(path)


def test_files_of_several_formats_are_refused_until_one_is_named(tmp_path: Path) -> None:
    exports.claude_code(tmp_path / "s-1.jsonl")
    exports.mbox(tmp_path / "mail.mbox")
    with pytest.raises(Invalid, match=r"several formats: claude-code \(1\), mbox \(1\)"):
        records(tmp_path)
    assert len(turns(records(tmp_path, "mbox"))) == 2


def test_texts_beside_conversations_are_skipped(tmp_path: Path) -> None:
    exports.claude_code(tmp_path / "s-1.jsonl")
    (tmp_path / "tool-result.txt").write_text("long output")
    (tmp_path / "notes.md").write_text("# Attached")
    assert len(turns(records(tmp_path))) == 3


def test_a_format_is_detected_by_a_first_line_of_any_length(tmp_path: Path) -> None:
    meta = {"id": "long-1", "cwd": "/x", "instructions": "word " * 50_000}
    path = exports.write_lines(
        tmp_path / "rollout.jsonl", {"type": "session_meta", "payload": meta}, exports.codex_message("user", "Hello.")
    )
    assert turns(records(path)) == [("user", "Hello.")]


def test_an_empty_source_yields_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        records(tmp_path / "nowhere")


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("open")
    (folder / "b.md").symlink_to(tmp_path / "secret.md")
    (folder / "c").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.md")
    found = records(folder)
    assert [one.content for one in found if isinstance(one, Note)] == ["open"]
    assert problems(found) == [("b.md", "link, not followed", False), ("c", "link, not followed", False)]

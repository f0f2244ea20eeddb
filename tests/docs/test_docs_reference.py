"""The generated reference is current, complete and reproducible."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from doc_pages import ROOT

from holdfast.operations import REGISTRY
from holdfast.settings import Settings
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.help.command_tree import command_tree
from holdfast.surfaces.reference import list_stale_pages, main, render_pages

REFERENCE = ROOT / "docs" / "reference"
MAX_LINES = 5000


def text_of(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def test_the_reference_is_current() -> None:
    assert list_stale_pages(REFERENCE) == []


def sections() -> dict[str, str]:
    """The section of each operation, on the page of its feature."""
    pages = [file.read_text("utf-8") for file in REFERENCE.glob("*.md")]
    return {part.split("\n")[0]: part for page in pages for part in page.split("\n## ")[1:]}


def test_every_operation_has_a_section_that_the_index_links_to() -> None:
    found, index = sections(), text_of("operations.md")
    assert [op.name for op in REGISTRY if op.name not in found] == []
    for name, page in re.findall(r"^\| \[(\w+)\]\((\S+)\.md#\1\)", index, re.M):
        assert f"\n## {name}\n" in text_of(f"{page}.md")
    assert [op.name for op in REGISTRY if f"| [{op.name}](" not in index] == []


def test_every_parameter_of_every_operation_is_described() -> None:
    found = sections()
    assert [
        (op.name, field.encode_name)
        for op in REGISTRY
        for field in op.fields
        if f"| `{field.encode_name}` |" not in found[op.name]
    ] == []


def test_every_command_is_in_the_reference() -> None:
    pages = "\n".join(file.read_text("utf-8") for file in REFERENCE.glob("*.md"))
    names = [f"holdfast {' '.join(path)}" for path in command_tree().visible]
    assert [name for name in names if f"\n### {name}\n" not in pages and f"\n`{name}` · " not in pages] == []


def test_the_reference_is_short_enough_to_review() -> None:
    assert sum(len(file.read_text("utf-8").splitlines()) for file in REFERENCE.glob("*.md")) <= MAX_LINES


def test_every_error_and_exit_code_is_in_the_reference() -> None:
    assert [code for code in wire.STATUS if f"`{code}`" not in text_of("errors.md")] == []
    assert [code for code in wire.EXIT if f"`{code}`" not in text_of("cli.md")] == []


def test_every_setting_is_in_the_reference() -> None:
    text = text_of("settings.md")
    assert [
        field.name
        for field in msgspec.structs.fields(Settings)
        if f"`{field.name}`" not in text.replace("[ttl]", "ttl").replace("[[hooks]]", "hooks")
    ] == []


def test_another_process_generates_the_same_pages(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "COLUMNS": "40", "NO_COLOR": "1"}
    subprocess.run(
        [sys.executable, "-m", "holdfast.surfaces.reference", str(tmp_path)], check=True, env=environment, cwd=tmp_path
    )
    assert {file.name: file.read_text("utf-8") for file in tmp_path.glob("*.md")} == render_pages()


def test_a_stale_page_is_named_and_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "errors.md").write_text("something else")
    (tmp_path / "no-longer-made.md").write_text("left over")
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"{tmp_path}: out of date: errors.md, no-longer-made.md. Run `make docs` and commit the result.\n"
    )

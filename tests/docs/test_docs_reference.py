"""The generated reference is current, complete and reproducible."""

import os
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest
from doc_pages import ROOT

from holdfast.operations import REGISTRY
from holdfast.settings import Settings
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.app import cli
from holdfast.surfaces.reference import list_stale_pages, main, render_pages

REFERENCE = ROOT / "docs" / "reference"


def text_of(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def commands(group: click.Group, path: str = "holdfast") -> list[str]:
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found += [f"{path} {name}", *(commands(command, f"{path} {name}") if isinstance(command, click.Group) else [])]
    return found


def test_the_reference_is_current() -> None:
    assert list_stale_pages(REFERENCE) == []


def test_every_operation_has_a_section() -> None:
    text = text_of("operations.md")
    assert [op.name for op in REGISTRY if f"\n### {op.name}\n" not in text] == []


def test_every_parameter_of_every_operation_is_described() -> None:
    text = text_of("operations.md")
    for op in REGISTRY:
        section = text.split(f"\n### {op.name}\n")[1].split("\n### ")[0]
        assert [field.encode_name for field in op.fields if f"| `{field.encode_name}` |" not in section] == []


def test_every_command_has_its_help_in_the_reference() -> None:
    text = text_of("cli.md")
    assert [name for name in commands(cli) if f"\n## {name}\n" not in text] == []


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

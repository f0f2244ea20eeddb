"""Help, the index of commands, and completion."""

import os
import re
import subprocess
from pathlib import Path

import click
import pytest
from four_surfaces import new_store
from holdfast_command import HOLDFAST, Run

import holdfast
from holdfast.operations import REGISTRY, Operation
from holdfast.surfaces.cli.app import COMMANDS
from holdfast.surfaces.cli.operation_command import build_command


@pytest.fixture
def db(tmp_path: Path) -> str:
    return new_store(tmp_path)


ON_CLI = [op for op in REGISTRY if "cli" in op.surfaces]


def test_every_command_has_help_naming_all_its_options(run: Run) -> None:
    helps = [(op, *run(*op.cli, "--help")) for op in ON_CLI]
    assert [(op.name, code, err) for op, code, _, err in helps if (code, err) != (0, "")] == []
    assert [
        (op.name, word)
        for op, _, out, _ in helps
        for word in (op.summary.split()[0], "--db", "--json", *(param.opts[0] for param in options_of(op)))
        if word not in out
    ] == []


def options_of(op: Operation) -> list[click.Option]:
    return [param for param in build_command(op).params if isinstance(param, click.Option)]


def test_no_letter_is_shared_by_two_options_of_a_command() -> None:
    letters = {op.name: [name for option in options_of(op) for name in option.opts if len(name) == 2] for op in ON_CLI}
    assert {name: found for name, found in letters.items() if len(found) != len(set(found))} == {}


def test_help_lists_every_command(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for op in REGISTRY:
        assert "cli" not in op.surfaces or f"\n  {op.cli[0]}" in out
    assert all(f"\n  {name}" in out for name in ("serve", "mcp", "bench", "completions"))


def test_the_command_index_matches_each_command() -> None:
    loaded = {name: entry.load() for name, entry in COMMANDS.items()}
    assert {name: command.name for name, command in loaded.items()} == {name: name for name in COMMANDS}
    summaries = {name: entry.summary for name, entry in COMMANDS.items()}
    assert {name: command.get_short_help_str(80) for name, command in loaded.items()} == summaries


def test_help_starts_with_connecting_agents_and_lists_each_command_once(run: Run) -> None:
    _, out, _ = run("--help")
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", out, re.MULTILINE)
    assert listed[:2] == ["setup", "install"]
    assert len(listed) == len(set(listed))
    assert "..." not in "".join(re.findall(r"^  (?:setup|install)  .*\n.*", out, re.MULTILINE))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_completions(run: Run, shell: str) -> None:
    code, out, err = run("completions", shell)
    assert (code, err) == (0, "")
    assert "_HOLDFAST_COMPLETE" in out


@pytest.mark.parametrize(
    ("typed_so_far", "offered"),
    [
        ("holdfast reca", {"recall", "recalls"}),
        ("holdfast archive re", {"restore"}),
        ("holdfast store --tit", {"--title"}),
        ("holdfast store --tier m", {"mid"}),
    ],
)
def test_completion_covers_commands_options_and_choices(typed_so_far: str, offered: set[str]) -> None:
    words = typed_so_far.split()
    environment = {
        **os.environ,
        "_HOLDFAST_COMPLETE": "bash_complete",
        "COMP_WORDS": typed_so_far,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run([HOLDFAST], env=environment, capture_output=True, text=True, check=False)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == offered


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version") == (0, f"holdfast, version {holdfast.__version__}\n", "")

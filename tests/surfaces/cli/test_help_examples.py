"""Every example that a command's help prints can be typed: it succeeds on a store with such records."""

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from example_store import OWNER, make_example_store
from four_surfaces import run_command

from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.app import cli
from holdfast.surfaces.cli.command_group import locate_command
from holdfast.surfaces.cli.global_options import GLOBAL_OPTIONS
from holdfast.surfaces.cli.help.command_tree import command_tree
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand

EXAMPLES_SHOWN = 2
PARSED_ONLY = {
    *("mcp", "serve", "sync daemon", "task worker", "agents wrap", "admin bench", "admin bench quality"),
    *("admin bench firing", "setup", "install", "admin llm test", "admin reembed", "webhook test"),
}
"""Commands that serve, replace this process, take minutes, change the home folder, or need a model or a network."""
PARTLY_REJECTED = {"sync quarantine retry"}
"""What is in quarantine is rejected again."""


@pytest.fixture(scope="module")
def example_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("examples")
    return folder, make_example_store(folder)


def commands() -> dict[str, DocumentedCommand]:
    root = click.Context(cli, info_name="holdfast")
    found = {" ".join(path): locate_command(root, path).command for path in command_tree().visible}
    return {words: command for words, command in found.items() if isinstance(command, DocumentedCommand)}


def split_line(line: str, ids: dict[str, str]) -> tuple[list[str], bytes]:
    """Split an example into its words after `holdfast` and its standard input, with the ids of the prepared store."""
    known = re.compile("|".join(rf"\b{re.escape(one)}\b" for one in ids))
    words = shlex.split(line)
    piped, words = (words[1], words[3:]) if words[0] == "echo" else ("", words)
    assert words[0] == "holdfast"
    return [known.sub(lambda one: ids[one[0]], word) for word in words[1:]], piped.encode()


def test_every_command_has_two_examples() -> None:
    found = commands()
    assert len(found) == len(command_tree().visible)
    own = {words: len(command.params) > len(GLOBAL_OPTIONS) for words, command in found.items()}
    assert [
        words
        for words, command in found.items()
        if len(command.examples) != EXAMPLES_SHOWN and (own[words] or not command.examples)
    ] == []
    assert [
        (words, example)
        for words, command in found.items()
        for example in command.examples
        if f"holdfast {words}" not in example
    ] == []


def test_every_example_succeeds(
    example_files: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template, ids = example_files
    monkeypatch.setenv("HOLDFAST_AGENT_ID", OWNER)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    failed = []
    for words, command in commands().items():
        for number, example in enumerate(command.examples if words not in PARSED_ONLY else ()):
            folder = tmp_path / f"{words.replace(' ', '-')}-{number}"
            shutil.copytree(template, folder)
            monkeypatch.chdir(folder)
            typed, piped = split_line(example, ids)
            code, _, err = run_command(["--db", "memory.db", *typed], piped)
            if (code, err) != (0, b"") and not (code == wire.PARTLY_REJECTED_EXIT and words in PARTLY_REJECTED):
                failed.append((example, code, err.decode()[-200:]))
            shutil.rmtree(folder)
    assert not failed, "\n".join(map(str, failed))


def test_the_examples_of_the_other_commands_parse() -> None:
    for words in PARSED_ONLY:
        context = locate_command(click.Context(cli, info_name="holdfast"), words.split())
        assert isinstance(context.command, DocumentedCommand)
        for example in context.command.examples:
            typed, _ = split_line(example, {"70de4b95": "x"})
            context.command.make_context(words, typed[len(words.split()) :], context.parent)

"""The commands in README and docs produce the documented output."""

import json
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from doc_pages import (
    DATABASE_HOST,
    INSTALLED,
    ROOT,
    WRITTEN,
    Block,
    Shell,
    agrees,
    blocks_of,
    documented_server,
    steps_of,
)
from preloaded_cli import warm_command

from holdfast.settings import Settings
from holdfast.surfaces.cli.app import cli

RUN = ("console", "sh", "python", "sql")
FOLLOWED = [page for page in WRITTEN if any(block.language in RUN and block.runs for block in blocks_of(page))]
FIRST_READ = ("README.md", "tutorial.md")
"""The pages that the commit ring follows."""
NOT_RUN = {
    "README.md": 1,
    "docs/how-to/anthropic-memory-tool.md": 1,
    "docs/how-to/openai-agents.md": 1,
    "docs/how-to/curate.md": 1,
    "docs/how-to/connect-agents.md": 1,
    "docs/how-to/follow-changes.md": 1,
    "docs/how-to/interactions.md": 1,
    "docs/how-to/measure-recall.md": 1,
    "docs/how-to/measure.md": 1,
    "docs/how-to/postgresql.md": 1,
}
"""How many blocks of each page are shown without being run."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    if page.name == "measure.md":
        return [pytest.mark.full, pytest.mark.longest]
    return [] if page.name in FIRST_READ else [pytest.mark.full]


@pytest.fixture(scope="module")
def warm() -> Iterator[Path]:
    """A folder with a preloaded `holdfast`."""
    with warm_command() as programs:
        yield programs


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=marks_of(page)) for page in FOLLOWED], ids=[name_of(page) for page in FOLLOWED]
)
def test_every_command_of_a_page_produces_the_documented_output(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for program in ("jq", "curl"):
        if program in page.read_text() and shutil.which(program) is None:
            pytest.skip(f"the page uses {program}, which is not here")
    with ExitStack() as stack:
        server = None
        if DATABASE_HOST in page.read_text():
            running = request.getfixturevalue("postgres")
            server = stack.enter_context(documented_server(running, page.read_text()))
        programs = INSTALLED if page.name == "README.md" else request.getfixturevalue("warm")
        shell = stack.enter_context(closing(Shell(tmp_path, server, programs)))
        for block in blocks_of(page):
            if block.language in RUN and block.runs:
                follow(shell, block)


def follow(shell: Shell, block: Block) -> None:
    """Run the commands of a block; a failing command must show its error."""
    for step in steps_of(block):
        printed, code = shell.run(step.command)
        assert agrees(step.shown, printed), f"$ {step.command}\n{printed}\n-- but the page shows --\n{step.shown}"
        fails = any(word in step.shown for word in ("error", "rejected", "NOT INTACT")) or step.command == "echo $?"
        assert code == 0 or fails, f"$ {step.command}\nended with {code}\n{printed}"


def test_skipped_blocks_are_counted() -> None:
    found = Counter(name_of(page) for page in WRITTEN for block in blocks_of(page) if not block.runs)
    assert dict(found) == NOT_RUN


def test_every_block_is_in_a_checked_language() -> None:
    found = {block.language for page in WRITTEN for block in blocks_of(page)}
    assert found <= {*RUN, "json", "toml", "text", "diff"}


def test_settings_shown_on_a_page_are_valid() -> None:
    readers = {"json": json.loads, "toml": tomllib.loads}
    invalid = {}
    for page in WRITTEN:
        for block in blocks_of(page):
            try:
                if block.language in readers:
                    check_settings(readers[block.language](block.text))
            except (ValueError, AssertionError, msgspec.MsgspecError, click.ClickException) as error:
                invalid[name_of(page), block.text] = error
    assert invalid == {}


def check_settings(shown: dict[str, Any]) -> None:
    """Whether a block is our settings file or the configuration of an agent host."""
    servers = shown.get("mcpServers") or shown.get("mcp_servers")
    if not servers:
        msgspec.convert(shown, Settings)
        return
    for server in servers.values():
        assert server["command"] == "holdfast"
        command, *words = server["args"]
        context = click.Context(cli, **cli.context_settings)
        cli.get_command(context, command).make_context(command, words, parent=context)
        variables = {name.removeprefix("HOLDFAST_").lower(): value for name, value in server.get("env", {}).items()}
        msgspec.convert(variables, Settings, strict=False)


def test_a_preloaded_command_behaves_like_the_installed_one(warm: Path, tmp_path: Path) -> None:
    commands = (
        'cd "$(mktemp -d)"; export HOLDFAST_DB=$PWD/a.db HOLDFAST_EMBEDDER=none',
        "umask 027; echo 'From a pipe.' | holdfast store --title A --content - | head -c 6",
        "holdfast get no-such-memory --json 2> problem; echo $?; cat problem",
        "holdfast list --json > listed; jq -r '.memories[].content' listed",
        "holdfast events --follow > /dev/null & kill $!; wait $!; echo $?",
    )
    outputs = []
    for programs in (INSTALLED, warm):
        with closing(Shell(tmp_path, programs=programs)) as shell:
            outputs.append([shell.run(command) for command in commands])
    assert outputs[0] == outputs[1]
    assert "From a pipe." in outputs[0][3][0]

"""What README and docs show is what happens."""

import json
import tomllib
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from documented import ROOT, WRITTEN, Block, Shell, agrees, blocks_of, steps_of

from holdfast.settings import Settings

RUN = ("console", "sh", "python")
NOT_RUN: dict[str, int] = {}
"""How many blocks of each page are shown without being run."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def shows_failure(shown: str) -> bool:
    return "error" in shown


@pytest.mark.parametrize(
    "page",
    [page for page in WRITTEN if any(block.language in RUN and block.runs for block in blocks_of(page))],
    ids=name_of,
)
def test_every_command_of_a_page_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        for block in blocks_of(page):
            if block.language in RUN and block.runs:
                follow(shell, block)
    finally:
        shell.close()


def follow(shell: Shell, block: Block) -> None:
    for step in steps_of(block):
        printed, code = shell.run(step.command)
        assert agrees(step.shown, printed), f"$ {step.command}\n{printed}\n-- but the page shows --\n{step.shown}"
        assert code == 0 or shows_failure(step.shown), f"$ {step.command}\nended with {code}\n{printed}"


def test_what_is_not_run_is_counted() -> None:
    found = Counter(name_of(page) for page in WRITTEN for block in blocks_of(page) if not block.runs)
    assert dict(found) == NOT_RUN


def test_every_block_is_in_a_language_that_is_checked() -> None:
    checked = {*RUN, "json", "toml", "text"}
    assert {block.language for page in WRITTEN for block in blocks_of(page)} <= checked


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_settings_and_json_on_a_page_are_valid(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "json":
            json.loads(block.text)
        if block.language == "toml" and block.runs:
            msgspec.convert(tomllib.loads(block.text), Settings)

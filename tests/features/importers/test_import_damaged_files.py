"""Damaged exports: reported, never a crash, never half imported."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import exports
import pytest

import holdfast
from holdfast.kernel.errors import HoldfastError, Invalid

ODD: list[Any] = [None, True, -1, 10**30, "", "\ud800", "\x00", [], {}, [[None]], {"type": "text"}, [1, "a", {}]]
EVERYTHING = ["tools", "system", "thinking", "sidechains"]


@pytest.fixture
def engine() -> str:
    """Readers do not depend on the engine."""
    return "sqlite"


def make_exports(folder: Path) -> dict[str, bytes]:
    """Write a file of each format."""
    exports.vault(folder / "vault")
    return {
        "chatgpt": exports.chatgpt(folder / "chatgpt").read_bytes(),
        "claude": json.dumps(
            [exports.claude_conversation(), exports.claude_memory(), exports.claude_project()]
        ).encode(),
        "claude-code": exports.claude_code(folder / "code").read_bytes(),
        "codex": exports.codex(folder / "codex").read_bytes(),
        "mem0": exports.mem0(folder / "mem0").read_bytes(),
        "mcp-memory": exports.graph(folder / "graph").read_bytes(),
        "mbox": exports.MBOX,
        "markdown": (folder / "vault" / "Bread.md").read_bytes(),
        "ai-memory": exports.ai_memory(folder / "store").read_bytes(),
    }


def list_damaged(value: Any) -> Iterator[Any]:
    """Copies of a value, each with one inner value replaced."""
    if isinstance(value, dict | list):
        for name in list(value) if isinstance(value, dict) else range(len(value)):
            for inner in [*ODD, *list_damaged(value[name])]:
                copy: Any = value.copy()
                copy[name] = inner
                yield copy


@pytest.mark.parametrize("form", ["chatgpt", "claude", "claude-code", "codex", "mem0", "mcp-memory"])
def test_misplaced_values_of_any_kind_are_reported(form: Any, tmp_path: Path) -> None:
    data, path = make_exports(tmp_path)[form], tmp_path / "spoilt"
    lined = form in ("claude-code", "codex", "mcp-memory")
    document = [json.loads(line) for line in data.splitlines()] if lined else json.loads(data)
    chance, found = Random(form), list(list_damaged(document))
    for one in chance.sample(found, 120):
        path.write_text("".join(json.dumps(entry) + "\n" for entry in one) if lined else json.dumps(one))
        exports.records(path, form)


def test_bytes_changed_lost_or_inserted_anywhere_are_reported(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    chance, files, path = Random(1), make_exports(tmp_path), tmp_path / "spoilt"
    for number in range(250):
        form = chance.choice(list(files))
        data = bytearray(files[form])
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data[at : at + chance.randint(1, 40)] = b"\n"
                case _:
                    data[at:at] = bytes(chance.choices(b'"{}[],:\\\n\x00\xff', k=3))
        path.write_bytes(data)
        with suppress(HoldfastError):
            hold.mine(str(path), format=chance.choice(["auto", form]), include=EVERYTHING, dry_run=number % 2 == 0)
    assert hold.stats().total > 0
    assert hold.verify().intact


def test_a_store_row_without_text_does_not_stop_the_others(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    path = exports.ai_memory(tmp_path / "ai.db")
    data = path.read_bytes()
    assert b"Deploy day" in data
    path.write_bytes(data.replace(b"Deploy day", b"Deploy \xffay"))
    answer = hold.mine(str(path))
    assert (answer.imported, answer.problems[0].where, answer.problems[0].what) == (
        1,
        "ai.db memories row 1",
        "not UTF-8",
    )


def test_too_deep_nesting_is_refused_by_name(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(Invalid, match=r"deep.json byte 1: nested 99999 levels deep; the maximum is 500"):
        hold.mine(str(path))


def test_a_damaged_store_is_refused_with_an_explanation(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    path = exports.ai_memory(tmp_path / "ai.db")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(Invalid, match=r"is not a readable SQLite database|is not an ai-memory store"):
        hold.mine(str(path), format="ai-memory")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("fences.md", "".join("`" * (3 + number % 50) + "\n" for number in range(20_000))),
        ("rulers.md", "---\n" + "# " + "#" * 200_000 + "x\n" + "-- \n" * 20_000),
        ("links.md", "[[" * 100_000),
        ("reminders.jsonl", json.dumps(exports.code_entry("user", "x", "<system-reminder>" * 50_000)) + "\n"),
        ("mail", "From a\nFrom: " + "(" * 60_000 + "\nSubject: x\n\nHello.\n"),
        (
            "deep",
            "From a\nContent-Type: multipart/mixed; boundary=b\n\n"
            + "--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 3000,
        ),
        ("html", "From a\nContent-Type: text/html\n\n" + "<!" * 300_000),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_adversarial_input_is_processed_quickly(
    name: str, content: str, hold: holdfast.Holdfast, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    answer = hold.mine(str(tmp_path / name), dry_run=True)
    assert answer.imported + answer.rejected + answer.noted > 0


FORMATS = ["chatgpt", "claude", "claude-code", "codex", "slack", "mem0", "mcp-memory", "mbox", "envelope", "ai-memory"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_of_another_format_than_named_never_reports_zero_news(
    form: str, hold: holdfast.Holdfast, tmp_path: Path
) -> None:
    for name, content in {"list": b'[{"a": 1}]', "object": b'{"a": 1}', "text": b'"x"', "lines": b"a\nb\n"}.items():
        (tmp_path / name).write_bytes(content)
        for read in (hold.mine, hold.audit):
            with suppress(Invalid):
                assert read(str(tmp_path / name), format=form).rejected
    assert hold.stats().total == 0

"""Documents from files and standard input: encodings, error positions, names."""

import codecs
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.features.ingest import files as ingest_files
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Invalid
from holdfast.surfaces.cli.app import run

TEXT = "# Notes\n\nDie Brücke über den Fluss ist gesperrt.\n"


@pytest.fixture
def engine() -> str:
    """Reading files does not depend on the engine."""
    return "sqlite"


def list_contents(ctx: Any, answer: Any) -> list[str]:
    return [ctx.get(id).content for id in answer.ingested_memory_ids]


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
    ],
    ids=["utf-8", "utf-8 with a mark", "utf-16 little", "utf-16 big", "utf-32"],
)
def test_a_file_is_decoded_by_its_byte_order_mark(hold: Any, tmp_path: Path, mark: bytes, encoding: str) -> None:
    file = tmp_path / "notes.md"
    file.write_bytes(mark + TEXT.encode(encoding))
    answer = hold.ingest(str(file), namespace="team")
    assert list_contents(hold, answer) == ["Die Brücke über den Fluss ist gesperrt."]
    assert answer.source_uri == file.as_uri()
    (one,) = answer.segments
    if encoding == "utf-8":
        assert file.read_bytes()[one.span.start : one.span.end].decode() == list_contents(hold, answer)[0]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"fine\n\nbr\xfccke\n", "byte 8 (line 3)"),
        (codecs.BOM_UTF16_LE + "fine".encode("utf-16-le") + b"\x00", "byte 10"),
        (b"text\x00binary", "NUL at byte 4 (line 1)"),
        (b"cut in the middle of \xc3", "byte 21 (line 1)"),
    ],
    ids=["latin-1", "half a character", "NUL", "cut"],
)
def test_a_binary_file_is_refused_with_the_position(hold: Any, tmp_path: Path, content: bytes, place: str) -> None:
    file = tmp_path / "notes.md"
    file.write_bytes(content)
    with pytest.raises(Invalid) as caught:
        hold.ingest(str(file), namespace="team")
    assert place in caught.value.message
    assert hold.list().memories == []


def test_a_file_truncated_anywhere_is_ingested_or_refused(hold: Any, tmp_path: Path) -> None:
    whole = (TEXT + "\n```sh\nmake\n```\n\n| a | b |\n|---|---|\n| ü | 2 |\n").encode()
    for size in range(1, len(whole), 7):
        try:
            text = ingest_files.decode_text(whole[:size], "cut")
        except Invalid:
            continue
        answer = (
            hold.call("ingest", {"content": text, "namespace": f"cut/{size}", "dry_run": True}) if size > 9 else None
        )
        for one in answer.segments if answer else ():
            assert whole[one.span.start : one.span.end].decode()


def test_a_too_large_document_is_refused_without_reading_all_of_it(
    hold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.txt"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 30)
    with pytest.raises(Invalid, match="larger than 16 MiB"):
        hold.ingest(str(file))


def test_standard_input_is_a_document(hold: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    answer = hold.ingest("-", namespace="team", source_uri="doc:piped")
    assert (answer.source_uri, len(answer.ingested_memory_ids)) == ("doc:piped", 1)


@pytest.mark.parametrize("name", [".", "no-such-file.md", ""], ids=["a folder", "missing", "no name"])
def test_unreadable_files_are_refused(hold: Any, name: str) -> None:
    with pytest.raises(Invalid):
        hold.ingest(name)


def test_paths_are_accepted_only_locally(hold: Any, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[[stages]]\ntype = 'segment'\n")
    remote = Caller(agent="ai:far@away", source="api")
    for arguments in ({"file": str(file)}, {"content": "x", "pipeline": str(file)}):
        with pytest.raises(Invalid):
            hold.call("ingest", arguments, caller=remote)
    with pytest.raises(Invalid):
        hold.call("pipelines", {"name": str(file)}, caller=remote)


def test_a_custom_pipeline_is_a_file(hold: Any, tmp_path: Path) -> None:
    file = tmp_path / "short.toml"
    file.write_text("description = 'Small pieces'\n[[stages]]\ntype = 'segment'\nlongest = 200\n")
    (one,) = hold.pipelines(str(file)).pipelines
    assert (one.name, one.stages) == ("short", ["segment"])
    answer = hold.ingest(content="A sentence of some words. " * 20, pipeline=str(file))
    assert (answer.pipeline, answer.pipeline_version) == ("short", one.version)
    assert answer.total > 1
    file.write_text("[[stages]]\ntype = 'segment'\nlongest = 1\n")
    with pytest.raises(Invalid, match=r"stages\[0\].longest"):
        hold.pipelines(str(file))


def test_an_unknown_pipeline_is_refused_with_the_built_in_names(hold: Any) -> None:
    with pytest.raises(
        Invalid, match=r"'nonesuch' is neither a file nor a built-in pipeline \(plain, two_phase, four_step\)"
    ):
        hold.ingest(content="A sentence.", pipeline="nonesuch")


def test_the_command_prints_the_decision_about_every_segment(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.md"
    file.write_text(TEXT)
    assert run(["--db", db, "ingest", str(file), "-n", "team"]) == 0
    printed = capsys.readouterr().out
    assert "1 segment: 1 new" in printed
    assert "Notes: Die Brücke über den Fluss ist gesperrt." in printed
    assert run(["--db", db, "ingest", str(file), "-n", "team", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "unchanged"
    file.write_bytes(b"\xff\xfe\xfd")
    assert run(["--db", db, "ingest", str(file)]) != 0

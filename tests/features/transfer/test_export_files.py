"""Export files of any size: written row by row, read completely before the import."""

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from envelopes import Open, memory, text_of

import holdfast
from holdfast.features.transfer.files import CHUNK_CHARS
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import Invalid, OperationCancelled


def usage(number: int) -> dict[str, Any]:
    return {
        "id": f"u-{number:04}",
        "at": "2026-01-01T00:00:00.000000Z",
        "principal": "ann",
        "agent_id": "ai:tester@here",
        "model": "one",
    }


@pytest.fixture
def export_file(rich: holdfast.Holdfast, tmp_path: Path) -> Path:
    file = tmp_path / "all.json"
    rich.call("import", {"envelope": {"memories": [], "usage": [usage(number) for number in range(450)]}})
    rich.export_file(file=str(file))
    return file


def test_a_file_equals_an_export_and_gives_the_same_store(
    rich: holdfast.Holdfast, open_store: Open, export_file: Path
) -> None:
    assert text_of(msgspec.json.decode(export_file.read_bytes())) == text_of(rich.export())
    assert stat.S_IMODE(export_file.stat().st_mode) == 0o600
    fresh = open_store("fresh")
    answer = fresh.import_file(file=str(export_file))
    assert (answer.errors, answer.imported, answer.arrays["usage"].imported) == ([], 7, 450)
    assert text_of(fresh.export()) == text_of(rich.export())
    assert fresh.verify().intact
    again = fresh.import_file(file=str(export_file))
    assert all((one.imported, one.merged, one.older) == (0, 0, 0) for one in again.arrays.values())


def test_the_formatting_of_a_file_does_not_matter(open_store: Open, export_file: Path, tmp_path: Path) -> None:
    given = msgspec.json.decode(export_file.read_bytes())
    laid_out = tmp_path / "laid-out.json"
    shuffled = dict(sorted(given.items(), reverse=True))
    laid_out.write_text(json.dumps(shuffled, indent=4, ensure_ascii=True).replace("\n", "\r\n"), encoding="utf-8-sig")
    one, other = open_store("one"), open_store("other")
    one.import_file(file=str(export_file))
    other.import_file(file=str(laid_out))
    assert text_of(one.export()) == text_of(other.export())


def test_a_dry_run_of_a_file_import_only_reports(open_store: Open, export_file: Path) -> None:
    fresh = open_store("fresh")
    before = fresh.export()
    assert fresh.import_file(file=str(export_file), dry_run=True).imported == 7
    assert text_of(fresh.export()) == text_of(before)


def test_a_cancelled_file_import_is_completed_by_the_next_one(
    rich: holdfast.Holdfast, open_store: Open, export_file: Path
) -> None:
    def stop(done: int, total: int, what: str) -> None:
        if done >= 300:
            raise OperationCancelled

    fresh = open_store("fresh")
    with pytest.raises(OperationCancelled):
        fresh.call("import_file", {"file": str(export_file)}, progress=Progress(stop))
    assert 0 < len(fresh.export()["usage"]) < 450
    fresh.import_file(file=str(export_file))
    assert text_of(fresh.export()) == text_of(rich.export())


def test_resolved_invalidations_are_resolved_after_an_import(open_store: Open, tmp_path: Path) -> None:
    hold, fresh, file = open_store("hold"), open_store("fresh"), str(tmp_path / "fell.json")
    ground, heir = (hold.store(title=title, content=f"{title} it is.", tier="long") for title in ("Old", "New"))
    hold.reflect(source_ids=[ground.id], title="So", content="Therefore.")
    hold.link(source_id=heir.id, target_id=ground.id, relation="supersedes")
    (told,) = hold.invalidations().invalidations
    hold.invalidations_dismiss(ids=[told.id], reason="Seen.")
    hold.export_file(file=file)
    assert fresh.import_file(file=file).errors == []
    assert text_of(fresh.export()) == text_of(hold.export())
    assert [row["status"] for row in fresh.export()["invalidations"]] == ["dismissed"]


WHOLE = b'{"memories": [{"id": "m-1", "title": "One", "content": "first", "tier": "long"}], "links": []}'


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(WHOLE[:-1], id="cut off"),
        pytest.param(WHOLE[:40], id="cut off within a row"),
        pytest.param(WHOLE + b"x", id="something behind its end"),
        pytest.param(WHOLE.replace(b"first", b"\xff"), id="not UTF-8"),
        pytest.param(WHOLE.replace(b'"links": []', b'"links": [NaN]'), id="no JSON"),
        pytest.param(WHOLE.replace(b'"links": []', b'"links": [{} {}]'), id="a comma is missing"),
        pytest.param(WHOLE.replace(b'"links": []', b'"memories": []'), id="a field twice"),
        pytest.param(WHOLE.replace(b'"links": []', b'"links": ' + b"[" * 100_000), id="too deep"),
        pytest.param(WHOLE.replace(b'"links": []', b'"links": {}'), id="no list"),
        pytest.param(b'{"links": []}', id="no memories"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_an_incomplete_export_file_changes_nothing(open_store: Open, tmp_path: Path, content: bytes) -> None:
    hold, file = open_store("hold"), tmp_path / "broken.json"
    file.write_bytes(content)
    with pytest.raises(Invalid):
        hold.import_file(file=str(file))
    assert hold.stats().changes == 0


def test_a_number_split_between_two_reads_is_parsed_whole(open_store: Open, tmp_path: Path) -> None:
    hold, file = open_store("hold"), tmp_path / "numbers.json"
    begin = '{"memories": [], "boards": ['
    file.write_text(begin + " " * (CHUNK_CHARS - len(begin) - 2) + "12345]}")
    assert hold.import_file(file=str(file)).kept == ["boards"]
    assert hold.export()["boards"] == [12345]


def test_a_refused_row_is_named_by_its_position_in_the_file(open_store: Open, tmp_path: Path) -> None:
    hold, file = open_store("hold"), tmp_path / "some.json"
    rows = [memory(), memory(id="m-2", content=" "), memory(id="m-3", title="Three")]
    odd = '{"id": "m-4", "title": "\\ud800", "content": "x"}'
    text = json.dumps({"memories": rows, "links": [], "boards": [1], "flag": {"a": 1}}).replace("}],", f"}}, {odd}],")
    file.write_text(text)
    answer = hold.import_file(file=str(file))
    assert [(one.array, one.index, one.code) for one in answer.errors] == [
        ("memories", 1, "VALIDATION_FAILED"),
        ("memories", 3, "VALIDATION_FAILED"),
    ]
    assert (answer.imported, answer.rejected, answer.kept) == (2, 2, ["boards", "flag"])
    assert (hold.export()["boards"], hold.export()["flag"]) == ([1], {"a": 1})

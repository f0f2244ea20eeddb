"""Reflection files: atomic, inside their folder, up to date, and lossless on import."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.features.transfer.reflections.files import file_path
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid, NotFound

Make = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def other(hold: holdfast.Holdfast, tmp_path: Path) -> Any:
    with holdfast.open(str(tmp_path / "other.db"), agent_id="ai:reader@there", now=hold.ctx.now) as opened:
        yield opened


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_reflection_is_a_file_below_its_namespace(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path
) -> None:
    a = observe("a")
    here, there = reflect("here", a, namespace="team"), reflect("there", a, namespace="team/b")
    done = hold.export_reflections(out_dir=str(folder))
    assert sorted(done.written) == sorted([f"team/{here}.md", f"team/b/{there}.md"])
    assert sorted(files(folder)) == sorted(done.written)
    text = (folder / f"team/{here}.md").read_text()
    assert text.startswith(f'---\nmemory_id: "{here}"\nnamespace: "team"\ntitle: "here"\nreflection_depth: 1\n')
    assert text.endswith("\n---\n\nhere follows.")
    assert a in text


def test_an_unchanged_reflection_is_not_written_again(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path
) -> None:
    so, other = reflect("so", a := observe("a")), reflect("other", a)
    hold.export_reflections(out_dir=str(folder))
    hold.recall(context="so follows")
    hold.update(other, content="Another thing follows.")
    again = hold.export_reflections(out_dir=str(folder))
    assert (again.written, again.unchanged) == ([f"global/{other}.md"], [f"global/{so}.md"])


def test_a_file_is_replaced_atomically(hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path) -> None:
    """An open file keeps its old content; leftovers of an interrupted export are removed."""
    so = reflect("so", observe("a"))
    hold.export_reflections(out_dir=str(folder))
    file = folder / "global" / f"{so}.md"
    before = file.read_bytes()
    (file.parent / f".{so}.md.1.holdfast-partial").write_bytes(before[:10])
    with file.open("rb") as reader:
        hold.update(so, content="Something quite different follows.")
        hold.export_reflections(out_dir=str(folder))
        assert reader.read() == before
    assert file.read_bytes() != before
    assert sorted(files(folder)) == [f"global/{so}.md"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_refused_export_creates_no_folder(hold: holdfast.Holdfast, folder: Path) -> None:
    with pytest.raises(Invalid):
        hold.export_reflections(out_dir=str(folder), namespace="no blanks")
    assert not folder.exists()


def test_files_of_reflections_no_longer_live_are_removed_and_others_stay(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path
) -> None:
    gone, away, moved, kept = (reflect(title, observe(f"for {title}")) for title in ("gone", "away", "moved", "kept"))
    hold.export_reflections(out_dir=str(folder))
    hold.delete(gone)
    hold.archive(ids=[away])
    hold.update(moved, namespace="elsewhere")
    foreign = (folder / f"global/{kept}.md").read_text().replace(kept, "unknown-here")
    (folder / "global/unknown-here.md").write_text(foreign)
    (folder / "notes.md").write_text("My own notes.")
    done = hold.export_reflections(out_dir=str(folder))
    assert sorted(done.removed) == sorted(f"global/{id}.md" for id in (gone, away, moved))
    assert sorted(done.left) == ["global/unknown-here.md", "notes.md"]
    assert sorted(files(folder)) == sorted([f"global/{kept}.md", f"elsewhere/{moved}.md", *done.left])


def test_a_symlink_among_the_files_is_left_and_reported_whatever_its_target(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path, tmp_path: Path
) -> None:
    so = reflect("so", observe("a"))
    hold.export_reflections(out_dir=str(folder))
    mine = tmp_path / "mine.md"
    mine.write_text("My own notes.")
    for name, target in (("notes.md", mine), ("copy.md", folder / f"global/{so}.md"), ("lost.md", tmp_path / "lost")):
        (folder / name).symlink_to(target)
    done = hold.export_reflections(out_dir=str(folder))
    assert (sorted(done.left), done.removed) == (["copy.md", "lost.md", "notes.md"], [])
    assert mine.read_text() == "My own notes."
    assert (folder / "notes.md").is_symlink()


def test_an_export_of_one_namespace_keeps_the_files_of_others(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path
) -> None:
    a = observe("a")
    one, two = reflect("one", a, namespace="one"), reflect("two", a, namespace="two")
    hold.export_reflections(out_dir=str(folder))
    hold.delete(one)
    hold.delete(two)
    assert hold.export_reflections(out_dir=str(folder), namespace="one").removed == [f"one/{one}.md"]
    assert sorted(files(folder)) == [f"two/{two}.md"]


@pytest.mark.parametrize("namespace", ["Team", "a:b", "команда", "x" * 300, "con.", "a/..b/c", "-"])
def test_every_namespace_has_its_own_path_in_the_folder(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path, namespace: str
) -> None:
    reflect("so", observe("a"), namespace=namespace)
    (name,) = hold.export_reflections(out_dir=str(folder)).written
    assert (folder / name).resolve().is_relative_to(folder.resolve())
    assert file_path(namespace, "a") != file_path(namespace.swapcase(), "a") or namespace == namespace.swapcase()


def test_an_export_follows_no_symlink_out_of_its_folder(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path, tmp_path: Path
) -> None:
    so = reflect("so", observe("a"), namespace="team")
    outside = tmp_path / "outside"
    outside.mkdir()
    folder.mkdir()
    (folder / "team").symlink_to(outside)
    with pytest.raises(Invalid):
        hold.export_reflections(out_dir=str(folder))
    assert list(outside.iterdir()) == []
    (folder / "team").unlink()
    (folder / "team").mkdir()
    (outside / "file").write_text("Mine.")
    (folder / "team" / f"{so}.md").symlink_to(outside / "file")
    hold.export_reflections(out_dir=str(folder))
    assert (outside / "file").read_text() == "Mine."


def test_only_visible_reflections_are_written(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path, seen_by: Callable[..., Any]
) -> None:
    a = observe("a")
    reflect("mine", a, scope="private")
    ours = reflect("ours", a)
    done = seen_by("ai:other@here").export_reflections(out_dir=str(folder))
    assert done.written == [f"global/{ours}.md"]


def test_paths_are_accepted_only_from_the_command_line_and_the_library(
    seen_by: Callable[..., Any], folder: Path
) -> None:
    with pytest.raises(Forbidden):
        seen_by("ai:other@here", source="api").export_reflections(out_dir=str(folder))
    with pytest.raises(Forbidden):
        seen_by("ai:other@here", source="api").import_reflections(path=str(folder))
    assert not folder.exists()


def test_imported_reflections_keep_their_sources(
    hold: holdfast.Holdfast, other: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path
) -> None:
    a = observe("a")
    second = reflect("second", first := reflect("first", a))
    hold.link(source_id=second, target_id=first, relation="contradicts")
    hold.export_reflections(out_dir=str(folder))
    done = other.import_reflections(path=str(folder))
    assert (done.files, done.imported, done.links, done.rejected, done.missing_sources) == (2, 2, 2, 0, [a])
    assert (other.get(second).reflection_depth, other.get(second).agent_id) == (2, "ai:tester@here")
    assert {(link.target_id, link.relation) for link in other.get_links(id=second).links} == {
        (first, "reflects_on"),
        (first, "contradicts"),
    }
    assert other.import_reflections(path=str(folder)).unchanged == 2


def test_a_source_arriving_later_is_linked_by_the_next_import(
    hold: holdfast.Holdfast, other: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path, tmp_path: Path
) -> None:
    so = reflect("so", a := observe("a"))
    hold.export_reflections(out_dir=str(folder))
    other.import_reflections(path=str(folder))
    plain = [row for row in hold.export()["memories"] if row["id"] == a]
    other.call("import", {"envelope": {"memories": plain}})
    assert other.import_reflections(path=str(folder)).links == 1
    assert [link.target_id for link in other.get_links(id=so).links] == [a]
    other.export_reflections(out_dir=str(tmp_path / "again"))
    assert files(tmp_path / "again").keys() == files(folder).keys()


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=60)
CONTENTS = st.one_of(
    TEXTS, st.sampled_from(["---\n", "\n\n---\nx: 1\n---", "a\r\nb\r", "\ufeffx", "[2026-01-02] Ann: Hi."])
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    contents=st.lists(CONTENTS.filter(str.strip), min_size=1, max_size=4),
    metadata=st.dictionaries(
        TEXTS, st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
    ),
    tags=st.lists(st.sampled_from(["x", "y", "ü", 'q"uote', "a: b", "#c", "- d"]), unique=True),
)
def test_a_round_trip_through_files_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, contents: list[str], metadata: dict[str, Any], tags: list[str]
) -> None:
    """An empty store that imports the files exports identical files."""
    place = tmp_path_factory.mktemp("way")
    with holdfast.open(str(place / "one.db")) as one, holdfast.open(str(place / "two.db")) as two:
        ground = one.store(title="ground", content="It is so.").id
        for number, content in enumerate(contents):
            try:
                made = one.reflect(
                    source_ids=[ground], title=f"t {number}", content=content, metadata=metadata, tags=tags, tier="long"
                )
            except HoldfastError:
                continue
            if made.reflection_depth < 3:
                ground = made.id
        one.export_reflections(out_dir=str(place / "first"))
        taken = two.import_reflections(path=str(place / "first"))
        assert taken.rejected == 0
        two.export_reflections(out_dir=str(place / "second"))
        assert files(place / "second") == files(place / "first")
        rows = {row["id"]: row for row in one.export()["memories"]}
        for row in two.export()["memories"]:
            row.pop("reflects_on_missing", None)
            assert row == rows[row["id"]]


def test_an_invalid_file_is_reported_and_the_others_are_imported(
    hold: holdfast.Holdfast, other: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path, tmp_path: Path
) -> None:
    so = reflect("so", observe("a"))
    hold.export_reflections(out_dir=str(folder))
    good = (folder / f"global/{so}.md").read_text()
    bad = {
        "a.md": "No fence.",
        "b.md": "---\ntitle: unquoted\n---\n\nx",
        "c.md": '---\ntitle: "no id"\n---\n\nx',
        "d.md": good.replace("reflection_depth: 1", "reflection_depth: -1").replace(so, "bad-depth"),
        "e.md": "---\nmemory_id: !!python/object/apply:os.system ['true']\n---\n",
        "f.md": '---\nmemory_id: "x"\nmemory_id: "y"\n---\n',
        "g.md": '---\nmemory_id: "x"\nreflects_on: {"a": 1}\n---\n\nx',
        "h.md": "---\nmemory_id: " + "[" * 100_000 + "\n---\n\nx",
        "i.md": "---\n" + "x" * (2 << 20),
    }
    for name, text in bad.items():
        (folder / name).write_text(text)
    (folder / "j.md").write_bytes(b"\xff\xfe")
    (folder / "k.md").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "l.md")
    (folder / "m.txt").write_text("Not looked at.")
    done = other.import_reflections(path=str(folder))
    assert sorted(fault.file for fault in done.errors) == sorted([*bad, "j.md", "k.md", "l.md"])
    assert (done.imported, done.rejected) == (1, len(bad) + 3)
    assert other.get(so).title == "so"


@pytest.mark.parametrize("told", [7, "x", [7], [{"target_id": 7}], [{}]])
def test_unreadable_sources_are_left_out(hold: holdfast.Holdfast, folder: Path, told: object) -> None:
    row = {"id": "m", "title": "m", "content": "x", "tier": "long", "memory_kind": "reflection", "reflection_depth": 1}
    hold.call("import", {"envelope": {"memories": [row | {"reflects_on_missing": told}]}})
    assert hold.export_reflections(out_dir=str(folder)).count == 1
    assert "reflects_on: []" in (folder / "global/m.md").read_text()


def test_a_dry_run_imports_nothing(
    hold: holdfast.Holdfast, other: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path
) -> None:
    so = reflect("so", observe("a"))
    hold.export_reflections(out_dir=str(folder))
    assert other.import_reflections(path=str(folder), dry_run=True).imported == 1
    with pytest.raises(NotFound):
        other.get(so)


def test_one_reflection_is_written_as_markdown_or_as_json(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, folder: Path
) -> None:
    so = reflect("so", a := observe("a"))
    hold.export_reflections(out_dir=str(folder))
    one = hold.export_reflection(memory_id=so)
    assert one.content == (folder / one.suggested_filename).read_text()
    as_json = hold.export_reflection(memory_id=so, format="json")
    assert as_json.suggested_filename == f"global/{so}.json"
    assert f'"target_id": "{a}"' in as_json.content


def test_only_a_reflection_can_be_exported_as_one(hold: holdfast.Holdfast, observe: Make) -> None:
    with pytest.raises(Invalid):
        hold.export_reflection(memory_id=observe("a"))


def test_an_invalid_folder_is_reported_as_the_field_out_dir(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(Invalid, match=r"out_dir: cannot create .*file: "):
        hold.export_reflections(out_dir=str(tmp_path / "file"))

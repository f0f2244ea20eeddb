"""Files of skills: only regular files, read as one snapshot, exported unchanged."""

import gzip
import io
import os
import socket
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.features.skills import file_contents
from holdfast.features.skills import files as skill_files
from holdfast.features.skills import folder as skill_folder
from holdfast.features.skills.files import Draft
from holdfast.features.skills.folder import read_archive
from holdfast.features.skills.model import MAX_BYTES, MAX_FILES, File, build_file
from holdfast.kernel.errors import Conflict, HoldfastError, Invalid, NotFound

TEXT = b"---\nname: deploy\ndescription: How we deploy.\n---\n# Deploy\n"


@pytest.fixture
def engine() -> str:
    """These tests use no store."""
    return "sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "deploy"
    (place / "scripts").mkdir(parents=True)
    (place / "SKILL.md").write_bytes(TEXT)
    (place / "scripts" / "run.sh").write_bytes(b"make\n")
    return place


WHOLE = {"SKILL.md": TEXT, "scripts/run.sh": b"make\n"}


# Reading a folder


def test_a_folder_is_read_completely(folder: Path) -> None:
    assert skill_folder.read_skill(folder) == Draft(WHOLE, "deploy")
    assert skill_folder.read_skill(folder / "SKILL.md") == Draft(WHOLE, "deploy")


LEFT_OUT = [
    ".DS_Store",
    "scripts/.DS_Store",
    "._SKILL.md",
    "scripts/._run.sh",
    "scripts/__pycache__/run.cpython-311.pyc",
    ".git/config",
    "__MACOSX/deploy/._SKILL.md",
]


def test_system_and_tool_files_in_a_folder_are_ignored(folder: Path) -> None:
    for path in LEFT_OUT:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"x")
    (folder / ".git" / "hook").symlink_to("/etc/passwd")
    (folder / ".gitignore").write_bytes(b"out\n")
    assert skill_folder.read_skill(folder) == Draft({**WHOLE, ".gitignore": b"out\n"}, "deploy")


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("above", ["", "deploy/"])
def test_system_and_tool_files_in_an_archive_are_ignored(kind: str, above: str) -> None:
    strange = {f"{above}{path}": b"x" for path in LEFT_OUT} | {"__MACOSX/._deploy": b"x", ".DS_Store": b"x"}
    files = strange | {f"{above}{path}": content for path, content in WHOLE.items()}
    packed = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(packed, "w") as archive:
            for path, content in files.items():
                archive.writestr(path, content)
    else:
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path, content in files.items():
                info = tarfile.TarInfo(path)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    assert read_archive(packed.getvalue()) == Draft(WHOLE, above.rstrip("/") or None)


def add_link(folder: Path) -> None:
    (folder / "passwd").symlink_to("/etc/passwd")


def add_folder_link(folder: Path) -> None:
    (folder / "etc").symlink_to("/etc")


def link_manifest(folder: Path) -> None:
    (folder / "SKILL.md").rename(folder.parent / "elsewhere.md")
    (folder / "SKILL.md").symlink_to(folder.parent / "elsewhere.md")


def add_hard_link(folder: Path) -> None:
    (folder.parent / "secret").write_text("x")
    os.link(folder.parent / "secret", folder / "secret")


def add_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def add_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind(str(folder / "plug"))


def add_device(folder: Path) -> None:
    try:
        os.mknod(folder / "null", 0o020666, os.makedev(1, 3))
    except PermissionError:  # only root can create devices; use a pipe instead
        os.mkfifo(folder / "null")


def add_colliding_names(folder: Path) -> None:
    (folder / "a.md").touch()
    (folder / "A.md").touch()


def add_unreadable_name(folder: Path) -> None:
    os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT))


def add_backslash(folder: Path) -> None:
    (folder / "..\\x").touch()


def add_too_many_files(folder: Path) -> None:
    for number in range(MAX_FILES):
        (folder / f"{number}").touch()


def add_huge_file(folder: Path) -> None:
    with (folder / "heavy").open("wb") as out:
        out.truncate(1 << 40)


def add_deep_folder(folder: Path) -> None:
    place = folder
    for _ in range(20):
        place = place / "a"
    place.mkdir(parents=True)
    (place / "x").touch()


BAD = [
    add_link,
    add_folder_link,
    link_manifest,
    add_hard_link,
    add_pipe,
    add_socket,
    add_device,
    add_colliding_names,
    add_unreadable_name,
]
BAD += [add_backslash, add_too_many_files, add_huge_file, add_deep_folder]


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__)
def test_anything_but_plain_files_is_refused(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder)
    with pytest.raises(Invalid) as error:
        skill_folder.read_skill(folder)
    assert error.value.details["fields"] == ["files"]


def test_a_file_changed_while_being_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.fstat
    seen: list[int] = []

    def fstat(handle: int) -> os.stat_result:
        was = read(handle)
        if was.st_size == len(TEXT):
            seen.append(handle)
            if len(seen) == 1:
                (folder / "SKILL.md").write_bytes(TEXT.replace(b"How", b"Why"))
        return was

    monkeypatch.setattr(os, "fstat", fstat)
    with pytest.raises(Conflict, match="changed while it was read"):
        skill_folder.read_skill(folder)


@pytest.mark.parametrize("what", ["changed", "added", "removed"])
def test_a_folder_changed_after_a_file_was_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    together = skill_files.validate_files

    def validate_then_change(files: object) -> skill_files.Files:
        found = together(files)  # type: ignore[arg-type]
        if what == "changed":
            (folder / "SKILL.md").write_bytes(TEXT)
        elif what == "added":
            (folder / "scripts" / "more.sh").touch()
        else:
            (folder / "scripts" / "run.sh").unlink()
        return found

    monkeypatch.setattr(skill_folder, "validate_files", validate_then_change)
    with pytest.raises(Conflict):
        skill_folder.read_skill(folder)


def test_a_path_without_a_skill_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        skill_folder.read_skill(tmp_path / "nowhere")
    with pytest.raises(Invalid):
        skill_folder.read_skill(folder / "scripts" / "run.sh")


# Reading an archive


def make_zip(files: dict[str, bytes], **more: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            info = zipfile.ZipInfo(path)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = more.get("mode", 0o100644) << 16
            archive.writestr(info, content)
    return out.getvalue()


def make_tar(files: dict[str, bytes], *more: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return out.getvalue()


PACKERS = [make_zip, make_tar]


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("before", ["", "./", "deploy/", "./deploy/"])
def test_an_archive_has_a_skill_in_its_root_or_in_one_folder(
    pack: Callable[[dict[str, bytes]], bytes], before: str, tmp_path: Path
) -> None:
    data = pack({before + path: content for path, content in WHOLE.items()})
    expected = Draft(WHOLE, "deploy" if "deploy" in before else None)
    assert read_archive(data) == expected
    file = tmp_path / ("x.zip" if pack is make_zip else "x.tar.gz")
    file.write_bytes(data)
    assert skill_folder.read_skill(file) == expected


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize(
    "files",
    [
        {"../SKILL.md": TEXT},
        {"SKILL.md": TEXT, "../../x": b""},
        {"SKILL.md": TEXT, "/etc/x": b""},
        {"SKILL.md": TEXT, "C:\\x": b""},
        {"SKILL.md": TEXT, "..\\x": b""},
        {"SKILL.md": TEXT, "a": b"", "A": b""},
        {"SKILL.md": TEXT, "a": b"", "a/b": b""},
        {"a/SKILL.md": TEXT, "b/x": b""},
        {"a/b/SKILL.md": TEXT},
        {"README.md": b""},
        {},
        {"SKILL.md": TEXT} | {f"{number}": b"" for number in range(MAX_FILES)},
        {"SKILL.md": TEXT, "zeros": bytes(MAX_BYTES + 1)},
        {"SKILL.md": TEXT} | {f"z{n}": bytes(MAX_BYTES // 2) for n in range(3)},
    ],
    ids=[
        "slip",
        "slip beside",
        "absolute",
        "drive",
        "backslash",
        "case",
        "file and folder",
        "two folders",
        "too deep",
        "no skill",
        "nothing",
        "crowd",
        "bomb",
        "bombs",
    ],
)
def test_a_harmful_archive_is_refused(pack: Callable[[dict[str, bytes]], bytes], files: dict[str, bytes]) -> None:
    with pytest.raises(Invalid):
        read_archive(pack(files))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, b"S"])
def test_a_tar_with_links_devices_or_holes_is_refused(kind: bytes) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.linkname = kind, "SKILL.md"
    with pytest.raises(Invalid):
        read_archive(make_tar(WHOLE, info))


def test_a_zip_with_links_is_refused() -> None:
    with pytest.raises(Invalid, match="link"):
        read_archive(make_zip(WHOLE, mode=0o120777))


def test_a_zip_with_a_file_twice_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("SKILL.md", TEXT)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("SKILL.md", TEXT)
    with pytest.raises(Invalid):
        read_archive(out.getvalue())


def test_a_zip_with_a_false_size_is_refused() -> None:
    data = bytearray(make_zip({"SKILL.md": TEXT, "zeros": bytes(1 << 20)}))
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    data[at + 24 : at + 28] = (10).to_bytes(4, "little")
    with pytest.raises(Invalid):
        read_archive(bytes(data))


def test_a_tar_with_an_endless_header_is_refused() -> None:
    info = tarfile.TarInfo("x" * 200)
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    with pytest.raises(Invalid):
        read_archive(gzip.compress(info.tobuf() + bytes(1 << 25)))


@pytest.mark.parametrize("data", [b"", b"PK", b"\x1f\x8b", b"hello", make_zip(WHOLE)[:-30], make_tar(WHOLE)[:-30]])
def test_a_file_that_is_not_an_archive_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        read_archive(data)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([make_zip(WHOLE), make_tar(WHOLE), gzip.compress(make_tar(WHOLE))]), st.data())
def test_a_damaged_archive_is_refused_or_read_without_crashing(data: bytes, more: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(more.draw(st.integers(1, 4))):
        damaged[more.draw(st.integers(0, len(data) - 1))] = more.draw(st.integers(0, 255))
    try:
        read_archive(bytes(damaged))
    except HoldfastError as error:
        assert isinstance(error, Invalid)  # noqa: PT017 - it may as well be read


# Writing a folder


def describe_files(files: dict[str, bytes]) -> set[File]:
    return {build_file(path, content) for path, content in files.items()}


def test_a_written_folder_replaces_the_previous_one(tmp_path: Path) -> None:
    target = tmp_path / "out" / "deploy"
    before = {**WHOLE, "old.md": b"stale"}
    skill_folder.write_folder(before, target)
    skill_folder.write_folder(WHOLE, target, describe_files(before))
    assert {str(path.relative_to(target)) for path in target.rglob("*")} == {"SKILL.md", "scripts", "scripts/run.sh"}
    assert [path.name for path in target.parent.iterdir()] == ["deploy"]


def test_a_folder_without_a_skill_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Conflict):
        skill_folder.write_folder(WHOLE, tmp_path)
    with pytest.raises(Conflict):
        skill_folder.write_folder(WHOLE, tmp_path / "notes.txt")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(Conflict):
        skill_folder.write_folder(WHOLE, tmp_path / "link")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("path", ["notes.md", ".git/config", "SKILL.md", "scripts/run.sh", "scripts/new.sh", "empty/"])
def test_a_folder_with_unknown_files_is_left_unchanged(tmp_path: Path, path: str) -> None:
    target = tmp_path / "deploy"
    skill_folder.write_folder(WHOLE, target)
    if path.endswith("/"):
        (target / path).mkdir()
    else:
        (target / path).parent.mkdir(exist_ok=True)
        (target / path).write_bytes(b"mine\n")
    before = {place: place.read_bytes() for place in target.rglob("*") if place.is_file()}
    with pytest.raises(Conflict, match=r"in no version of this skill.*Choose a new folder"):
        skill_folder.write_folder({"SKILL.md": TEXT}, target, describe_files(WHOLE))
    assert {place: place.read_bytes() for place in target.rglob("*") if place.is_file()} == before
    assert [place.name for place in tmp_path.iterdir()] == ["deploy"]


def test_an_empty_folder_is_written_into(tmp_path: Path) -> None:
    skill_folder.write_folder(WHOLE, tmp_path)
    assert (tmp_path / "SKILL.md").read_bytes() == TEXT


def test_a_file_added_during_a_replacement_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "deploy"
    skill_folder.write_folder(WHOLE, target)
    sync = os.fsync

    def busy(handle: int) -> None:
        (target / "notes.md").write_text("mine")
        sync(handle)

    monkeypatch.setattr(os, "fsync", busy)
    with pytest.raises(Conflict, match=r"notes\.md"):
        skill_folder.write_folder(WHOLE, target, describe_files(WHOLE))
    assert (target / "notes.md").read_text() == "mine"
    assert [place.name for place in tmp_path.iterdir()] == ["deploy"]


def test_a_failed_write_leaves_the_previous_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "deploy"
    skill_folder.write_folder(WHOLE, target)
    sync = os.fsync
    done: list[int] = []

    def full(handle: int) -> None:
        done.append(handle)
        if len(done) == 2:
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Invalid, match="No space"):
        skill_folder.write_folder({**WHOLE, "SKILL.md": TEXT + b"more"}, target, describe_files(WHOLE))
    assert (target / "SKILL.md").read_bytes() == TEXT
    assert [path.name for path in tmp_path.iterdir()] == ["deploy"]


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "a/../../x", "C:\\x"])
def test_nothing_is_written_outside_the_target(tmp_path: Path, path: str) -> None:
    with pytest.raises(Invalid):
        skill_folder.write_folder({**WHOLE, path: b"x"}, tmp_path / "deploy")
    assert not list(tmp_path.iterdir())


# Compression


@given(st.binary(max_size=2000))
def test_a_packed_archive_can_be_unpacked(content: bytes) -> None:
    assert file_contents.decompress(file_contents.compress(content), len(content)) == content


def test_a_decompression_bomb_is_not_unpacked() -> None:
    bomb = file_contents.compress(bytes(1 << 28))
    assert len(bomb) < 100_000
    with pytest.raises(Invalid):
        file_contents.decompress(bomb)
    with pytest.raises(Invalid):
        file_contents.decompress(bomb, 10)
    with pytest.raises(Invalid):
        file_contents.decompress(b"not zstd")

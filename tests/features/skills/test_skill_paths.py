"""Path rules for files of skills."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.skills import files as skill_files
from holdfast.features.skills.model import MAX_BYTES, MAX_FILES, MAX_MANIFEST_BYTES
from holdfast.kernel.errors import Invalid


@pytest.mark.parametrize(
    "path", ["SKILL.md", "scripts/run.sh", "references/a b.md", "assets/технический/図.png", ".hidden"]
)
def test_a_relative_path_is_accepted(path: str) -> None:
    assert skill_files.validate_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "../../x",
        "a/../../x",
        "a/./b",
        "a//b",
        "a/",
        "..",
        ".",
        "C:\\x",
        "C:x",
        "c:/x",
        "a\\..\\b",
        "\\\\host\\share",
        "a\x00b",
        "a\nb",
        "a\u202eb",
        "nul",
        "scripts/CON.txt",
        "com1",
        "a. ",
        "a.",
        " a",
        "file.txt:stream",
        "a*",
        "\ud800",
        "x" * 513,
        "/".join("a" * 17),
    ],
)
def test_a_path_out_of_the_skill_is_refused(path: str) -> None:
    with pytest.raises(Invalid) as error:
        skill_files.validate_path(path)
    assert error.value.details["fields"] == ["files"]


@pytest.mark.parametrize(
    "paths",
    [
        ["a.md", "A.md"],
        ["docs/a.md", "Docs/b.md"],
        ["é.md", "e\u0301.md"],
        ["straße.md", "STRASSE.md"],
        ["a", "a/b"],
        ["a", "a"],
        ["SKILL.md", "skill.md"],
    ],
)
def test_paths_that_collide_on_some_file_system_are_refused(paths: list[str]) -> None:
    with pytest.raises(Invalid):
        skill_files.reject_collisions(paths)


def test_paths_distinct_on_every_file_system_coexist() -> None:
    skill_files.reject_collisions(["SKILL.md", "scripts/a.sh", "scripts/b.sh", "references/a.sh"])


@pytest.mark.parametrize(
    "fitting",
    [
        ("a", 1, MAX_FILES + 1, 1),
        ("a", 1, 1, MAX_BYTES + 1),
        ("SKILL.md", MAX_MANIFEST_BYTES + 1, 1, MAX_MANIFEST_BYTES + 1),
    ],
    ids=["too many", "too much", "too long a SKILL.md"],
)
def test_a_skill_has_size_limits(fitting: tuple[str, int, int, int]) -> None:
    with pytest.raises(Invalid):
        skill_files.check_limits(*fitting)
    skill_files.check_limits("a", MAX_MANIFEST_BYTES + 1, MAX_FILES, MAX_BYTES)


@given(st.text(min_size=1, max_size=30))
def test_an_accepted_path_never_leaves_the_folder(path: str) -> None:
    try:
        skill_files.validate_path(path)
    except Invalid:
        return
    assert not path.startswith(("/", "\\"))
    assert ".." not in path.replace("\\", "/").split("/")
    assert ":" not in path

"""The project of a folder, tested on real git repositories."""

import os
import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.features.agent_hosts.projects import identify_folder
from holdfast.kernel.errors import Conflict, Invalid, NotFound

APP = "projects/github.com/ann/app"


def git(*words: str, at: Path) -> None:
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    said = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=m",
    )
    subprocess.run(["git", *said, *words], cwd=at, check=True, capture_output=True, env=quiet)


def repository(at: Path, remote: str | None = "git@github.com:ann/app.git") -> Path:
    at.mkdir(parents=True)
    git("init", "-q", at=at)
    git("commit", "-q", "--allow-empty", "-m", "x", at=at)
    if remote:
        git("remote", "add", "origin", remote, at=at)
    return at


def test_a_clone_is_identified_by_its_remote_wherever_it_is(tmp_path: Path) -> None:
    first = repository(tmp_path / "here")
    (first / "src" / "deep").mkdir(parents=True)
    deep = identify_folder(first / "src" / "deep")
    assert (deep.namespace, deep.by) == (APP, "remote")
    moved = first.rename(tmp_path / "renamed")
    second = repository(tmp_path / "there", "https://tok@github.com/ann/app")
    assert identify_folder(moved).namespace == identify_folder(second).namespace == APP


def test_worktrees_share_a_project_and_submodules_have_their_own(tmp_path: Path) -> None:
    main, library = repository(tmp_path / "main"), repository(tmp_path / "library", None)
    git("worktree", "add", "-q", str(tmp_path / "tree"), at=main)
    assert identify_folder(tmp_path / "tree").namespace == APP
    git("submodule", "--quiet", "add", str(library), "vendored", at=main)
    (main / ".holdfast.toml").write_text('namespace = "team/main"\n')
    vendored = identify_folder(main / "vendored")
    assert (vendored.by, vendored.namespace) == ("remote", identify_folder(library).namespace)
    assert "submodule" in vendored.why[0]
    assert identify_folder(main).namespace == "team/main"


def test_without_a_remote_the_repository_path_identifies_the_project(tmp_path: Path) -> None:
    alone = repository(tmp_path / "alone", None)
    git("worktree", "add", "-q", str(tmp_path / "tree"), at=alone)
    found = identify_folder(alone)
    assert (found.by, found.namespace) == ("repository", identify_folder(tmp_path / "tree").namespace)
    assert found.namespace.startswith("projects/git/alone-")
    git("clone", "-q", "--bare", str(alone), str(tmp_path / "copy.git"), at=tmp_path)
    assert identify_folder(tmp_path / "copy.git").namespace == found.namespace  # its origin is the other


def test_a_folder_without_git_is_its_own_project(tmp_path: Path) -> None:
    (tmp_path / "notes" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "notes")
    notes = identify_folder(tmp_path / "notes")
    assert notes.by == "folder"
    assert (
        identify_folder(tmp_path / "link").namespace
        == notes.namespace
        != identify_folder(tmp_path / "notes" / "inner").namespace
    )
    with pytest.raises(NotFound):
        identify_folder(tmp_path / "nowhere")


def test_folders_of_a_monorepo_are_separated_by_project_files(tmp_path: Path) -> None:
    mono = repository(tmp_path / "mono")
    (mono / "api" / "src").mkdir(parents=True)
    (mono / "api" / ".holdfast.toml").write_text('below = "api"\nbudget = 700\n')
    found = identify_folder(mono / "api" / "src")
    assert (found.namespace, found.by, found.budget) == (f"{APP}/api", "override", 700)
    assert identify_folder(mono).namespace == APP


def test_without_git_a_project_file_in_a_parent_folder_applies(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".holdfast.toml").write_text('\ufeffnamespace = "team/notes"\r\n')
    assert identify_folder(tmp_path / "a" / "b").namespace == "team/notes"


@pytest.mark.parametrize("text", ["db = '/x'", "namespace = ", "namespace = 'users/ann'", "x = 1\n" * 2000, "\x00"])
def test_an_invalid_project_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / ".holdfast.toml").write_text(text)
    with pytest.raises(Invalid, match=r"\.holdfast\.toml"):
        identify_folder(tmp_path)


def test_a_world_writable_project_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / ".holdfast.toml"
    file.write_text('namespace = "team/other"')
    file.chmod(0o666)
    found = identify_folder(tmp_path)
    assert (found.by, "not read" in found.why[-1]) == ("folder", True)


def test_corrupt_git_files_count_as_missing(tmp_path: Path) -> None:
    for name, text in (("a", "gitdir: nowhere"), ("b", "\x00" * 100), ("c", "gitdir: " + "x" * 5000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".git").write_text(text)
        assert identify_folder(tmp_path / name).by == "folder"
    os.mkfifo(tmp_path / "a" / ".holdfast.toml", 0o600)
    with pytest.raises(Invalid):
        identify_folder(tmp_path / "a")
    odd = repository(tmp_path / "odd")
    (odd / ".git" / "config").write_bytes(b'[remote "origin"\n\xff url = ' + b"x" * 100)
    assert identify_folder(odd).by == "repository"


def test_dangling_git_files_are_reported(tmp_path: Path) -> None:
    git("worktree", "add", "-q", str(tmp_path / "tree"), at=repository(tmp_path / "main"))
    moved = (tmp_path / "main").rename(tmp_path / "moved")
    (tmp_path / "tree" / "src").mkdir()
    for folder in (tmp_path / "tree", tmp_path / "tree" / "src"):
        found = identify_folder(folder)
        assert (found.by, found.why) == (
            "folder",
            [
                f"{tmp_path}/tree/.git points to {tmp_path}/main/.git/worktrees/tree, which does not exist: "
                "if that was moved, run `git worktree repair` in its repository",
                f"{folder} counts as a folder without git until then: identified by its path",
            ],
        )
    git("worktree", "repair", at=moved)
    assert identify_folder(tmp_path / "tree").namespace == APP
    inner = repository(moved / "inner")
    (inner / ".git" / "HEAD").unlink()
    found = identify_folder(inner)
    assert (found.namespace, found.root) == (APP, str(moved))
    assert found.why[0] == f"{inner}/.git has no HEAD, so it is not a repository: repair it or clone again"
    assert "is not under git" not in " ".join(found.why)
    (inner / ".git" / "HEAD").parent.rename(inner / "gone")
    (inner / ".git").write_text("gitdir: a\0b")
    assert "does not point to a repository" in identify_folder(inner).why[0]


def test_merged_projects_are_one_everywhere_until_unmerged(clocked_store: holdfast.Holdfast, tmp_path: Path) -> None:
    old, new = repository(tmp_path / "old"), repository(tmp_path / "new", "git@example.org:team/app.git")
    assert clocked_store.project_which(path=str(new)).names == ["projects/example.org/team/app"]
    clocked_store.store(title="Port", content="It listens on 8080.", namespace=APP)
    merged = clocked_store.project_merge("projects/example.org/team/app", APP)
    assert merged.names == ["projects/example.org/team/app", APP]
    assert clocked_store.project_which(path=str(old)).namespace == "projects/example.org/team/app"
    assert "8080" in clocked_store.boot(namespace="projects/example.org/team/app").text
    assert "8080" in clocked_store.boot(namespace=APP).text
    assert [(one.alias, one.project) for one in clocked_store.project_list().merged] == [
        (APP, "projects/example.org/team/app")
    ]
    with pytest.raises(Conflict):
        clocked_store.project_merge("projects/third", APP)
    clocked_store.project_split(APP)
    assert clocked_store.project_which(path=str(old)).namespace == APP
    assert "8080" not in clocked_store.boot(namespace="projects/example.org/team/app").text
    with pytest.raises(NotFound, match="was not merged"):
        clocked_store.project_split(APP)

"""Namespaces of projects from remotes, and validation of override files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.agent_hosts.project_naming import (
    MAX_NAMESPACE,
    Override,
    choose_remote,
    folder_namespace,
    parse_remote,
    parse_remotes,
    remote_namespace,
    validate_override,
)
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate

SAME = (
    "git@github.com:Ann/App.git",
    "github.com:ann/app",
    "ssh://git@github.com:2222/ann/app.git",
    "https://github.com/ann/app",
    "https://ann:s3cret@GitHub.com/Ann/App.git/",
    "git://github.com./ann/app.git",
    "git+ssh://git@github.com/ann/app",
)


@pytest.mark.parametrize("url", SAME)
def test_every_spelling_of_a_remote_is_the_same_project(url: str) -> None:
    found = parse_remote(url)
    assert found is not None
    assert remote_namespace(found) == "projects/github.com/ann/app"


@pytest.mark.parametrize("url", ["", "https://", "https://host/", "ssh://[::1", "a\nb:c/d", ":x"])
def test_a_url_without_a_repository_is_not_a_remote(url: str) -> None:
    assert parse_remote(url) is None or parse_remote(url) == ("", ":x")


@given(st.text(max_size=300))
def test_every_remote_maps_to_a_valid_namespace(url: str) -> None:
    if (found := parse_remote(url)) is not None:
        name = remote_namespace(found)
        assert validate.namespace(name) == name
        validate.require_storable(name)
        assert len(name) <= MAX_NAMESPACE


def test_deep_groups_are_shortened_to_distinct_names() -> None:
    one, other = (parse_remote(f"https://gitlab.com/a/b/c/d/{rest}/g") for rest in ("e/f", "e-f/x"))
    assert one
    assert other
    assert remote_namespace(one).startswith("projects/gitlab.com/a/b/c/d/e-f-g-")
    assert remote_namespace(one) != remote_namespace(other)


def test_folders_with_the_same_name_get_different_namespaces() -> None:
    assert folder_namespace("folder", "/a/notes") != folder_namespace("folder", "/b/notes")


def test_remotes_are_parsed_as_git_writes_them() -> None:
    config = (
        '[core]\n\tbare = false\n[remote "up\\"stream"]\n\turl = "https://h/a;b" ; why\n\turl = second\n'
        '[Remote "fork"] URL=git@h:c/d.git # x\n[branch "main"]\n\turl = no\n'
    )
    assert parse_remotes(config) == {'up"stream': "https://h/a;b", "fork": "git@h:c/d.git"}


def test_the_origin_remote_takes_precedence() -> None:
    found = choose_remote({"aaa": "hub:a/a", "upstream": "hub:u/u", "origin": "hub:o/o"})
    assert found == ("origin", ("hub", "o/o"))
    assert choose_remote({"zzz": "hub:z/z", "bbb": "hub:b/b"}) == ("bbb", ("hub", "b/b"))
    assert choose_remote({}) is None


def test_a_project_file_sets_a_namespace_or_a_subpath_and_a_budget() -> None:
    assert validate_override({"namespace": "team/shop", "budget": 800}, "f") == Override("team/shop", None, 800)
    assert validate_override({"below": "api"}, "f") == Override(None, "api", None)


@pytest.mark.parametrize(
    "given",
    [
        {"db": "/tmp/other.db"},
        {"command": "rm"},
        {"namespace": "a", "api_key": "k"},
        {"namespace": "users/ann"},
        {"namespace": "people/ann"},
        {"namespace": "a/../b"},
        {"namespace": "a b"},
        {"namespace": "x" * 200},
        {"namespace": 7},
        {"namespace": "a/_invalidations"},
        {"below": "../other"},
        {"below": "a", "namespace": "b"},
        {"budget": 10**9},
        {"budget": True},
        {"budget": "800"},
        [],
    ],
)
def test_a_project_file_with_unknown_fields_is_refused(given: object) -> None:
    with pytest.raises(Invalid):
        validate_override(given, ".holdfast.toml")

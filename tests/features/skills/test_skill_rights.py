"""Who may register and see skills."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skill_samples import TEXT, confine, skill_text

import holdfast
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, Invalid, NotFound


def test_registering_requires_a_key_with_access_to_the_namespace(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    for asked in ({"namespace": "team"}, {"namespace": "team/x"}):
        confine(seen_by, "team").skill_register(inline_skill=skill_text(str(asked)), **asked)
    with pytest.raises(Forbidden):
        confine(seen_by, "home").skill_register(inline_skill=TEXT, namespace="team")
    with pytest.raises(Forbidden):
        confine(seen_by, "home").skill_register(inline_skill=skill_text("x", more="namespace: team\n"))
    with pytest.raises(Forbidden):
        confine(seen_by, "team", right="read").skill_register(inline_skill=TEXT, namespace="team")


def test_a_key_sees_only_the_skills_of_its_namespaces(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    hidden = clocked_store.skill_register(inline_skill=TEXT, namespace="team")
    clocked_store.skill_register(inline_skill=skill_text("x", name="cook"), namespace="home")
    other = confine(seen_by, "home")
    assert [one.name for one in other.skill_list().skills] == ["cook"]
    assert (other.skill_list().total, other.skill_list(query="how we deploy").total) == (1, 1)
    for refused in (
        lambda: other.skill_get(hidden.id),
        lambda: other.skill_get("team/deploy"),
        lambda: other.skill_get("deploy"),
        lambda: other.skill_resource(hidden.id, "SKILL.md"),
        lambda: other.skill_export(hidden.id),
        lambda: other.skill_history(hidden.id),
        lambda: other.skill_rollback(hidden.id),
        lambda: other.skill_delete(hidden.id),
        lambda: other.skill_compositional_context(hidden.id),
    ):
        with pytest.raises(NotFound):
            refused()
    told = {change.kind for change in other.events(after=0, limit=100).events}
    assert all("team" not in str(change.memory) for change in other.events(after=0, limit=100).events)
    assert told == {"skill", "skill_version"}


def test_paths_are_accepted_only_locally(clocked_store: holdfast.Holdfast, tmp_path: Path) -> None:
    remote = Caller("ai:other@here", source="http")
    made = clocked_store.skill_register(inline_skill=TEXT)
    for name, asked in (
        ("skill_register", {"folder_path": str(tmp_path)}),
        ("skill_export", {"skill_id": made.id, "target_folder": str(tmp_path / "out")}),
    ):
        with pytest.raises(Invalid, match="paths are only for"):
            clocked_store.call(name, asked, caller=remote)
    assert not (tmp_path / "out").exists()

"""A valid reflection can be promoted to a skill, which turns stale when the reflection becomes invalid."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skill_samples import skill_text

import holdfast
from holdfast.kernel.errors import Conflict, Forbidden, Invalid
from holdfast.kernel.timestamps import format_timestamp


def store_observation(ctx: Any, title: str, **more: Any) -> str:
    return str(ctx.store(title=title, content=f"{title} happened.", namespace="team", tier="long", **more).id)


def store_reflection(ctx: Any, sources: list[str], title: str = "We deploy too late", **more: Any) -> str:
    return str(ctx.reflect(source_ids=sources, title=title, content="Deploy before noon.", tier="long", **more).id)


def test_a_reflection_becomes_a_skill_with_its_sources(hold: holdfast.Holdfast) -> None:
    sources = sorted(store_observation(hold, title) for title in ("A late deploy", "Another late deploy"))
    reflection = store_reflection(hold, sources)
    made = hold.skill_promote_from_reflection(
        reflection, "deploy-early", 'Say "when" --- and how: yes', parameters_schema={"type": "object"}
    )
    assert (made.promoted, made.namespace, made.sources_attached, made.sources_left_out) == (True, "team", 2, 0)
    got = hold.skill_get(made.skill_id)
    assert got.description == 'Say "when" --- and how: yes'
    assert got.frontmatter["metadata"] == {"derived_from_reflection_id": reflection, "original_reflection_depth": "1"}
    assert "Deploy before noon." in got.body
    assert '{"type":"object"}' in got.body
    assert "happened." in hold.skill_resource(made.skill_id, "references/source_1.md").content
    assert not hold.skill_promote_from_reflection(
        reflection, "deploy-early", 'Say "when" --- and how: yes', parameters_schema={"type": "object"}
    ).promoted


def test_a_promoted_skill_is_valid_everywhere(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    from skills_ref import validate

    reflection = store_reflection(hold, [store_observation(hold, "Seen --- once")])
    made = hold.skill_promote_from_reflection(reflection, "early", "a --- b: 'c' \"d\" # e\\ \u2028 ü")
    hold.skill_export(made.skill_id, str(tmp_path / "early"))
    assert validate(tmp_path / "early") == []


def test_only_a_deep_enough_reflection_becomes_a_skill(hold: holdfast.Holdfast) -> None:
    source = store_observation(hold, "A late deploy")
    shallow = store_reflection(hold, [source])
    hold.policy_set(namespace="team", skill_promotion_min_depth=2)
    with pytest.raises(Conflict, match="depth 2"):
        hold.skill_promote_from_reflection(shallow, "early", "How.")
    deep = store_reflection(hold, [shallow], "Always too late")
    assert hold.skill_promote_from_reflection(deep, "early", "How.").original_reflection_depth == 2
    with pytest.raises(Invalid, match="not a reflection"):
        hold.skill_promote_from_reflection(source, "early", "How.")
    with pytest.raises(Invalid, match="name"):
        hold.skill_promote_from_reflection(deep, "Too Early", "How.")


def test_a_private_memory_is_never_part_of_a_skill(hold: holdfast.Holdfast) -> None:
    secret = store_observation(hold, "A secret", scope="private")
    shared = store_observation(hold, "A late deploy")
    with pytest.raises(Forbidden):
        hold.skill_promote_from_reflection(store_reflection(hold, [secret], "Mine", scope="private"), "early", "How.")
    made = hold.skill_promote_from_reflection(
        store_reflection(hold, [secret, shared], "Ours", scope="collective"), "early", "How."
    )
    assert (made.sources_attached, made.sources_left_out) == (1, 1)
    whole = hold.skill_export(made.skill_id)
    assert all("secret" not in str(file.content) for file in whole.files)


def invalidate(ctx: Any, clock: Any, how: str, reflection: str, source: str) -> str:
    """Invalidate a reflection; return the expected reason."""
    if how == "superseded":
        newer = store_reflection(ctx, [store_observation(ctx, "Newer")], "It is fine now")
        ctx.link(source_id=newer, target_id=reflection, relation="supersedes")
    elif how == "stale":
        ctx.link(source_id=store_observation(ctx, "What really was"), target_id=source, relation="supersedes")
    elif how == "ended":
        ctx.update(id=reflection, valid_until=format_timestamp(clock()))
    else:
        ctx.delete(id=reflection)
    clock.move(hours=1)
    return how


@pytest.mark.parametrize("how", ["superseded", "stale", "ended"])
def test_an_invalid_reflection_cannot_become_a_skill(clocked_store: holdfast.Holdfast, clock: Any, how: str) -> None:
    source = store_observation(clocked_store, "A late deploy")
    reflection = store_reflection(clocked_store, [source])
    invalidate(clocked_store, clock, how, reflection, source)
    with pytest.raises(Conflict, match=rf"not valid now \({how}\)"):
        clocked_store.skill_promote_from_reflection(reflection, "early", "How.")
    assert clocked_store.skill_list().total == 0


@pytest.mark.parametrize("how", ["superseded", "stale", "ended", "gone"])
def test_a_skill_reports_that_its_reflection_became_stale(
    clocked_store: holdfast.Holdfast, clock: Any, how: str
) -> None:
    source = store_observation(clocked_store, "A late deploy")
    reflection = store_reflection(clocked_store, [source])
    id = clocked_store.skill_promote_from_reflection(reflection, "early", "How.").skill_id

    def read_staleness() -> list[Any]:
        return [
            clocked_store.skill_get(id).stale,
            clocked_store.skill_compositional_context(id).stale,
            clocked_store.skill_list().skills[0].stale,
        ]

    assert read_staleness() == [None] * 3
    invalidate(clocked_store, clock, how, reflection, source)
    assert [(one.reason, one.reflection_id) for one in read_staleness()] == [(how, reflection)] * 3


def test_a_skill_reveals_nothing_of_an_invisible_reflection(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    there = store_reflection(clocked_store, [store_observation(clocked_store, "A late deploy")])
    confined = seen_by("ai:stranger@here", namespaces=("home",))
    for number, reflection in enumerate((there, "0" * 32)):
        more = f"metadata:\n  derived_from_reflection_id: '{reflection}'\n"
        made = confined.skill_register(
            inline_skill=skill_text("x", name=f"probe-{number}", more=more), namespace="home"
        )
        told = confined.skill_get(made.id).stale
        assert (told.reason, told.reflection_id) == ("gone", None)

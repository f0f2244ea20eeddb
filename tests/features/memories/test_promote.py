"""Promotion to a parent namespace."""

from typing import Any

import pytest

from holdfast.kernel.errors import Invalid, TitleTaken


def test_a_memory_is_copied_to_a_namespace_above_and_linked_to_where_it_came_from(ctx: Any) -> None:
    memory = ctx.store("Rule", "Be kind.", namespace="team/project", tags=["x"])
    copy = ctx.promote(memory.id, to_namespace="team")
    assert (copy.mode, copy.namespace, copy.content, copy.tags, copy.version) == (
        "vertical",
        "team",
        "Be kind.",
        ("x",),
        1,
    )
    links = [(link.source_id, link.relation, link.target_id) for link in ctx.get_links(memory.id).links]
    assert links == [(copy.id, "derived_from", memory.id)]
    assert ctx.get(memory.id).namespace == "team/project"


@pytest.mark.parametrize("namespace", ["team/project", "team/project/below", "elsewhere", "tea"])
def test_only_a_namespace_above_will_do(ctx: Any, namespace: str) -> None:
    memory = ctx.store("Rule", "Be kind.", namespace="team/project")
    with pytest.raises(Invalid):
        ctx.promote(memory.id, to_namespace=namespace)
    assert ctx.list().count == 1


def test_a_title_taken_in_the_parent_namespace_is_not_overwritten(ctx: Any) -> None:
    ctx.store("Rule", "Ours.", namespace="team")
    memory = ctx.store("Rule", "Theirs.", namespace="team/project")
    with pytest.raises(TitleTaken):
        ctx.promote(memory.id, to_namespace="team")
    assert ctx.list(namespace="team").memories[0].content == "Ours."

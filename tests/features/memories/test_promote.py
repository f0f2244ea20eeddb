"""Promotion to a parent namespace."""

from typing import Any

import pytest

from holdfast.kernel.errors import Invalid, TitleTaken


def test_a_memory_is_copied_to_a_parent_namespace_and_linked_to_its_source(hold: Any) -> None:
    memory = hold.store("Rule", "Be kind.", namespace="team/project", tags=["x"])
    copy = hold.promote(memory.id, to_namespace="team")
    assert (copy.mode, copy.namespace, copy.content, copy.tags, copy.version) == (
        "vertical",
        "team",
        "Be kind.",
        ("x",),
        1,
    )
    links = [(link.source_id, link.relation, link.target_id) for link in hold.get_links(memory.id).links]
    assert links == [(copy.id, "derived_from", memory.id)]
    assert hold.get(memory.id).namespace == "team/project"


@pytest.mark.parametrize("namespace", ["team/project", "team/project/below", "elsewhere", "tea"])
def test_only_a_parent_namespace_is_accepted(hold: Any, namespace: str) -> None:
    memory = hold.store("Rule", "Be kind.", namespace="team/project")
    with pytest.raises(Invalid):
        hold.promote(memory.id, to_namespace=namespace)
    assert hold.list().count == 1


def test_a_title_taken_in_the_parent_namespace_is_not_overwritten(hold: Any) -> None:
    hold.store("Rule", "Ours.", namespace="team")
    memory = hold.store("Rule", "Theirs.", namespace="team/project")
    with pytest.raises(TitleTaken):
        hold.promote(memory.id, to_namespace="team")
    assert hold.list(namespace="team").memories[0].content == "Ours."

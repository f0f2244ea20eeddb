"""Skills are found by query, by namespace, and by id or name."""

import pytest
from skill_samples import TEXT, skill_text

import holdfast
from holdfast.kernel.errors import AmbiguousId, NotFound


def test_a_query_ranks_skills_by_relevance(hold: holdfast.Holdfast) -> None:
    for name, about in (
        ("release-notes", "Writes the notes of a release."),
        ("deploy", "Deploys the web application to production, and rolls it back."),
        ("cook", "Cooks soup for the whole team."),
    ):
        hold.skill_register(inline_skill=skill_text("x", name=name, description=about))
    assert [one.name for one in hold.skill_list(query="rolling back a production deploy").skills] == ["deploy"]
    assert [one.name for one in hold.skill_list(query="RELEASES").skills] == ["release-notes"]
    found = hold.skill_list(query="nothing of the kind")
    assert (found.count, found.total) == (0, 3)
    assert [one.name for one in hold.skill_list().skills] == ["cook", "deploy", "release-notes"]


def test_a_list_covers_a_namespace_and_its_children(hold: holdfast.Holdfast) -> None:
    for namespace in ("team", "team/ops", "teams"):
        hold.skill_register(inline_skill=TEXT, namespace=namespace)
    assert {one.namespace for one in hold.skill_list(namespace="team").skills} == {"team", "team/ops"}
    assert hold.skill_list(namespace="team", limit=1).count == 1


def test_a_skill_is_found_by_id_prefix_or_name(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, namespace="team/ops")
    for id in (made.id, made.id[:10], "team/ops/deploy", "deploy"):
        assert hold.skill_get(id).id == made.id
    hold.skill_register(inline_skill=TEXT, namespace="home")
    with pytest.raises(AmbiguousId):
        hold.skill_get("deploy")
    with pytest.raises(NotFound):
        hold.skill_get("team/deploy")
    with pytest.raises(NotFound):
        hold.skill_resource(made.id, "scripts/none.sh")

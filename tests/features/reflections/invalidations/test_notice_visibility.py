"""The owner of a dependent is notified; nobody learns of memories that they may not see."""

from typing import Any

from ways_to_invalidate import Remember

import holdfast


def test_the_owner_of_a_dependent_does_not_see_the_id_of_a_private_source(
    clocked_store: holdfast.Holdfast, seen_by: Any
) -> None:
    owner, other = seen_by("ai:owner@here"), seen_by("ai:other@here")
    given = {"tier": "long", "namespace": "team"}
    secret = owner.store(title="secret", content="said in private", scope="private", **given).id
    heir = owner.store(title="newer secret", content="said in private too", scope="private", **given).id
    owner.grant(secret, agent_id="ai:other@here", permission="read")
    near = other.store(title="near", content="drawn from it", **given).id
    other.link(near, secret, relation="derived_from")
    owner.revoke(secret, agent_id="ai:other@here")
    assert owner.link(heir, secret, relation="supersedes").invalidation_notified == [near]
    (one,) = other.invalidations().invalidations
    assert (one.dependent_id, one.cause, one.agent_id) == (near, "superseded", "ai:other@here")
    answers = [
        other.invalidations(),
        other.get(near),
        other.recall(context="drawn"),
        other.context(query="drawn"),
        other.list(namespace="team/_invalidations"),
        other.invalidations_resolve(ids=[one.id]),
        other.events(limit=1000),
        other.dependents(near),
    ]
    for answer in answers:
        assert secret not in str(answer)
        assert heir not in str(answer)
    heard = [change.record for change in other.events(limit=1000).events if change.kind == "invalidation"]
    assert heard == [one.id, one.id]
    (mine,) = owner.invalidations(status=["resolved"]).invalidations
    assert (mine.invalidated_id, mine.invalidating_id) == (secret, heir)


def test_the_causer_does_not_see_private_dependents(clocked_store: holdfast.Holdfast, seen_by: Any) -> None:
    owner, other = seen_by("ai:owner@here"), seen_by("ai:other@here")
    ground = other.store(title="ground", content="for all", tier="long").id
    hidden = owner.store(title="hidden", content="for me", tier="long", scope="private").id
    owner.link(hidden, ground, relation="derived_from")
    assert other.delete(ground).invalidation_notified is None
    assert other.invalidations().invalidations == []
    assert other.dependents(ground).dependents == []
    (one,) = owner.invalidations().invalidations
    assert one.dependent_id == hidden
    (refused,) = other.invalidations_dismiss(ids=[one.id]).outcomes
    assert (refused.outcome, refused.code) == ("rejected", "NOT_FOUND")


def test_resolving_a_notice_requires_write_access_to_the_dependent(
    clocked_store: holdfast.Holdfast, seen_by: Any
) -> None:
    owner, other = seen_by("ai:owner@here"), seen_by("ai:other@here")
    ground = owner.store(title="ground", content="for all", tier="long").id
    hidden = owner.store(title="hidden", content="for me", tier="long", scope="private").id
    owner.link(hidden, ground, relation="derived_from")
    owner.grant(hidden, agent_id="ai:other@here", permission="read")
    owner.delete(ground)
    (one,) = other.invalidations().invalidations
    (refused,) = other.invalidations_resolve(ids=[one.id]).outcomes
    assert (refused.outcome, refused.code) == ("rejected", "FORBIDDEN")


def test_a_namespace_key_sees_only_notices_of_its_namespace(
    clocked_store: holdfast.Holdfast, remember: Remember, seen_by: Any
) -> None:
    ground = remember("ground", namespace="elsewhere")
    near = remember("near", ground, namespace="team/a")
    remember("far", near, namespace="other")
    clocked_store.delete(ground)
    (one,) = seen_by("ai:key@here", namespaces=("team",)).invalidations().invalidations
    assert (one.dependent_id, one.invalidated_id) == (near, None)

"""Stores for exports and imports, one of them with records of every kind."""

from pathlib import Path

import pytest
from envelopes import Clock, Open

import holdfast
from holdfast.features.recall import flush_access
from holdfast.kernel.timestamps import DAY


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_store(tmp_path: Path, clock: Clock) -> Open:
    def make(name: str, agent_id: str = "ai:tester@here") -> holdfast.Holdfast:
        return holdfast.open(str(tmp_path / f"{name}.db"), agent_id=agent_id, now=clock)

    return make


@pytest.fixture
def rich(open_store: Open, clock: Clock) -> holdfast.Holdfast:
    """A store with records of every kind."""
    hold = open_store("rich")
    short = hold.store(title="Standup", content="At nine.", tier="short", namespace="team/a")
    deploy = hold.store(
        title="Deploy day",
        content="[2026-01-02 10:00] Ann: We deploy on Tuesdays.",
        namespace="team/a",
        tags=["ops", "b"],
        metadata={"z": {"b": [1, 2.5, None], "a": "ü"}, "a": True},
        priority=9,
        confidence=0.25,
        kind="decision",
        citations=[{"uri": "uri:wiki", "accessed_at": "2026-01-01T00:00:00Z", "hash": "a" * 64}],
        source_uri="doc:handbook",
        source_span={"start": 1, "end": 9},
        valid_from="2026-01-01",
        category="learning",
    )
    secret = hold.store(title="Secret", content="Only mine.", scope="private", tier="long")
    hold.store(title="Theirs", content="Not mine.", scope="private", agent_id="ai:other@here", thread="t", place=3)
    hold.update(deploy.id, content="We deploy on Wednesdays.", expires_at=None)
    hold.link(source_id=deploy.id, target_id=secret.id, relation="derived_from")
    hold.link(source_id=secret.id, target_id=deploy.id, relation="contradicts")
    hold.kg_invalidate(source_id=secret.id, target_id=deploy.id, relation="contradicts")
    hold.entity_register(canonical_name="Ann Lee", namespace="people", aliases=["Annie", "A. Lee"])
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["search", "read"])
    hold.grant(id=secret.id, agent_id="ai:other@here", permission="read")
    hold.notify(target_agent_id="ai:other@here", title="Hello", payload="Are you there?", metadata={"n": 1})
    hold.namespace_set_standard(namespace="team", id=deploy.id)
    away = hold.store(title="Old news", content="No longer so.", tags=["old"])
    hold.link(source_id=deploy.id, target_id=away.id, relation="supersedes")
    hold.archive(ids=[away.id], reason="stale")
    gone = hold.store(title="Gone", content="Deleted again.")
    hold.delete(gone.id)
    hold.recall(context="deploy wednesdays")
    flush_access.flush_access_log(hold.ctx)
    clock.at += DAY
    hold.store(title="Standup", content="At ten now.", tier="short", namespace="team/a")
    assert hold.get(short.id).content == "At nine."
    return hold

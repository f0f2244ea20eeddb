"""A peer reads and writes only its own namespaces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import holdfast
from engines import ENGINES_BY_RING
from holdfast.features.sync.apply_changes import SyncResult
from holdfast.features.sync.exchange import (
    ExchangeResult,
    LocalEndpoint,
    apply_pages,
    read_missing_pages,
    sync_endpoints,
)
from holdfast.features.sync.read_changes import Handshake, Page, VectorEntry
from holdfast.kernel.errors import Forbidden
from holdfast.kernel.journal.journal import new_key, public_key_of, sign
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.records.change import signed_bytes
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope

TEAM = PeerScope(("team/**",), ("team/**",))
SECRET = "Amaranth"
"""Part of every text outside the peer's namespaces."""


@pytest.fixture
def engine() -> str:
    """Use SQLite, except for tests of statements that only peers need."""
    return "sqlite"


@pytest.fixture
def here(db: str) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id="human:ann@here") as opened:
        yield opened


@pytest.fixture
def there(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(tmp_path / "there.db"), agent_id="human:bob@there") as opened:
        yield opened


def read_page_for(hold: holdfast.Holdfast, scope: PeerScope = TEAM) -> Page:
    return LocalEndpoint(hold.ctx, scope=scope).read_changes(0, {}, 1000)


def words(page: Page) -> str:
    return msgspec.json.encode([page.changes, page.states, page.bases]).decode() + repr(page.files)


def meet(here: holdfast.Holdfast, there: holdfast.Holdfast, scope: PeerScope = TEAM) -> ExchangeResult:
    """Sync two stores; the first applies the scope."""
    return sync_endpoints(LocalEndpoint(here.ctx, scope=scope), LocalEndpoint(there.ctx), "merge")


def titles(hold: holdfast.Holdfast) -> set[str]:
    return {memory.title for memory in hold.list(limit=100).memories}


def transfer_changes(source: LocalEndpoint, target: LocalEndpoint) -> None:
    """Transfer changes without a repair of forks."""
    apply_pages(target, read_missing_pages(source, target, 100), SyncResult())


def reasons(taken: SyncResult) -> list[str]:
    return [one.reason for one in taken.list_rejected]


def furnish(hold: holdfast.Holdfast, namespace: str, word: str) -> list[str]:
    """Add a record of every kind to a namespace, each containing a word."""
    kept = [
        hold.store(title=f"{word} {number}", content=f"{word} said {number}.", namespace=namespace, tags=[word])
        for number in range(3)
    ]
    hold.reflect(source_ids=[kept[0].id], title=f"{word} drawn", content=f"So {word}.", namespace=namespace)
    hold.link(source_id=kept[1].id, target_id=kept[0].id, relation="supersedes")
    hold.entity_register(canonical_name=f"{word} Ltd", namespace=namespace, aliases=[f"{word} Inc"])
    private = hold.store(title=f"{word} own", content=word, namespace=namespace, scope="private")
    hold.grant(private.id, f"ai:{word}@x")
    hold.namespace_set_standard(namespace=namespace, id=kept[2].id)
    hold.policy_set(namespace=namespace, max_reflection_depth=5)
    hold.skill_register(
        inline_skill=f"---\nname: {word.lower()}\ndescription: {word}.\nnamespace: {namespace}\n---\nDo {word}.\n",
        files=[{"path": f"{word}.txt", "content": word}],
    )
    hold.interaction_record(status="denied", principal=word, input=f"Is it {word}?", reason=word, namespace=namespace)
    return [memory.id for memory in kept]


@pytest.mark.parametrize("engine", ENGINES_BY_RING)
def test_changes_of_every_kind_are_sent_from_inside_and_none_from_outside(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    inside = furnish(here, "team/a", "Begonia")
    outside = furnish(here, f"other/{SECRET}", SECRET)
    here.link(source_id=inside[1], target_id=outside[1], relation="related_to")
    here.link(source_id=outside[2], target_id=inside[2], relation="supersedes")
    here.agent_register(agent_id=f"ai:{SECRET}@x", agent_type="ai:helper")
    here.principal_describe(name="ann", display=SECRET)
    here.principal_purge(name="ann")
    here.principal_describe(name="bob", display=SECRET)
    here.policy_set(namespace="*", invalidation_hops=3)
    page = read_page_for(here)
    assert SECRET.lower() not in words(page).lower()
    assert not any(id in words(page) for id in outside)
    kinds = {change.kind for change in page.changes}
    assert kinds == {*KINDS} - {"agent", "principal", "erasure"}
    assert len(page.files) == 2
    everything = {(change.kind, change.record) for change in read_page_for(here, FULL_SCOPE).changes}
    withheld = everything - {(change.kind, change.record) for change in page.changes}
    assert {kind for kind, _ in withheld} == {*KINDS}


def test_sent_changes_are_the_same_on_both_and_the_rest_stays_a_gap(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    here.store(title="First", content="Outside.", namespace="other")
    inside = here.store(title="Second", content="Inside.", namespace="team/a")
    there.store(title="Third", content="From there.", namespace="team")
    done = meet(here, there)
    assert (done.pushed.memory_count, done.pulled.memory_count, reasons(done.pushed)) == (1, 1, [])
    assert (titles(here), titles(there)) == ({"First", "Second", "Third"}, {"Second", "Third"})
    assert there.get(id=inside.id).content == "Inside."
    assert here.sync_digest().origin not in there.sync_digest().vector
    assert [meet(here, there).pushed.memory_count for _ in range(2)] == [0, 0]


def test_wider_patterns_send_withheld_changes(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    here.store(title="First", content="Outside.", namespace="other")
    here.store(title="Second", content="Inside.", namespace="team/a")
    meet(here, there)
    done = meet(here, there, PeerScope(("team/**", "other"), ("**",), admin=True))
    assert (done.pushed.memory_count, titles(there)) == (1, {"First", "Second"})
    meet(here, there, FULL_SCOPE)
    assert here.sync_digest().digest == there.sync_digest().digest
    assert here.sync_digest().vector == there.sync_digest().vector


@pytest.mark.parametrize("engine", ENGINES_BY_RING)
def test_a_memory_moved_inside_is_sent_whole_with_its_attachments_and_without_its_past(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    known = here.store(title="Known", content="Inside.", namespace="team/a")
    moved = here.store(title="Plan", content=f"The word is {SECRET}.", namespace="other", tags=["x"])
    here.link(source_id=moved.id, target_id=known.id, relation="related_to")
    here.update(id=moved.id, content="There is no word.")
    meet(here, there)
    assert titles(there) == {"Known"}
    here.update(id=moved.id, namespace="team/b", priority=9)
    assert SECRET not in words(read_page_for(here))
    done = meet(here, there)
    assert (done.pushed.memory_count, reasons(done.pushed)) == (1, [])
    got = there.get(id=moved.id)
    assert (got.content, got.priority, list(got.tags)) == ("There is no word.", 9, ["x"])
    assert [link.target_id for link in there.get(id=moved.id).links if link.source_id == moved.id] == [known.id]
    here.update(id=moved.id, content="Later.")
    there.update(id=moved.id, tags=["x", "y"])
    meet(here, there)
    assert [(one.get(id=moved.id).content, list(one.get(id=moved.id).tags)) for one in (here, there)] == [
        ("Later.", ["x", "y"])
    ] * 2


def test_a_memory_moved_outside_is_no_longer_sent_or_changed_by_the_peer(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    kept = here.store(title="Plan", content="For all.", namespace="team/a")
    meet(here, there)
    here.update(id=kept.id, namespace=f"other/{SECRET}", content=f"Only {SECRET}.")
    assert SECRET not in words(read_page_for(here))
    there.update(id=kept.id, content="Changed there.")
    done = meet(here, there)
    assert (reasons(done.pulled), done.pushed.memory_count) == (["scope"], 0)
    assert here.get(id=kept.id).content == f"Only {SECRET}."
    assert there.get(id=kept.id).content == "Changed there."


def test_a_peer_cannot_move_a_memory_out_of_its_namespaces_or_in(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    inside = here.store(title="Inside", content="For all.", namespace="team/a")
    outside = here.store(title="Outside", content="For me.", namespace="other")
    meet(here, there, FULL_SCOPE)
    there.update(id=inside.id, namespace="other")
    there.update(id=outside.id, namespace="team/a")
    there.delete(id=outside.id)
    done = meet(here, there)
    assert reasons(done.pulled) == ["scope"] * 3
    assert [here.get(id=one.id).namespace for one in (inside, outside)] == ["team/a", "other"]


def test_a_link_to_a_memory_outside_is_not_accepted(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    inside = here.store(title="Inside", content="For all.", namespace="team/a")
    outside = here.store(title="Outside", content="For me.", namespace="other")
    meet(here, there, FULL_SCOPE)
    there.link(source_id=inside.id, target_id=outside.id, relation="supersedes")
    assert reasons(meet(here, there).pulled) == ["scope"]
    assert here.get(id=inside.id).links == []


def test_a_peer_sends_interactions_only_for_its_namespaces(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    there.interaction_record(status="ok", action="inside", namespace="team/a")
    there.interaction_record(status="ok", action="outside", namespace="other")
    assert reasons(meet(here, there).pulled) == ["scope"]
    assert [one.action for one in here.interaction_list().interactions] == ["inside"]


def test_a_change_refused_from_one_peer_is_not_applied_when_another_connects(
    here: holdfast.Holdfast, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    """An edit of a missing policy waits; it is not applied when an admin peer sends the policy."""
    there.policy_set(namespace="team", max_reflection_depth=5)
    here.peer_add(name="there", token=there.peer_token().token)
    with holdfast.open(str(tmp_path / "third.db")) as third:
        transfer_changes(LocalEndpoint(there.ctx), LocalEndpoint(third.ctx))
        there.policy_set(namespace="team", max_reflection_depth=9)
        page, taken = LocalEndpoint(there.ctx).read_changes(0, {}, 10), SyncResult()
        lone = page._replace(changes=page.changes[1:])
        LocalEndpoint(here.ctx, scope=PeerScope(("**",), ("**",))).apply_changes(
            lone, LocalEndpoint(there.ctx).read_handshake(), taken
        )
        assert reasons(taken) == ["waits"]
        transfer_changes(LocalEndpoint(third.ctx), LocalEndpoint(here.ctx))
    assert [one.reason for one in here.quarantine().quarantined] == ["waits"]
    assert here.policy_get(namespace="team").rules.max_reflection_depth == 5


def test_patterns_match_as_expected() -> None:
    found: dict[str, Any] = {
        pattern: [
            name
            for name in ("team", "team/a", "team/a/b", "teams", "a/team")
            if PeerScope((pattern,), ()).can_send(name)
        ]
        for pattern in ("**", "team", "team/*", "team/**", "*", "team*", "**/a", "**/team/**", "*/a/*")
    }
    assert found == {
        "**": ["team", "team/a", "team/a/b", "teams", "a/team"],
        "team": ["team"],
        "team/*": ["team/a"],
        "team/**": ["team", "team/a", "team/a/b"],
        "*": ["team", "teams"],
        "team*": ["team", "teams"],
        "**/a": ["team/a"],
        "**/team/**": ["team", "team/a", "team/a/b", "a/team"],
        "*/a/*": ["team/a/b"],
    }
    assert not PeerScope(("*", "*/**"), ()).can_send("*")


def test_a_false_claim_of_a_copy_does_not_make_a_store_rewrite_its_journal(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    here.store(title="Plan", content="For all.", namespace="team/a")
    meet(here, there)
    origin = here.sync_digest().origin

    class Liar(LocalEndpoint):
        def read_handshake(self) -> Handshake:
            said = super().read_handshake()
            return replace(said, vector={**said.vector, origin: VectorEntry(10**6, "x")})

    head = here.verify().head
    with pytest.raises(Forbidden, match="cannot show any"):
        sync_endpoints(LocalEndpoint(here.ctx, scope=TEAM), Liar(there.ctx), "merge")
    assert (here.verify().head, here.sync_digest().origin) == (head, origin)


def test_a_learned_key_is_not_replaced_by_the_claim_of_a_peer(
    here: holdfast.Holdfast, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    with holdfast.open(str(tmp_path / "third.db")) as third:
        third.store(title="Known", content="Said by the third.")
        meet(here, third, FULL_SCOPE)
        third.store(title="Next", content="Never told here.")
        page = LocalEndpoint(third.ctx).read_changes(1, {}, 10)
    key, taken = new_key(), SyncResult()
    (change,) = page.changes
    forged = replace(change, signature=sign(key, signed_bytes(change)).hex())
    claim = replace(LocalEndpoint(there.ctx).read_handshake(), authors={change.origin: public_key_of(key).hex()})
    with here.ctx.reading() as session:
        known = session.rows("replica_list")
    LocalEndpoint(here.ctx).apply_changes(page._replace(changes=[forged]), claim, taken)
    with here.ctx.reading() as session:
        assert (reasons(taken), session.rows("replica_list")) == (["forged"], known)
    assert titles(here) == {"Known"}

"""Fill a store with records of every kind."""

from collections.abc import Callable
from typing import Any

import msgspec

import holdfast
from diverging_stores import disagree
from holdfast.features.agent_hosts import store as hook_sessions
from holdfast.features.embeddings import passage_vectors as embedding_store
from holdfast.features.llm import store as llm_store
from holdfast.features.recall import flush_access as use
from holdfast.features.sync import status
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers.token import PeerToken
from holdfast.features.sync.quorum import pending_acks as ack_store
from holdfast.features.usage import service as usage_service
from holdfast.features.webhooks import store as webhooks
from holdfast.kernel.journal import journal
from holdfast.kernel.records.change import Change
from holdfast.kernel.storage import leases
from holdfast.kernel.timestamps import SECOND, format_timestamp, parse_timestamp
from holdfast.kernel.vector import unit_vector
from holdfast.operations import REGISTRY


class Clock:
    """A clock that advances on every read, and by jumps."""

    at = parse_timestamp("2026-01-31T09:00:00Z", "at")

    def __call__(self) -> int:
        self.at += 1000
        return self.at


NOW = Clock()
NEAR = {"model": "own", "vector": [0.1, -0.7, 0.3]}
ODD = (
    "Ελληνικά, 中文, עברית, e\u0301 and \U0001f9e0",
    "quotes ' \" ` and \\ backslash %s %(x)s {braces} :name $1",
    "lines\r\nand\ttabs, \u2028 and \u202e turned",
    "<|end|> \u00a0\u200b\ufeff",
)


def open_at(address: str, now: Callable[[], int] = NOW) -> holdfast.Holdfast:
    return holdfast.open(address, agent_id="ai:tester@here", now=now)


def furnish(hold: holdfast.Holdfast) -> None:
    """Add a record of every kind."""
    kept = [hold.store(title=f"Odd {number}", content=text, tags=["odd", text[:5]]) for number, text in enumerate(ODD)]
    kept += [
        hold.store(title=f"Memory {number}", content=f"number {number} of many", tags=["some"], embedding=NEAR)
        for number in range(20)
    ]
    with hold.ctx.store.transaction() as session:
        due = embedding_store.filter_due(session, "passages", [one.id for one in kept[:3]])
        embedding_store.put_embeddings(session, [passage for one in due for passage in passages(one)])
        embedding_store.set_watermark(session, "passages", embedding_store.Watermark(due[-1].row, 3))
    hold.update(kept[5].id, content="changed", tags=["other"])
    hold.update(kept[5].id, content="changed again", priority=9)
    hold.link(source_id=kept[10].id, target_id=kept[1].id, relation="derived_from")
    hold.link(source_id=kept[0].id, target_id=kept[1].id, relation="supersedes")
    hold.link(source_id=kept[2].id, target_id=kept[3].id)
    hold.kg_invalidate(source_id=kept[2].id, target_id=kept[3].id, relation="related_to")
    hold.entity_register(canonical_name="Ada", namespace="people", aliases=["Countess", "A. L."])
    private = hold.store(title="Secret", content="for few", scope="private")
    hold.grant(private.id, "ai:friend@here")
    hold.namespace_set_standard(namespace="global", id=kept[6].id)
    hold.agent_register(agent_id="ai:other@here", agent_type="ai:helper", capabilities=["x"])
    hold.notify(target_agent_id="ai:tester@here", title="Hello", payload="read")
    hold.inbox_read(ids=[hold.inbox().messages[0].id])
    hold.notify(target_agent_id="ai:tester@here", title="Hello", payload="unread")
    skill = "---\nname: deploy\ndescription: How.\n---\n"
    hold.skill_register(inline_skill=skill, files=[{"path": "odd", "content": text} for text in ODD[:1]])
    hold.skill_register(inline_skill=skill + "Differently.\n")
    hold.capture_turn(host_session_id="s-1", host_turn_index=0, role="user", content="Mend it.")
    hold.ingest(content="# Notes\n\nA paragraph of a document.\n", namespace="docs", source_uri="doc:notes")
    hold.key_create(name="laptop", scope="read", namespaces=["team/*"])
    hold.key_revoke(hold.key_create(name="lost").id)
    furnish_with_conclusions(hold, [kept[7].id, kept[11].id])
    hold.delete(kept[7].id)
    hold.archive(ids=[kept[8].id, kept[9].id])
    hold.archive_purge(ids=[kept[9].id])
    hold.store(title="Short", content="soon over", tier="short", expires_at=format_timestamp(NOW.at + SECOND))
    NOW.at += 2 * SECOND
    hold.gc()
    found = hold.recall(context="number of many")
    hold.feedback(found.recall_id, "used", [found.memories[0].id])
    use.flush_access_log(hold.ctx)
    furnish_with_curating(hold)
    furnish_for_agents(hold)
    hold.compact(older_than=0)
    hold.peer_add(name="desk", token=PeerToken("elsewhere", bytes(32)).token, tell=["team/**"], take=[], admin=True)
    hold.call("peer_hello", REGISTRY["peer_hello"].examples[0].arguments)
    disagree(hold, kept[0].id, "said elsewhere", owner="ai:tester@here")
    said = "A paragraph that says the same as one that was said before it."
    assert [hold.store(title=title, content=said).outcome for title in ("Once", "Again")][1] == "restated"
    with hold.ctx.store.transaction() as session:
        llm_store.cache_answer(session, "a question", "a model", "an answer", NOW.at)
        asked = {"id": "a call", "agent": "ai:tester@here", "task": "tags", "model": "a model", "tokens": 7}
        usage_service.reserve_tokens(session, **asked, now=NOW.at)
        waits = Change(
            origin="elsewhere.1-0", n=1, at=1, actor="ai:b@y", op="update", kind="memory", record="m", delta=""
        )
        aside = {"reason": "waits", "detail": "It waits.", "change": msgspec.json.encode(waits).decode()}
        session.do("quarantine_put", origin=waits.origin, n=waits.n, **aside, peer="elsewhere", now=NOW.at)
        session.do("sync_cursor_put", origin="elsewhere.1-0", seq=1, scope="", now=NOW.at)
        peers.use_nonce(session, "elsewhere", "a nonce of some length", NOW.at, 0)
        status.put_attempts(session, status.PeerAttempts(address="https://desk", tried_at=NOW.at))
        dropped = {"digest": "a digest", "origin": "elsewhere.1-0", "n": 2, "reason": "forged"}
        places = [journal.Position(1, b""), journal.Position(2, b"")]
        ack_store.mark_pending(session, places, journal.get_head(session).origin, NOW.at)
        session.do("ai_memory_state_put", memory="a memory", peer="ai:desk@home", version=1, updated_at=NOW.at)
        session.do("dropped_put", **dropped, now=NOW.at, agent="ai:tester@here")
        hook_sessions.put_session(
            session, hook_sessions.HookSession(id="a session", turns=1, given_ids=(kept[0].id,)), NOW.at
        )


def furnish_for_agents(hold: holdfast.Holdfast) -> None:
    """Add the records that agents keep beside memories."""
    hold.principal_merge(alias="slack:U42", principal="ann")
    hold.fact_set(key="k", value="v", principal="gone")
    hold.principal_purge(name="gone")
    hold.task_add(title=ODD[0], due_at="2020-01-01", payload={"odd": ODD[1]}, unique_key="k", repeat="daily")
    (taken,) = hold.task_claim().claimed
    hold.task_finish(id=taken.task.id, token=taken.token, result=ODD[0])
    hold.price_set(model="m", input="3")
    hold.budget_set(principal="*", tokens=10)
    hold.usage_record(model="m", input_tokens=3, session=ODD[0])
    hold.run_open(topology="t", phases=["one"], inputs={"odd": ODD[0]})
    hold.session_keep(session_id="s", provider="p")
    hold.outcome_record(score=-1, domain="d", what=ODD[0])
    hold.conversation_say(turns=[{"role": "user", "content": text} for text in ODD], channel=ODD[0][:9])
    hold.interaction_record(status="denied", reason=ODD[0][:9], principal="ann")
    hold.onboarding_tell(step="introduce", principal="ann")
    hold.conversation_consolidate(force=True)
    hook = hold.subscribe(url="https://hooks.example.com/", secret="0123456789abcdef").id
    about: dict[str, Any] = {
        "seq": 1,
        "event": "memory_store",
        "record": "a memory",
        "attempts": 3,
        "status": 500,
        "error": ODD[0],
    }
    with hold.ctx.store.transaction() as session:
        delivery = webhooks.Delivery(subscription=hook, state="dead", at=NOW.at, number=1, **about)
        webhooks.DELIVERIES.put(session, delivery)


def furnish_with_curating(hold: holdfast.Holdfast) -> None:
    """Add curation runs, notes and proposals."""
    said = "The quokka keeps ten hours for all of its dreams in the trees."
    for title, text in (
        ("Quokka", said),
        ("Dreams", said.replace("all of its", "its")),
        ("Hours", said.replace("ten", "9")),
    ):
        NOW.at += SECOND
        hold.store(title=title, content=text, namespace="zoo")
    done = hold.curate(apply=True)
    assert min(done.changed, done.proposed) > 0
    hold.persona_generate("quokka")
    with hold.ctx.store.transaction() as session:
        leases.acquire(session, "other", "somebody", NOW.at + SECOND, NOW.at)


def furnish_with_conclusions(hold: holdfast.Holdfast, sources: list[str]) -> None:
    """Add policies, reflections, approvals in every state, proposals and dismissals."""
    hold.policy_set(namespace="*", max_reflection_depth=4, invalidation_hops=3)
    hold.policy_set(namespace="global", require_approval_above_depth=1, self_approval=True)
    hold.policy_set(namespace="team", skill_promotion_min_depth=2)
    hold.policy_clear(namespace="team")
    first = hold.reflect(source_ids=sources, title="So", content="It follows.")
    asked = [
        hold.reflect(source_ids=[first.id], title=f"Asked {number}", content=text, metadata={"odd": text})
        for number, text in enumerate(ODD)
    ]
    hold.pending_approve(id=asked[0].pending_id)
    hold.pending_reject(id=asked[1].pending_id, reason=ODD[0])
    for number in range(3):
        hold.store(title=f"Soup {number}", content="Soup is served at noon.", namespace="lunch")
    offered = {one.namespace: one.offer_id for one in hold.reflect_suggest().suggestions}
    hold.reflect_dismiss(offer_id=offered["lunch"])
    hold.invalidations_dismiss(ids=[hold.invalidations().invalidations[0].id], reason=ODD[0])


def passages(due: embedding_store.DueMemory) -> list[embedding_store.PassageEmbedding]:
    """Return embeddings of a title and two passages by another model."""
    spans = ((embedding_store.TITLE, embedding_store.TITLE), (0, 7), (8, len(due.content)))
    return [
        embedding_store.PassageEmbedding(
            due.id, "passages", begins, ends, 3, due.text_hash, NOW(), unit_vector([begins, ends, 1])
        )
        for begins, ends in spans
    ]

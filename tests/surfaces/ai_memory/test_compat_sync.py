"""Peers that sync like the ai-memory daemon: everything sent and received is complete, or reported."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import open_http_client

import holdfast
from holdfast import Holdfast
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.context import Caller

Json = dict[str, Any]
LATER, LATEST = "2031-01-31T09:00:00.123456789+00:00", "2032-01-31T09:00:00+00:00"
LONG_AGO = "2001-01-31T09:00:00+00:00"


class Peer:
    """A minimal ai-memory store: rows by id, and two cursors that only move forward."""

    def __init__(self, server: httpx.Client, agent: str = "ai:old@desk", batch: int = 500, key: str = "") -> None:
        self.rows: dict[str, Json] = {}
        self._server = server
        self._agent = agent
        self._batch = batch
        self._seen = ""
        self._headers = {"x-peer-id": agent} | ({"x-api-key": key} if key else {"x-agent-id": agent})

    def pull(self) -> Json:
        """Run one cycle of the daemon: the cursor is the time of the last row, compared as text."""
        query = {"limit": str(self._batch), "peer": self._agent} | ({"since": self._seen} if self._seen else {})
        answer = self._server.get("/api/v1/sync/since", params=query, headers=self._headers)
        assert answer.status_code == 200, answer.text
        told: Json = answer.json()
        for row in told["memories"]:
            if row["updated_at"] > self.rows.get(row["id"], {}).get("updated_at", ""):
                self.rows[row["id"]] = row
        if told["memories"]:
            self._seen = max(self._seen, told["memories"][-1]["updated_at"])
        return told

    def drain(self) -> None:
        """Run cycles until nothing new arrives."""
        assert any(self.pull()["count"] == 0 for _ in range(20)), "it is told the same again and again"

    def edit(self, id: str, at: str = LATER, **fields: Any) -> None:
        self.rows[id] = {**self.rows[id], **fields, "updated_at": at}

    def push(self, *ids: str, **lists: Any) -> Json:
        body = {
            "sender_agent_id": self._agent,
            "sender_clock": {"entries": {}},
            "memories": [self.rows[id] for id in ids],
            "dry_run": False,
            **lists,
        }
        answer = self._server.post("/api/v1/sync/push", json=body, headers=self._headers)
        assert answer.status_code == 200, answer.text
        pushed: Json = answer.json()
        return pushed


def row(id: str, title: str, content: str, at: str = LATER, **more: Any) -> Json:
    """A memory in the format of ai-memory."""
    made = {"tier": "long", "namespace": "global", "tags": [], "priority": 5, "confidence": 1.0, "source": "api"}
    times = {"access_count": 0, "created_at": LONG_AGO, "updated_at": at, "metadata": {"agent_id": "ai:old@desk"}}
    return {"id": id, "title": title, "content": content, **made, **times, **more}


@pytest.fixture
def client(hold: Holdfast) -> Iterator[httpx.Client]:
    with open_http_client(hold) as client:
        yield client


@pytest.fixture
def peer(client: httpx.Client) -> Peer:
    return Peer(client)


def outcomes(pushed: Json) -> list[str]:
    return [one["outcome"] for one in pushed["outcomes"]]


def test_a_row_is_sent_with_all_its_fields(hold: Holdfast, peer: Peer) -> None:
    source = hold.store(title="Seen", content="It is so.", source_uri="doc:seen", tags=["a"], kind="claim")
    drawn = hold.reflect(source_ids=[source.id], title="Drawn", content="It will be so.")
    peer.drain()
    first, second = peer.rows[source.id], peer.rows[drawn.id]
    assert (first["memory_kind"], first["source_uri"], first["tags"]) == ("claim", "doc:seen", ["a"])
    assert (second["memory_kind"], second["reflection_depth"], second["version"]) == ("reflection", 1, 1)


def test_rows_of_one_transaction_are_all_sent_across_pages(hold: Holdfast, client: httpx.Client) -> None:
    hold.bulk_store(memories=[{"title": f"Number {n}", "content": f"It is {n}."} for n in range(7)])
    peer = Peer(client, batch=2)
    peer.drain()
    assert len(peer.rows) == 7


def test_an_old_change_of_another_store_is_sent_when_it_arrives_here(hold: Holdfast, peer: Peer, db: str) -> None:
    hold.store(title="New", content="Made today.")
    peer.drain()
    with holdfast.open(f"{db}.other", now=lambda: 10**15) as other:
        old = other.store(title="Old", content="Made in 2001.", tier="long")
        sync_stores(hold.ctx, other.ctx, "pull", trust_source=True)
    peer.drain()
    assert peer.rows[old.id]["content"] == "Made in 2001."


def test_a_clock_set_back_hides_nothing(db: str) -> None:
    clock = [1_800_000_000_000_000]
    with holdfast.open(db, now=lambda: clock[0]) as hold, open_http_client(hold) as client:
        peer = Peer(client)
        hold.store(title="First", content="x", tier="long")
        peer.drain()
        clock[0] -= 3_600_000_000
        late = hold.store(title="Second", content="y", tier="long").id
        peer.drain()
        assert late in peer.rows


def test_pages_of_invisible_rows_do_not_block_the_reader(hold: Holdfast, client: httpx.Client) -> None:
    for number in range(5):
        hold.store(title=f"Mine {number}", content="Nobody else's.", scope="private")
    shared = hold.store(title="Ours", content="Everybody's.")
    peer = Peer(client, batch=2)
    assert [one["id"] for one in peer.pull()["memories"]] == [shared.id]


def test_a_deletion_is_sent_as_one_and_survives_the_return_of_an_old_row(hold: Holdfast, peer: Peer) -> None:
    memory = hold.store(title="Fleeting", content="It was so.")
    peer.drain()
    old = dict(peer.rows[memory.id])
    hold.delete(id=memory.id)
    assert [one["id"] for one in peer.pull()["deletions"]] == [memory.id]
    peer.rows["a"] = {**old, "id": memory.id, "updated_at": LONG_AGO, "content": "It was otherwise."}
    assert outcomes(peer.push(memory.id, "a")) == ["noop", "conflict"]
    assert hold.list().memories == []


def test_a_deletion_by_the_peer_is_a_tombstone_that_can_be_undone(hold: Holdfast, peer: Peer) -> None:
    memory = hold.store(title="Fleeting", content="It was so.")
    pushed = peer.push(deletions=[memory.id, "never-there"])
    assert (pushed["deleted"], outcomes(pushed)) == (1, ["applied", "noop"])
    assert hold.history(id=memory.id).changes[-1].op == "delete"
    hold.undo(change=hold.verify().entries)
    assert hold.get(id=memory.id).title == "Fleeting"


def test_a_dated_deletion_loses_to_a_later_edit(hold: Holdfast, peer: Peer) -> None:
    memory = hold.store(title="Fleeting", content="It was so.")
    pushed = peer.push(deletions=[{"id": memory.id, "deleted_at": LONG_AGO}])
    assert (pushed["deleted"], outcomes(pushed), hold.stats().total) == (0, ["conflict"], 1)


def test_a_renamed_row_arrives_under_its_new_title(hold: Holdfast, peer: Peer) -> None:
    memory = hold.store(title="Before", content="It is so.")
    peer.drain()
    peer.edit(memory.id, title="After")
    assert peer.push(memory.id)["applied"] == 1
    assert hold.get(id=memory.id).title == "After"


def test_a_title_given_by_both_keeps_both_ids_and_each_can_be_used(hold: Holdfast, peer: Peer) -> None:
    mine = hold.store(title="Port", content="It is 8080.")
    theirs = "00000000-0000-4000-8000-000000000001"
    peer.rows[theirs] = row(theirs, "Port", "It is 9090.")
    assert outcomes(peer.push(theirs)) == ["applied"]
    assert hold.get(id=mine.id).id == hold.get(id=theirs).id == theirs
    assert {hold.conflicts().conflicts[0].shown.value, hold.conflicts().conflicts[0].other.value} == {
        "It is 8080.",
        "It is 9090.",
    }
    peer.edit(theirs, LATEST, content="It is 7070.")
    assert (outcomes(peer.push(theirs)), hold.get(id=theirs).content) == (["applied"], "It is 7070.")
    assert hold.verify().intact


def test_a_row_renamed_onto_a_taken_title_is_grouped_with_its_holder(hold: Holdfast, peer: Peer) -> None:
    holder, renamed = hold.store(title="Port", content="It is 8080."), hold.store(title="Socket", content="It is 9090.")
    peer.drain()
    peer.edit(renamed.id, title="Port", content="It is 7070.")
    assert outcomes(peer.push(renamed.id)) == ["applied"]
    assert hold.get(id=renamed.id).id == hold.get(id=holder.id).id
    assert hold.stats().total == 1


def test_an_older_row_changes_nothing_and_is_reported(hold: Holdfast, peer: Peer) -> None:
    memory = hold.store(title="Port", content="It is 8080.")
    peer.rows[memory.id] = row(memory.id, "Port", "It was 80.", LONG_AGO)
    dry, pushed = peer.push(memory.id, dry_run=True), peer.push(memory.id)
    assert (outcomes(dry), outcomes(pushed), pushed["applied"]) == (["conflict"], ["conflict"], 0)
    assert hold.get(id=memory.id).content == "It is 8080."


def test_a_peer_with_a_slow_clock_is_applied_while_it_is_the_only_writer(hold: Holdfast, peer: Peer) -> None:
    peer.rows["p-1"] = row("p-1", "Port", "It is 1.", "2001-01-01T00:00:00Z")
    peer.push("p-1")
    peer.edit("p-1", "2001-01-01T00:00:05Z", content="It is 2.")
    assert (outcomes(peer.push("p-1")), hold.get(id="p-1").content) == (["applied"], "It is 2.")
    hold.update(id="p-1", content="It is 3.")
    peer.edit("p-1", "2001-01-01T00:00:09Z", content="It is 4.")
    assert (outcomes(peer.push("p-1")), hold.get(id="p-1").content) == (["conflict"], "It is 3.")


def test_a_row_pushed_back_unchanged_is_no_change(hold: Holdfast, peer: Peer) -> None:
    memory = hold.store(title="Port", content="It is 8080.")
    peer.drain()
    hold.update(id=memory.id, content="It is 9090.")
    before = hold.verify().head
    assert outcomes(peer.push(memory.id)) == ["noop"]
    assert (hold.verify().head, hold.get(id=memory.id).content) == (before, "It is 9090.")


def test_a_peer_does_not_receive_its_own_changes_but_others_do(
    hold: Holdfast, peer: Peer, client: httpx.Client
) -> None:
    peer.rows["p-1"] = row("p-1", "Port", "It is 8080.")
    peer.push("p-1")
    assert peer.pull()["count"] == 0
    assert Peer(client, agent="ai:other@desk").pull()["count"] == 1


def test_every_item_has_an_outcome_and_a_bad_one_does_not_affect_the_others(hold: Holdfast, peer: Peer) -> None:
    peer.rows = {"p-1": row("p-1", "Good", "It is good."), "p-2": row("p-2", "Bad", " "), "p-3": row("p-3", "", "x")}
    pushed = peer.push("p-1", "p-2", "p-3", surprises=[1])
    assert (pushed["applied"], pushed["skipped"], pushed["ids"], pushed["ignored"]) == (1, 2, ["p-1"], ["surprises"])
    assert [(one["index"], one.get("code")) for one in pushed["outcomes"]] == [
        (0, None),
        (1, "VALIDATION_FAILED"),
        (2, "VALIDATION_FAILED"),
    ]
    assert hold.stats().total == 1


def test_a_dry_run_reports_what_the_run_does_and_leaves_nothing(hold: Holdfast, peer: Peer) -> None:
    peer.rows = {"p-1": row("p-1", "Good", "It is good.")}
    before = hold.verify().head
    dry = peer.push("p-1", dry_run=True)
    assert (hold.verify().head, hold.stats().total) == (before, 0)
    assert {**peer.push("p-1"), "dry_run": True} == dry


def test_a_link_keeps_its_validity_its_observer_and_its_signature(hold: Holdfast, peer: Peer) -> None:
    one, other = hold.store(title="One", content="1"), hold.store(title="Other", content="2")
    link = {
        "source_id": one.id,
        "target_id": other.id,
        "relation": "supersedes",
        "created_at": "2026-01-01T00:00:00Z",
        "valid_from": "2026-01-01T00:00:00Z",
        "valid_until": "2026-02-01T00:00:00Z",
        "observed_by": "ai:scout@desk",
        "signature": "abc",
    }
    assert [peer.push(links=[link])["links_applied"] for _ in range(2)] == [1, 0]
    (stored_link,) = hold.export()["links"]
    assert {name: stored_link[name][:19] for name in ("valid_until", "observed_by", "signature")} == {
        "valid_until": "2026-02-01T00:00:00",
        "observed_by": "ai:scout@desk",
        "signature": "abc",
    }


def test_archiving_and_restoring_are_synced(hold: Holdfast, peer: Peer) -> None:
    memory = hold.store(title="Rare", content="It is rare.")
    assert peer.push(archives=[memory.id])["archived"] == 1
    assert [one["id"] for one in peer.pull()["archives"]] == [memory.id]
    assert peer.push(restores=[memory.id])["restored"] == 1
    assert hold.get(id=memory.id).state == "live"


def test_a_key_with_limited_write_access_pushes_only_there_and_becomes_the_owner(hold: Holdfast) -> None:
    outside = hold.store(title="Out", content="It is outside.", namespace="closed")
    with open_http_client(hold, api_key="every-right") as client:
        secret = hold.key_create(name="desk", scope="write", namespaces=["open"]).key
        peer = Peer(client, key=secret)
        peer.rows = {
            "p-1": row("p-1", "In", "It is inside.", namespace="open"),
            "p-2": row("p-2", "Out", "It is outside.", namespace="closed"),
            outside.id: row(outside.id, "Out", "Overwritten.", LATEST, namespace="open"),
        }
        governing = {"namespace_meta": [{"namespace": "open", "standard_id": "p-1"}], "pendings": [{"id": "x"}]}
        pushed = peer.push("p-1", "p-2", outside.id, deletions=[outside.id], **governing)
        assert outcomes(pushed) == ["applied", "rejected", "rejected", "noop", "rejected", "rejected"]
        assert [one["id"] for one in peer.pull()["memories"]] == []
    assert hold.get(id=outside.id).content == "It is outside."
    assert hold.get(id="p-1").metadata["imported_from_agent_id"] == "ai:old@desk"


@pytest.mark.parametrize(
    "body",
    [
        {"memories": []},
        {"sender_agent_id": "../daemon"},
        {"sender_agent_id": "ai:old@desk", "deletions": "all"},
        {"sender_agent_id": "ai:old@desk", "memories": [{}] * 1001},
    ],
)
def test_a_malformed_batch_is_refused_completely(client: httpx.Client, body: Json) -> None:
    assert client.post("/api/v1/sync/push", json=body).status_code == 400


def test_a_cursor_of_another_journal_is_used_by_its_time(hold: Holdfast, client: httpx.Client) -> None:
    memory = hold.store(title="Port", content="It is 8080.")
    for since in ("2001-01-31T09:00:00.000000000000999999Z", "2001-01-31T09:00:00+00:00", "2001-01-31"):
        answer = client.get("/api/v1/sync/since", params={"since": since}).json()
        assert [one["id"] for one in answer["memories"]] == [memory.id]
    assert client.get("/api/v1/sync/since", params={"since": LATEST}).json()["count"] == 0


def test_an_enrolled_peer_sends_and_receives_only_its_namespaces(hold: Holdfast, tmp_path: Path) -> None:
    with holdfast.open(str(tmp_path / "desk.db")) as desk:
        token = desk.peer_token().token
    hold.peer_add(name="desk", token=token, tell=["open/**"], take=["open/in"])
    ids = [hold.store(title="Port", content="It is 8080.", namespace=name).id for name in ("open", "closed")]
    peer = Caller("peer:desk", right="write", has_fixed_agent=True, source="peer", peer="desk")
    answer = hold.call("sync_since", {}, caller=peer)
    assert [one["id"] for one in answer.memories] == [ids[0]]
    rows = [row("p-1", "In", "Inside.", namespace="open/in"), row("p-2", "Out", "Outside.", namespace="open")]
    governing = [{"namespace": "open/in", "standard_id": "p-1"}]
    batch = {"sender_agent_id": "ai:old@desk", "memories": rows, "deletions": ids, "namespace_meta": governing}
    pushed = hold.call("sync_push", {"batch": batch}, caller=peer)
    assert [one.outcome for one in pushed.outcomes] == ["applied", *["rejected"] * 4]
    assert hold.stats().total == 3

"""Rights of an ai-memory push: the sender can do what its key allows, in its own name, and nothing else."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from serving import open_http_client

import holdfast
from engines import ENGINES_BY_RING
from holdfast import Holdfast
from holdfast.features.sync.peers.request_signature import RequestSignature, body_digest, request_message, to_headers
from holdfast.kernel.context import Caller, read_clock
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import sign

Json = dict[str, Any]
Push = Callable[..., list[tuple[str, str | None]]]
LATER = "2031-01-31T09:00:00.123456+00:00"
PATH = "/api/v1/sync/push"
SENDER = "ai:old@desk"


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(hold: Holdfast) -> Iterator[httpx.Client]:
    with open_http_client(hold, api_key="every-right") as client:
        yield client


def outcomes_of(answer: httpx.Response) -> list[tuple[str, str | None]]:
    """Return the outcome of each item, with the code of a refusal."""
    assert answer.status_code == 200, answer.text
    return [(one["outcome"], one.get("code")) for one in answer.json()["outcomes"]]


def with_key(server: httpx.Client, key: str) -> Push:
    def push(**lists: Any) -> list[tuple[str, str | None]]:
        body = {"sender_agent_id": SENDER, **lists}
        return outcomes_of(server.post(PATH, json=body, headers={"x-api-key": key}))

    return push


@pytest.fixture
def admin(server: httpx.Client) -> Push:
    return with_key(server, "every-right")


@pytest.fixture
def writer(hold: Holdfast, server: httpx.Client) -> Push:
    """A pusher whose key can write everywhere and acts as key:desk."""
    return with_key(server, hold.key_create(name="desk", scope="write").key)


@pytest.fixture
def peers(hold: Holdfast, server: httpx.Client, tmp_path: Path) -> Iterator[Callable[..., Push]]:
    """Enrol a peer with the given patterns; its pushes are signed by its store."""
    numbers = count()
    with holdfast.open(str(tmp_path / "laptop.db")) as laptop:
        with laptop.ctx.reading() as session:
            key = laptop.ctx.store.signing_key(session) or b""
            node = journal.get_head(session).node
        to = hold.peer_token().node

        def enrol_peer(**scope: Any) -> Push:
            hold.peer_add(name="laptop", token=laptop.peer_token().token, **scope)

            def push(**lists: Any) -> list[tuple[str, str | None]]:
                body, at, nonce = (
                    msgspec.json.encode({"sender_agent_id": SENDER, **lists}),
                    read_clock(),
                    f"{next(numbers):020}",
                )
                signature = sign(key, request_message("POST", PATH, body, at, nonce, to=to))
                signed = to_headers(RequestSignature(node, to, at, nonce, body_digest(body), signature))
                return outcomes_of(
                    server.post(PATH, content=body, headers={"content-type": "application/json", **signed})
                )

            return push

        yield enrol_peer


@pytest.fixture
def peer(peers: Callable[..., Push]) -> Push:
    """A peer limited to `team` and its children."""
    return peers(tell=["team/**"], take=["team/**"])


def row(id: str, title: str, content: str, **more: Any) -> Json:
    """A memory in the format of ai-memory."""
    fixed = {"tier": "long", "namespace": "team", "updated_at": LATER, "metadata": {"agent_id": SENDER}}
    return {"id": id, "title": title, "content": content, **fixed, **more}


def link(source: str, target: str, relation: str = "supersedes", **more: Any) -> Json:
    return {"source_id": source, "target_id": target, "relation": relation, **more}


def links_of(hold: Holdfast) -> list[Json]:
    return list(hold.export()["links"])


def standards_of(hold: Holdfast) -> dict[str, str]:
    return {one["namespace"]: one["standard_id"] for one in hold.export()["namespaces"] if one["standard_id"]}


REFUSED = ("rejected", "FORBIDDEN")
MISSING = ("rejected", "NOT_FOUND")
DONE = ("applied", None)


def test_a_link_to_a_private_memory_of_another_agent_is_refused_in_either_direction(
    hold: Holdfast, writer: Push
) -> None:
    private = hold.store(title="Mine", content="Nobody else's.", namespace="team", scope="private").id
    assert writer(memories=[row("p-1", "Theirs", "It is theirs.")]) == [DONE]
    forged = [link("p-1", private, observed_by="ai:tester@here"), link(private, "p-1", observed_by="ai:tester@here")]
    assert writer(links=forged) == [MISSING, MISSING]
    assert links_of(hold) == []


def test_a_link_from_a_memory_that_is_read_only_for_the_sender_is_refused(hold: Holdfast, writer: Push) -> None:
    lent = hold.store(title="Lent", content="To be read.", namespace="team", scope="private").id
    shared = hold.store(title="Shared", content="For all.", namespace="team").id
    hold.grant(lent, "key:desk", permission="read")
    assert writer(links=[link(lent, shared), link(shared, lent, "related_to")]) == [REFUSED, DONE]
    assert [(one["source_id"], one["target_id"]) for one in links_of(hold)] == [(shared, lent)]


def test_the_observer_of_a_pushed_link_is_the_caller_whatever_it_claims(hold: Holdfast, writer: Push) -> None:
    one, other = (hold.store(title=title, content=title, namespace="team").id for title in ("One", "Other"))
    claimed = link(one, other, "related_to", created_at=LATER, observed_by="ai:tester@here", signature="forged")
    assert writer(links=[claimed]) == [DONE]
    (stored_link,) = links_of(hold)
    assert (stored_link["observed_by"], stored_link["signature"], stored_link["imported_from_agent_id"]) == (
        "key:desk",
        None,
        "ai:tester@here",
    )
    assert writer(links=[claimed]) == [("noop", None)]


def test_a_writer_cannot_replace_the_signature_of_a_link_by_pushing_it_again(
    hold: Holdfast, admin: Push, writer: Push
) -> None:
    one, other = (hold.store(title=title, content=title, namespace="team").id for title in ("One", "Other"))
    signed = link(one, other, "related_to", observed_by="ai:scout@desk", signature="abc", valid_from="2026-01-01")
    assert admin(links=[signed]) == [DONE]
    assert writer(links=[{**signed, "signature": "forged"}]) == [("noop", None)]
    assert [(kept["observed_by"], kept["signature"]) for kept in links_of(hold)] == [("ai:scout@desk", "abc")]
    assert writer(links=[{**signed, "valid_until": "2026-02-01", "updated_at": LATER}]) == [DONE]
    assert [(kept["observed_by"], kept["signature"]) for kept in links_of(hold)] == [("ai:scout@desk", None)]


def test_a_key_limited_to_namespaces_neither_links_nor_moves_nor_governs_outside(
    hold: Holdfast, server: httpx.Client
) -> None:
    mine = hold.store(title="In", content="Inside.", namespace="team/a", tier="long").id
    outside = hold.store(title="Out", content="Outside.", namespace="closed").id
    narrow = {"namespaces": ["team"]}
    writes = with_key(server, hold.key_create(name="desk", scope="write", **narrow).key)
    assert writes(links=[link(mine, outside), link(outside, mine)]) == [MISSING, MISSING]
    assert writes(memories=[row(mine, "In", "Moved.", namespace="closed")]) == [REFUSED]
    rules = with_key(server, hold.key_create(name="ruler", scope="admin", **narrow).key)
    standards = [
        {"namespace": "closed", "standard_id": mine},
        {"namespace": "team", "standard_id": outside},
        {"namespace": "team", "standard_id": mine, "parent_namespace": "closed"},
    ]
    cleared = ["closed", "team"]
    assert rules(namespace_meta=standards, namespace_meta_clears=cleared) == [
        REFUSED,
        MISSING,
        REFUSED,
        REFUSED,
        ("noop", None),
    ]
    assert (hold.get(id=mine).namespace, links_of(hold), standards_of(hold)) == ("team/a", [], {})


def test_a_peer_moves_no_memory_out_of_its_namespaces_or_into_them(hold: Holdfast, peer: Push) -> None:
    outside = hold.store(title="Out", content="Outside.", namespace="closed").id
    assert peer(memories=[row("p-1", "In", "Inside.")]) == [DONE]
    out, into = row("p-1", "In", "Moved.", namespace="closed"), row(outside, "Out", "Taken.", namespace="team")
    unnamed = {name: value for name, value in out.items() if name != "namespace"}
    assert peer(memories=[out, into]) == [REFUSED, REFUSED]
    assert peer(memories=[{**unnamed, "updated_at": "2032-01-01"}]) == [DONE]
    assert [hold.get(id=id).namespace for id in ("p-1", outside)] == ["team", "closed"]
    below = row("p-1", "In", "Moved.", namespace="team/below", updated_at="2033-01-01")
    assert peer(memories=[below]) == [DONE]
    assert hold.get(id="p-1").namespace == "team/below"


def test_a_peer_links_only_memories_within_its_namespaces(hold: Holdfast, peer: Push) -> None:
    foreign = [hold.store(title=title, content=title, namespace="closed").id for title in ("One", "Other")]
    inside = [hold.store(title=title, content=title, namespace="team").id for title in ("Third", "Fourth")]
    pushed = [link(*foreign), link(inside[0], foreign[0]), link(foreign[0], inside[0]), link(*inside)]
    assert peer(links=pushed) == [REFUSED, REFUSED, REFUSED, DONE]
    assert [(one["source_id"], one["observed_by"]) for one in links_of(hold)] == [(inside[0], "peer:laptop")]


def test_a_peer_does_not_learn_the_namespace_of_a_memory_outside_its_own(
    hold: Holdfast, server: httpx.Client, peer: Push, peers: Callable[..., Push]
) -> None:
    outside = hold.store(title="Out", content="Outside.", namespace="closed/amaranth").id
    hold_inside = hold.store(title="In", content="Inside.", namespace="team").id
    caller = Caller("peer:laptop", right="write", has_fixed_agent=True, source="peer", peer="laptop")
    batch = {
        "sender_agent_id": SENDER,
        "memories": [row(outside, "Out", "Taken.")],
        "deletions": [outside],
        "archives": [outside],
        "restores": [outside],
        "links": [link(hold_inside, outside)],
    }
    pushed = hold.call("sync_push", {"batch": batch}, caller=caller)
    assert [one.outcome for one in pushed.outcomes] == ["rejected"] * 5
    assert not any("amaranth" in str(one.reason) for one in pushed.outcomes)
    assert hold.get(id=outside).state == "live"


def test_an_admin_peer_governs_only_its_namespaces(hold: Holdfast, peers: Callable[..., Push]) -> None:
    ruler = peers(tell=["team/**"], take=["team/**"], admin=True)
    inside, outside = (hold.store(title=place, content=place, namespace=place).id for place in ("team", "closed"))
    hold.namespace_set_standard(namespace="closed", id=outside)
    hold.namespace_set_standard(namespace="*", id=outside)
    standards = [
        {"namespace": "closed", "standard_id": inside, "updated_at": LATER},
        {"namespace": "*", "standard_id": inside, "updated_at": LATER},
        {"namespace": "team", "standard_id": outside},
        {"namespace": "team", "standard_id": inside, "parent_namespace": "closed"},
        {"namespace": "team", "standard_id": inside},
    ]
    assert ruler(namespace_meta=standards) == [REFUSED] * 4 + [DONE]
    assert ruler(namespace_meta_clears=["closed", "*", "other", "team", {"namespace": "team"}]) == [
        REFUSED,
        REFUSED,
        REFUSED,
        DONE,
        ("rejected", "VALIDATION_FAILED"),
    ]
    assert standards_of(hold) == {"closed": outside, "*": outside}


def test_a_private_standard_is_replaced_or_cleared_only_by_its_owner(hold: Holdfast, admin: Push) -> None:
    private = hold.store(title="Rule", content="Mine to say.", namespace="team", scope="private").id
    shared = hold.store(title="Shared", content="For all.", namespace="team").id
    hold.namespace_set_standard(namespace="team", id=private)
    hold.namespace_set_standard(namespace="team/a", id=shared)
    replaced = {"namespace": "team", "standard_id": shared, "updated_at": LATER}
    to_private = {"namespace": "team/a", "standard_id": private, "updated_at": LATER}
    assert admin(namespace_meta=[replaced, to_private], namespace_meta_clears=["team", "team/a"]) == [
        REFUSED,
        MISSING,
        REFUSED,
        DONE,
    ]


def test_only_the_owner_of_a_memory_publishes_or_hides_it_by_a_push(hold: Holdfast, writer: Push) -> None:
    private = hold.store(title="Mine", content="Nobody else's.", namespace="team", scope="private", tier="long").id
    shared = hold.store(title="Shared", content="For all.", namespace="team", tier="long").id
    hold.grant(private, "key:desk", permission="write")
    published = row(private, "Mine", "Changed.", scope="collective")
    hidden = row(shared, "Shared", "Changed.", metadata={"scope": "private"})
    assert writer(memories=[published, hidden]) == [REFUSED, REFUSED]
    assert [(one.scope, one.content) for one in map(hold.get, (private, shared))] == [
        ("private", "Nobody else's."),
        ("collective", "For all."),
    ]
    assert writer(memories=[row(private, "Mine", "Changed.", scope="private")]) == [DONE]
    hold.grant(private, "key:desk", permission="admin")
    assert writer(memories=[row(private, "Mine", "Open.", scope="collective", updated_at="2032-01-01")]) == [DONE]


def test_a_private_memory_of_another_agent_is_neither_changed_nor_deleted_by_a_push(
    hold: Holdfast, writer: Push
) -> None:
    private = hold.store(title="Mine", content="Nobody else's.", namespace="team", scope="private", tier="long").id
    taken = {"deletions": [private], "archives": [private], "restores": [private]}
    assert writer(memories=[row(private, "Mine", "Taken.")], **taken) == [
        REFUSED,
        ("noop", None),
        ("noop", None),
        MISSING,
    ]
    hold.grant(private, "key:desk", permission="read")
    assert writer(memories=[row(private, "Mine", "Taken.")], **taken) == [REFUSED] * 4
    assert (hold.get(id=private).content, hold.get(id=private).state) == ("Nobody else's.", "live")


def test_a_push_in_the_name_of_a_peer_does_not_hide_the_change_from_that_peer(
    hold: Holdfast, server: httpx.Client, writer: Push
) -> None:
    own = hold.key_create(name="old", scope="write").key
    assert with_key(server, own)(memories=[row("p-1", "Port", "It is 8080.")]) == [DONE]
    asked: Json = {"params": {"peer": SENDER}, "headers": {"x-api-key": own}}
    assert server.get("/api/v1/sync/since", **asked).json()["memories"] == []
    assert writer(memories=[row("p-1", "Port", "It is 9090.", updated_at="2032-01-01T00:00:00Z")]) == [DONE]
    sent = server.get("/api/v1/sync/since", **asked).json()["memories"]
    assert [one["content"] for one in sent] == ["It is 9090."]


def test_an_envelope_imported_with_a_key_has_the_rights_of_a_push(hold: Holdfast, server: httpx.Client) -> None:
    private = hold.store(title="Mine", content="Nobody else's.", namespace="team", scope="private", tier="long").id
    shared = hold.store(title="Shared", content="For all.", namespace="team").id
    hold.namespace_set_standard(namespace="team", id=private)
    envelope = {
        "schema_version": "v1",
        "exported_at": LATER,
        "memories": [row(private, "Mine", "Taken.")],
        "entities": [{"entity_id": private, "alias": "Somebody"}],
        "links": [link(shared, private, observed_by="ai:tester@here")],
        "namespaces": [
            {"namespace": "team", "standard_id": shared, "updated_at": LATER},
            {"namespace": "other", "standard_id": private},
        ],
    }
    key = hold.key_create(name="desk", scope="write").key
    arguments = {"content": msgspec.json.encode(envelope).decode(), "format": "envelope"}
    answer = server.post("/api/v1/mine", json=arguments, headers={"x-api-key": key})
    assert (answer.status_code, answer.json()["rejected"]) == (200, 5), answer.text
    assert (hold.get(id=private).content, links_of(hold)) == ("Nobody else's.", [])
    assert hold.namespace_get_standard(namespace="team").standard_id == private

"""The unmodified published ai-memory clients against a real server, and the older routes and shapes they use."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import Queue
from typing import Any

import pytest
from ai_memory import (
    AiMemoryClient,
    AsyncAiMemoryClient,
    AuthError,
    ConflictError,
    CreateMemory,
    ForbiddenError,
    InboxMessage,
    NotFoundError,
    NotifyRequest,
    SubscriptionRequest,
    Tier,
    UpdateMemory,
    ValidationError,
    require_profile,
    require_profile_async,
    verify_webhook_signature,
)
from serving import open_http_client, serve_app, store_over_http
from starlette.testclient import TestClient

from engines import ENGINES_BY_RING
from holdfast import Holdfast
from holdfast.integrations.ai_memory import http as compat
from holdfast.kernel.net.outbound import WebhookLimits
from holdfast.surfaces.http.app import build_app
from provider_server import Handler, ReceivedRequest, provider
from timeouts import TIMEOUT

AGENT = "ai:scout@laptop"
METHODS = sorted(name for name, _ in inspect.getmembers(AiMemoryClient, inspect.isfunction) if not name.startswith("_"))


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(hold: Holdfast) -> Iterator[str]:
    hold.ctx = replace(hold.ctx, webhook_limits=WebhookLimits(("127.0.0.0/8",)))
    with serve_app(build_app(hold)) as found:
        yield found


class Waiting:
    """The asynchronous client, called synchronously."""

    def __init__(self, runner: asyncio.Runner, client: AsyncAiMemoryClient) -> None:
        self.runner = runner
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.runner.run(getattr(self.client, name)(*args, **kwargs))


Connect = Callable[..., Any]


@pytest.fixture(params=["sync", pytest.param("async", marks=pytest.mark.full)])
def connect(request: pytest.FixtureRequest, url: str) -> Iterator[Connect]:
    """How to create a client of either kind."""
    if request.param == "sync":
        made: list[AiMemoryClient] = []

        def plain(**settings: Any) -> AiMemoryClient:
            made.append(AiMemoryClient(url, **settings))
            return made[-1]

        yield plain
        for client in made:
            client.close()
        return
    with asyncio.Runner() as runner:
        waiting: list[AsyncAiMemoryClient] = []

        def make_async(**settings: Any) -> Waiting:
            waiting.append(AsyncAiMemoryClient(url, **settings))
            return Waiting(runner, waiting[-1])

        yield make_async
        for one in waiting:
            runner.run(one.aclose())


@pytest.fixture
def client(connect: Connect) -> Any:
    return connect(agent_id=AGENT)


def test_both_clients_have_the_methods_tested_here() -> None:
    tried = inspect.getsource(inspect.getmodule(test_both_clients_have_the_methods_tested_here))  # type: ignore[arg-type]
    names = [name for name in METHODS if name != "close"]

    assert [name for name in names if f".{name}(" not in tried] == []
    assert [name for name in names if not hasattr(AsyncAiMemoryClient, name)] == []


def test_health_and_metrics(client: Any) -> None:
    assert client.health()["status"] == "ok"
    assert client.metrics().startswith("# HELP ")


def test_store_and_get_with_every_field(client: Any) -> None:
    stored = client.store(
        title="Deploy day",
        content="We deploy on Tuesdays.",
        tier=Tier.LONG,
        namespace="team/ops",
        tags=["ops", "week"],
        priority=8,
        confidence=0.9,
        source="user",
        metadata={"team": "core"},
        scope="team",
        agent_id=AGENT,
    )
    found = client.get(stored["id"])

    assert (found.tier, found.namespace, found.title, found.content) == (
        Tier.LONG,
        "team/ops",
        "Deploy day",
        "We deploy on Tuesdays.",
    )
    assert (found.tags, found.priority, found.confidence, found.source) == (["ops", "week"], 8, 0.9, "user")
    assert found.metadata == {"team": "core", "agent_id": AGENT, "scope": "team"}
    assert found.model_dump()["memory"]["id"] == stored["id"]


def test_store_with_a_lifetime(client: Any) -> None:
    stored = client.store(title="Soon gone", content="x", ttl_secs=3600)
    until = client.store(title="Gone then", content="x", expires_at=stored["expires_at"])

    assert client.get(until["id"]).expires_at == stored["expires_at"]


def test_a_taken_title_is_refused(client: Any) -> None:
    first = client.store(title="Once", content="first")

    with pytest.raises(ConflictError) as refused:
        client.store(title="Once", content="second")
    assert first["id"] in str(refused.value)
    assert client.get(first["id"]).content == "first"


def test_invalid_requests_raise_the_errors_of_the_client(connect: Connect, client: Any) -> None:
    with pytest.raises(NotFoundError):
        client.get("no-such-memory")
    with pytest.raises(ValidationError, match="priority"):
        client.store(title="t", content="c", priority=11)
    with pytest.raises(ForbiddenError):
        client.store(title="t", content="c", agent_id="ai:another@laptop")
    with pytest.raises(AuthError):
        connect(api_key="hf_wrong").list()


def test_bulk_store_returns_a_count_ids_and_an_error_per_failed_item(client: Any) -> None:
    answer = client.bulk_store(
        [
            CreateMemory(title="One", content="first"),
            {"title": "Two", "content": "second"},
            {"title": "3", "content": " "},
        ]
    )

    assert (answer.created, len(answer.ids)) == (2, 2)
    assert [(error["index"], error["code"]) for error in answer.errors] == [(2, "VALIDATION_FAILED")]


def test_update_promote_and_delete(client: Any) -> None:
    id = client.store(title="Plan", content="first")["id"]

    updated = client.update(id, UpdateMemory(content="second", priority=9, tags=["x"]))
    assert (updated["content"], updated["memory"]["priority"], updated["updated"]) == ("second", 9, True)
    assert client.update(id, {"title": "Plan B"})["title"] == "Plan B"
    assert (client.promote(id)["promoted"], client.get(id).tier) == (True, Tier.LONG)
    assert client.delete(id)["deleted"] is True
    with pytest.raises(NotFoundError):
        client.delete(id)


def test_list_search_and_recall_take_their_filters(client: Any) -> None:
    for title, tags in (("Deploy day", ["ops", "week"]), ("Deploy hour", ["ops"])):
        client.store(title=title, content="We deploy then.", namespace="team", tags=tags, priority=7)
    filters: dict[str, Any] = {"namespace": "team", "tags": "ops,week", "since": "2020-01-01T00:00:00Z", "limit": 5}

    for found in (
        client.list(**filters, tier="mid", offset=0, min_priority=3, until="2099-01-01T00:00:00Z", agent_id=AGENT),
        client.search("deploy", **filters, tier="mid", min_priority=3, agent_id=AGENT),
        client.recall("when do we deploy", **filters, budget_tokens=500).memories,
    ):
        assert [memory.title for memory in found] == ["Deploy day"]
        assert found[0].metadata["agent_id"] == AGENT
    recalled = client.recall("deploy")
    assert (recalled.count, len(recalled.memories)) == (2, 2)
    assert client.search("deploy", as_agent="team")[0].namespace == "team"


def test_forget_filters_by_query_parameters(client: Any) -> None:
    client.store(title="One", content="tmp", namespace="scratch")
    client.store(title="Two", content="stays", namespace="work")

    assert client.forget(namespace="scratch")["deleted"] == 1
    assert client.forget(pattern="nothing-like-it")["deleted"] == 0
    assert [memory.title for memory in client.list()] == ["Two"]
    with pytest.raises(ValidationError):
        client.forget()


def test_links_and_lineage(client: Any) -> None:
    old = client.store(title="Old", content="a")["id"]
    new = client.store(title="New", content="b")["id"]

    linked = client.link(new, old, "derived_from")
    assert (linked["linked"], linked["source_id"], linked["relation"]) == (True, new, "derived_from")
    assert client.link(new, old)["relation"] == "related_to"
    assert {link["relation"] for link in client.get_links(old)} == {"derived_from", "related_to"}
    found = client.lineage(new, direction="ancestors", max_depth=3)
    assert [(node["id"], node["relation"], node["depth"]) for node in found["nodes"]] == [(old, "derived_from", 1)]


def test_stats_namespaces_and_gc(client: Any) -> None:
    client.store(title="One", content="a", namespace="team")

    stats = client.stats()
    assert (stats.total, stats.by_tier, stats.by_namespace) == (
        1,
        [{"tier": "mid", "count": 1}],
        [{"namespace": "team", "count": 1}],
    )
    assert client.namespaces() == [{"namespace": "team", "count": 1}]
    assert client.gc()["expired_deleted"] == 0


def test_an_export_can_be_imported_again(client: Any) -> None:
    id = client.store(title="One", content="a")["id"]
    exported = client.export()

    assert [memory["id"] for memory in exported["memories"]] == [id]
    assert client.import_(exported)["errors"] == []


def test_agents_register_and_are_listed(client: Any) -> None:
    registered = client.register_agent("ai:helper@laptop", "ai:helper", ["search"])
    [listed] = client.agents()

    assert registered["registered"] is True
    assert (listed.agent_id, listed.agent_type, listed.capabilities) == ("ai:helper@laptop", "ai:helper", ["search"])
    assert listed.last_seen_at == listed.registered_at == registered["registered_at"]


def test_a_message_is_sent_and_read(connect: Connect, client: Any) -> None:
    client.notify(NotifyRequest(to="ai:helper@laptop", subject="Ping", body="Are you there?", namespace="team"))
    helper = connect(agent_id="ai:helper@laptop")

    [raw] = helper.inbox(agent_id="ai:helper@laptop", unread_only=True, limit=10)

    message = InboxMessage.model_validate(raw)
    assert (message.from_, message.to, message.subject, message.body, message.read) == (
        AGENT,
        "ai:helper@laptop",
        "Ping",
        "Are you there?",
        False,
    )
    assert raw["metadata"] == {"namespace": "team"}
    assert client.inbox() == []


def test_a_private_memory_is_granted_and_revoked(connect: Connect, client: Any) -> None:
    id = client.store(title="Mine", content="secret", scope="private")["id"]
    helper = connect(agent_id="ai:helper@laptop")
    with pytest.raises(NotFoundError):
        helper.get(id)

    assert client.grant(id, "ai:helper@laptop")["granted"] is True
    assert helper.get(id).content == "secret"
    assert client.revoke(id, "ai:helper@laptop")["revoked"] is True
    with pytest.raises(NotFoundError):
        helper.get(id)


def test_an_api_key_is_accepted_as_the_client_sends_it(hold: Holdfast, connect: Connect) -> None:
    made = hold.key_create(name="laptop", scope="read")
    client = connect(api_key=made.key)

    assert client.list() == []
    with pytest.raises(ForbiddenError):
        client.store(title="t", content="c")
    with pytest.raises(AuthError):
        connect().list()


def test_unsupported_methods_are_not_found(client: Any) -> None:
    for ask in (lambda: client.unsubscribe("none"), lambda: client.cluster()):
        with pytest.raises(NotFoundError):
            ask()


def test_a_webhook_is_registered_and_its_deliveries_are_verified(client: Any) -> None:
    came: Queue[ReceivedRequest] = Queue()

    def take(handler: Handler, asked: ReceivedRequest) -> None:
        handler.reply(b"")
        came.put(asked)

    with provider(take) as receiver:
        asked = {"url": receiver.url, "events": ["memory_store"], "namespace": "team", "secret": "0123456789abcdef"}
        made = client.subscribe(SubscriptionRequest(**asked))
        client.store(title="Elsewhere", content="x")
        id = client.store(title="Plan", content="x", namespace="team")["id"]
        delivered = came.get(timeout=TIMEOUT)
        [listed] = client.subscriptions()
        with pytest.raises(ValidationError):
            client.subscribe({"url": "https://169.254.169.254/", "events": []})
        gone = client.unsubscribe(made.id)

    assert (made.url, made.events, made.namespace) == (receiver.url, ["memory_store"], "team")
    assert (listed.id, listed.events, listed.created_at) == (made.id, ["memory_store"], made.created_at)
    assert (delivered.body["event"], delivered.body["memory_id"]) == ("memory_store", id)
    assert verify_webhook_signature(delivered.raw, delivered.headers["X-AI-Memory-Signature"], "0123456789abcdef")
    assert (gone["removed"], gone["deleted"], client.subscriptions()) == (True, True, [])


def test_every_profile_exists(url: str) -> None:
    with AiMemoryClient(url) as client:
        for profile in ("core", "graph", "admin", "power", "full"):
            require_profile(client, profile)

    async def require_full_profile() -> None:
        async with AsyncAiMemoryClient(url) as client:
            await require_profile_async(client, "full")

    asyncio.run(require_full_profile())


@pytest.fixture
def raw(hold: Holdfast) -> Iterator[TestClient]:
    with open_http_client(hold) as opened:
        yield opened


def test_recall_accepts_a_query_under_any_of_its_names(raw: TestClient) -> None:
    id = store_over_http(raw)["id"]

    for name in ("context", "query", "q"):
        for answer in (
            raw.get("/api/v1/recall", params={name: "tuesdays"}),
            raw.post("/api/v1/recall", json={name: "tuesdays"}),
        ):
            assert [memory["id"] for memory in answer.json()["memories"]] == [id]
    twice = raw.get("/api/v1/recall?q=a&query=b")
    assert (twice.status_code, twice.json()["fields"]) == (400, ["context"])


def test_search_responds_under_both_names(raw: TestClient) -> None:
    store_over_http(raw)

    answer = raw.get("/api/v1/search?q=tuesdays").json()

    assert (answer["results"], answer["query"], answer["count"]) == (answer["memories"], "tuesdays", 1)


def test_an_object_of_memories_is_answered_with_them_and_an_array_with_their_count(raw: TestClient) -> None:
    listed = raw.post("/api/v1/memories/bulk", content=b' [{"title": "One", "content": "a"}]', headers=JSON).json()
    named = raw.post("/api/v1/memories/bulk", json={"memories": [{"title": "Two", "content": "b"}]}).json()

    assert listed["created"] == 1
    assert [(memory["title"], memory["id"]) for memory in named["created"]] == [("Two", named["ids"][0])]
    assert named["count"] == 1


JSON = {"content-type": "application/json"}


def test_forget_accepts_a_filter_body_too(raw: TestClient) -> None:
    store_over_http(raw, namespace="scratch")

    assert raw.post("/api/v1/forget", json={"namespace": "scratch"}).json()["deleted"] == 1


def test_links_have_their_older_names_and_are_deleted_by_their_ends(raw: TestClient) -> None:
    one, other = store_over_http(raw, title="One")["id"], store_over_http(raw, title="Other")["id"]

    made = raw.post("/api/v1/links", json={"from": one, "to": other, "rel_type": "supersedes"})
    default = raw.post("/api/v1/links", json={"from": one, "to": other})
    gone = raw.request("DELETE", "/api/v1/links", json={"source_id": one, "target_id": other})

    assert (made.status_code, made.json()["relation"], default.json()["relation"]) == (201, "supersedes", "related_to")
    assert (gone.status_code, gone.json()["deleted"], gone.json()["relation"]) == (200, True, "related_to")
    for path in ("/api/v1/find_paths", "/api/v1/kg/find_paths"):
        found = raw.post(path, json={"source_id": one, "target_id": other})
        assert (found.status_code, found.json()["paths"]) == (200, [[one, other]])


def test_the_subscription_fields_of_the_other_client_are_accepted(raw: TestClient) -> None:
    made = raw.post(
        "/api/v1/subscriptions",
        json={
            "callback_url": "https://hooks.example.com/",
            "events": "memory_store, memory_delete",
            "namespace": "team",
        },
    )
    listed = raw.get("/api/v1/subscriptions").json()
    dead = raw.post("/api/v1/memory_subscription_dlq_list", json={"subscription_id": made.json()["id"]}).json()
    again = raw.post("/api/v1/memory_subscription_replay", json={"subscription_id": made.json()["id"], "since": 0})
    gone = raw.delete("/api/v1/subscriptions", params={"id": made.json()["id"]})

    assert (made.status_code, made.json()["callback_url"]) == (201, "https://hooks.example.com/")
    assert made.json()["events"] == ["memory_store", "memory_delete"]
    assert [one["created_by"] for one in listed["subscriptions"]] == [made.json()["agent_id"]]
    assert "secret" not in listed["subscriptions"][0]
    assert (dead["entries"], again.json()["place"], gone.json()["deleted"]) == ([], 0, True)


def test_a_message_of_the_other_client_has_an_object_beside_its_text(raw: TestClient) -> None:
    sent = raw.post(
        "/api/v1/notify",
        json={"to": "ai:b@c", "subject": "S", "body": "text", "memory_id": "m", "payload": {"a": 1}},
        headers={"x-agent-id": "ai:a@c"},
    )
    inbox = raw.get("/api/v1/inbox?unread=true", headers={"x-agent-id": "ai:b@c"}).json()

    assert (sent.status_code, sent.json()["sent"], sent.json()["from"]) == (201, True, "ai:a@c")
    assert (inbox["unread"], inbox["messages"][0]["metadata"]) == (1, {"memory_id": "m", "payload": {"a": 1}})


def test_a_namespace_standard_is_set_and_cleared_at_the_older_route(raw: TestClient) -> None:
    id = store_over_http(raw, namespace="team")["id"]

    put = raw.post("/api/v1/namespaces", json={"namespace": "team", "standard": id})
    gone = raw.delete("/api/v1/namespaces?namespace=team")

    assert (put.status_code, put.json()["standard_id"]) == (201, id)
    assert (gone.status_code, gone.json()["cleared"]) == (200, True)


def test_a_compat_entry_without_its_operation_is_ignored(hold: Holdfast) -> None:
    from holdfast.kernel.registry.operation import REGISTRY

    with open_http_client(hold, [REGISTRY["store"], REGISTRY["get"]]) as client:
        assert client.get("/api/v1/recall?q=x").status_code == 404
        assert client.get("/openapi.json").status_code == 200
    assert set(compat.ANSWER_SHAPES) <= set(REGISTRY.entries)

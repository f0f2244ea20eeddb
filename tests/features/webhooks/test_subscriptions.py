"""Webhooks deliver visible events at least once, in order and signed."""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import pytest
from ai_memory.webhooks import verify_webhook_signature
from clocks import Clock

import holdfast
from holdfast.features.webhooks import store as subscriptions
from holdfast.features.webhooks.deliver import Dispatcher
from holdfast.features.webhooks.model import MAX_PAUSE, MIN_PAUSE, retry_delay
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import HoldfastError, NotFound
from holdfast.kernel.net.outbound import WebhookLimits
from holdfast.surfaces.http.metrics import Metrics
from provider_server import Behaviour, Handler, Provider, ReceivedRequest, provider
from timeouts import TIMEOUT

HERE = WebhookLimits(("127.0.0.0/8",), timeout=2.0, attempts=4)
SECRET = "correct horse battery"
WATCHER = Caller("ai:watcher@here")


def accept(handler: Handler, _: ReceivedRequest) -> None:
    handler.reply(b"")


def answer_with(*statuses: int) -> Behaviour:
    """Answer with each status in turn, then accept everything."""
    left = list(statuses)
    return lambda handler, _: handler.reply(b"no", left.pop(0) if left else 204)


class World(NamedTuple):
    hold: holdfast.Holdfast
    clock: Clock
    receiver: Provider

    def deliver(self) -> int:
        return Dispatcher(self.hold.ctx).deliver()

    def list_delivered(self) -> list[tuple[int, str]]:
        return [(one.body["seq"], one.body["event"]) for one in self.receiver.asked]

    def subscribe(self, **more: Any) -> Any:
        return self.hold.call("subscribe", {"url": self.receiver.url, "secret": SECRET, **more})


@pytest.fixture
def world_with(clocked_store: holdfast.Holdfast, clock: Clock) -> Iterator[Callable[[Behaviour], World]]:
    clocked_store.ctx = replace(clocked_store.ctx, webhook_limits=HERE)
    with ExitStack() as stack:
        yield lambda behave: World(clocked_store, clock, stack.enter_context(provider(behave)))


@pytest.fixture
def world(world_with: Callable[[Behaviour], World]) -> World:
    return world_with(accept)


def test_every_change_is_delivered_once_in_order_and_under_its_event_name(world: World) -> None:
    first = world.hold.store(title="Before", content="not told")
    world.subscribe()
    one = world.hold.store(title="Plan", content="We deploy on Tuesdays.", namespace="team", tier="mid")
    world.hold.update(id=one.id, content="On Wednesdays.")
    world.hold.link(source_id=one.id, target_id=first.id)
    world.hold.kg_invalidate(source_id=one.id, target_id=first.id, relation="related_to")
    world.hold.promote(id=one.id)
    world.hold.delete(id=one.id)
    assert world.deliver() == 6
    assert world.list_delivered() == [
        (2, "memory_store"),
        (3, "memory_update"),
        (4, "memory_link_created"),
        (5, "memory_link_invalidated"),
        (6, "memory_promote"),
        (7, "memory_delete"),
    ]
    body = world.receiver.asked[0].body
    assert (body["type"], body["memory_id"], body["namespace"], body["agent_id"]) == (
        "memory_store",
        one.id,
        "team",
        "ai:tester@here",
    )
    assert body["data"]["memory"]["title"] == "Plan"
    assert world.deliver() == 0


def test_a_delivery_has_the_signatures_of_both_schemes(world: World) -> None:
    world.subscribe()
    made = world.hold.call("subscribe", {"url": world.receiver.url})
    world.hold.store(title="Plan", content="x")
    world.deliver()
    by_secret = {
        verify_webhook_signature(one.raw, one.headers["X-AI-Memory-Signature"], SECRET): one
        for one in world.receiver.asked
    }
    for secret, key, asked in (
        (SECRET, SECRET.encode(), by_secret[True]),
        (made.secret, b64decode(made.secret.removeprefix("whsec_")), by_secret[False]),
    ):
        headers = asked.headers
        assert verify_webhook_signature(asked.raw, headers["X-AI-Memory-Signature"], secret)
        assert not verify_webhook_signature(asked.raw + b" ", headers["X-AI-Memory-Signature"], secret)
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + asked.raw
        expected = b64encode(hmac.new(key, signed, sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert int(headers["webhook-timestamp"]) == world.clock.at // 1_000_000


def test_a_secret_is_shown_once_and_never_again(world: World) -> None:
    made = world.hold.call("subscribe", {"url": world.receiver.url})
    assert made.secret.startswith("whsec_")
    for answer in (world.hold.subscription_list(), world.hold.export(), world.hold.events(), world.hold.doctor()):
        assert made.secret not in msgspec.json.encode(answer, enc_hook=str).decode()
    with world.hold.ctx.reading() as session:
        assert made.secret not in repr(subscriptions.SUBSCRIPTIONS.get(session, made.id))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"events": ["memory_link_*", "memory_delete"]}, [5, 6]),
        ({"namespace": "team/**"}, [3, 4, 5]),
        ({"namespace": "team"}, [3, 5]),
        ({"agent_filter": "ai:other@here"}, [4]),
        ({"events": ["memory_store"], "namespace": "team/*"}, [4]),
        ({"after": 1, "events": ["memory_store"]}, [2, 3, 4]),
    ],
)
def test_only_matching_events_are_delivered_and_the_feed_takes_the_same_filters(
    world: World, asked: dict[str, Any], told: list[int]
) -> None:
    ids = [world.hold.store(title=f"Memory {number}", content="x").id for number in (1, 2)]
    made = world.subscribe(**asked)
    team = world.hold.store(title="Plan", content="x", namespace="team").id
    other = Caller("ai:other@here")
    world.hold.call("store", {"title": "Deep", "content": "x", "namespace": "team/deep"}, caller=other)
    world.hold.link(source_id=team, target_id=ids[0])
    world.hold.delete(id=ids[1])
    world.deliver()
    assert [seq for seq, _ in world.list_delivered()] == told
    filters = {name: value for name, value in asked.items() if name != "after"}
    page = world.hold.events(after=asked.get("after", 2), limit=1000, **filters)
    assert [one.seq for one in page.events] == told
    few, after = [], asked.get("after", 2)
    while (page := world.hold.events(after=after, limit=1, **filters)).events:
        few, after = [*few, *(one.seq for one in page.events)], page.next
    assert few == told
    assert made.events == (asked.get("events") or ["*"])


def test_events_invisible_to_the_owner_are_not_delivered(world: World, seen_by: Any) -> None:
    url = {"url": world.receiver.url, "secret": SECRET}
    snoop = seen_by("ai:snoop@here").subscribe(**url).id
    confined = seen_by("ai:confined@here", namespaces=("open",)).subscribe(**url).id
    world.hold.store(title="Mine", content="private", scope="private")
    shut = world.hold.store(title="Shut", content="x", namespace="shut")
    open = world.hold.store(title="Open", content="x", namespace="open")
    world.hold.link(source_id=open.id, target_id=shut.id)
    world.deliver()
    told = {(one.body["subscription_id"], one.body["seq"]) for one in world.receiver.asked}
    assert told == {(snoop, 2), (snoop, 3), (snoop, 4), (confined, 3)}


def test_a_subscription_ends_when_its_api_key_is_revoked(world: World) -> None:
    made = world.hold.key_create(name="desk", scope="write")
    under = Caller("key:desk", right="write", key=made.id, has_fixed_agent=True)
    world.hold.call("subscribe", {"url": world.receiver.url, "secret": SECRET}, caller=under)
    world.hold.store(title="One", content="x")
    assert world.deliver() == 1
    world.hold.key_revoke(id=made.id)
    world.hold.store(title="Two", content="x")
    assert world.deliver() == 0
    [one] = world.hold.subscription_list().subscriptions
    assert (one.state, one.why) == ("ended", "Its API key was revoked.")


def test_a_failing_receiver_is_retried_later_and_following_events_wait(
    world_with: Callable[[Behaviour], World],
) -> None:
    world = world_with(answer_with(500, 429))
    made = world.subscribe()
    for title in ("One", "Two"):
        world.hold.store(title=title, content="x")
    assert (world.deliver(), world.deliver()) == (1, 0)
    [one] = world.hold.subscription_list().subscriptions
    assert (one.place, one.delivered) == (0, 0)
    assert "HTTP 500" in one.last_error
    world.clock.move(seconds=10)
    assert (world.deliver(), world.deliver()) == (1, 0)
    world.clock.move(seconds=20)
    assert world.deliver() == 2
    assert [seq for seq, _ in world.list_delivered()] == [1, 1, 1, 2]
    ids = [one.headers["webhook-id"] for one in world.receiver.asked]
    assert len(set(ids[:3])) == 1 != len(set(ids))
    times = {one.headers["webhook-timestamp"] for one in world.receiver.asked[:3]}
    assert len(times) == 3
    page = world.hold.subscription_deliveries(id=made.id)
    assert [(d.seq, d.state, d.attempts, d.status) for d in page.deliveries] == [
        (2, "delivered", 1, 204),
        (1, "delivered", 3, 204),
    ]


def test_an_undeliverable_event_becomes_a_dead_letter_and_can_be_resent(
    world_with: Callable[[Behaviour], World],
) -> None:
    world = world_with(answer_with(500, 502, 503, 500, 400, 400, 400))
    made = world.subscribe()
    for title in ("One", "Two", "Three"):
        world.hold.store(title=title, content="x")
    for _ in range(8):
        world.deliver()
        world.clock.move(hours=1)
    assert [seq for seq, _ in world.list_delivered()] == [1, 1, 1, 1, 2, 2, 2, 3]
    dead = world.hold.subscription_deliveries(state=["dead"]).deliveries
    assert [(one.seq, one.attempts, one.status) for one in dead] == [(2, 3, 400), (1, 4, 500)]
    with pytest.raises(NotFound):
        world.hold.subscription_replay(id=made.id, dead_letters=[3])
    assert world.hold.subscription_replay(id=made.id, dead_letters=[1]).requeued == 1
    assert world.hold.subscription_replay(id=made.id, all_dead_letters=True).requeued == 1
    world.hold.store(title="Four", content="x")
    world.deliver()
    assert [seq for seq, _ in world.list_delivered()][8:] == [1, 2, 4]
    assert world.hold.subscription_deliveries(state=["dead"]).count == 0
    assert world.hold.subscription_replay(id=made.id, since=2).place == 2
    world.deliver()
    assert [seq for seq, _ in world.list_delivered()][11:] == [3, 4]


class Warnings(NamedTuple):
    """What doctor and metrics report about subscriptions."""

    facts: dict[str, int]
    findings: list[str]
    measured: list[str]


def read_warnings(world: World, caller: Caller = WATCHER) -> Warnings:
    (section,) = [one for one in world.hold.doctor().sections if one.name == "subscriptions"]
    lines = Metrics().text(world.hold, caller).splitlines()
    measured = [line.removeprefix("holdfast_subscription_") for line in lines]
    return Warnings(
        section.facts, [one.what for one in section.findings], [line for line in measured if "{id=" in line]
    )


def test_dead_letters_are_reported_by_monitoring_with_the_fixing_command(
    world_with: Callable[[Behaviour], World],
) -> None:
    world = world_with(answer_with(400, 400, 400, 500))
    id = world.subscribe().id
    for title in ("One", "Two"):
        world.hold.store(title=title, content="x")
    for _ in range(3):
        world.deliver()
        world.clock.move(hours=1)
    facts, [said], measured = read_warnings(world)
    assert facts == {"active": 1, "ended": 0, "waiting": 1, "dead_letters": 1}
    assert f"1 dead letter. Causes: `holdfast webhook deliveries {id} --state dead`." in said
    assert f"Resend: `holdfast webhook replay {id} --all-dead-letters`." in said
    assert measured == [f'ended{{id="{id}"}} 0', f'waiting{{id="{id}"}} 1', f'dead_letters{{id="{id}"}} 1']
    assert read_warnings(world, Caller("ai:other@here", right="write")).measured == []
    world.hold.subscription_replay(id=id, all_dead_letters=True)
    world.deliver()
    assert read_warnings(world)[:2] == ({"active": 1, "ended": 0, "waiting": 0, "dead_letters": 0}, [])


@pytest.mark.parametrize("status", [410, 200], ids=["gone", "revoked"])
def test_an_ended_subscription_is_reported_by_monitoring(world_with: Callable[[Behaviour], World], status: int) -> None:
    world = world_with(answer_with(status))
    key = world.hold.key_create(name="desk", scope="write").id
    caller = Caller("key:desk", right="write", key=key, has_fixed_agent=True)
    id = world.hold.call("subscribe", {"url": world.receiver.url, "secret": SECRET}, caller=caller).id
    if status == 200:
        world.hold.key_revoke(id=key)
    world.hold.store(title="One", content="x")
    world.deliver()
    facts, [said], measured = read_warnings(world)
    assert (facts["ended"], measured[0]) == (1, f'ended{{id="{id}"}} 1')
    assert (f"Resume: `holdfast webhook replay {id} --since 0`." in said) == (status == 410)
    assert said.endswith(f"Remove: `holdfast webhook remove {id}`.")


def test_a_gone_receiver_ends_the_subscription_with_a_reason(world_with: Callable[[Behaviour], World]) -> None:
    world = world_with(answer_with(410))
    made = world.subscribe()
    world.hold.store(title="One", content="x")
    world.deliver()
    [one] = world.hold.subscription_list().subscriptions
    assert (one.state, one.why, one.place) == ("ended", "The receiver answered HTTP 410 (gone).", 0)
    assert world.deliver() == 0
    world.hold.subscription_replay(id=made.id, since=0)
    world.deliver()
    assert [seq for seq, _ in world.list_delivered()] == [1, 1]


def hang(handler: Handler, _: ReceivedRequest) -> None:
    handler.server.closing.wait(TIMEOUT)


def trickle(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.server.closing.wait(0.1):
        handler.wfile.write(b"x")


def never_end(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    while not handler.server.closing.is_set():
        handler.wfile.write(b"x" * 65_536)


def redirect(handler: Handler, _: ReceivedRequest) -> None:
    handler.reply(b"", 302, Location=f"{handler.server.url}/elsewhere")


def garble(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"\x00\xff garbage\r\n\r\n")


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (hang, "did not answer within 0.4 seconds"),
        (trickle, "did not answer within 0.4 seconds"),
        (redirect, "redirects (HTTP 302), which is not followed"),
        (garble, "does not speak HTTP"),
        (never_end, None),
    ],
)
def test_a_slow_receiver_times_out_and_redirects_are_not_followed(
    world_with: Callable[[Behaviour], World], behave: Behaviour, said: str | None
) -> None:
    world = world_with(behave)
    world.hold.ctx = replace(world.hold.ctx, webhook_limits=WebhookLimits(("127.0.0.0/8",), timeout=0.4))
    made = world.subscribe()
    tested = world.hold.subscription_test(id=made.id)
    assert (tested.ok, said is None or said in tested.error) == (said is None, True)
    assert [(one.path, one.body["event"]) for one in world.receiver.asked] == [("/v1", "subscription_test")]


def test_concurrent_dispatchers_deliver_once_and_a_crashed_one_is_replaced(world: World) -> None:
    world.subscribe()
    world.hold.store(title="One", content="x")
    dead = Dispatcher(world.hold.ctx, owner="dead")
    [one] = dead._list_due()
    assert dead._claim(one) == 1
    assert Dispatcher(world.hold.ctx).deliver() == 0
    world.clock.move(seconds=13)
    assert Dispatcher(world.hold.ctx).deliver() == 1
    assert world.list_delivered() == [(1, "memory_store")]


def test_a_dispatcher_that_lost_its_lease_records_nothing(world: World) -> None:
    made = world.subscribe()
    world.hold.store(title="One", content="x")
    slow, other = Dispatcher(world.hold.ctx, owner="slow"), Dispatcher(world.hold.ctx, owner="other")
    [one] = slow._list_due()
    token, item = slow._claim(one), slow._next_event(one)
    assert token is not None
    assert item is not None
    result = slow._attempt(one, item)
    assert result is not None
    world.clock.move(seconds=13)
    assert other.deliver() == 1
    assert slow._record_attempt(one, token, item, result) is None
    [after] = world.hold.subscription_list().subscriptions
    assert (after.id, after.place, after.delivered) == (made.id, 1, 1)
    assert [seq for seq, _ in world.list_delivered()] == [1, 1]


def test_history_is_not_compacted_before_its_delivery(world: World) -> None:
    world.subscribe()
    one = world.hold.store(title="One", content="x")
    world.hold.update(id=one.id, content="y")
    world.clock.move(days=100)
    held = world.hold.compact(older_than=30)
    assert (held.folded, held.waits_for) == (0, "a subscription")
    world.deliver()
    assert world.hold.compact(older_than=30).folded == 1


def test_only_its_owner_and_administrators_can_see_or_end_a_subscription(world: World, seen_by: Any) -> None:
    made = world.subscribe()
    other = seen_by("ai:other@here", right="write")
    assert other.subscription_list().count == 0
    for name, more in (("unsubscribe", {}), ("subscription_replay", {"since": 0}), ("subscription_test", {})):
        with pytest.raises(NotFound):
            getattr(other, name)(id=made.id, **more)
    assert seen_by("ai:admin@here").subscription_list().count == 1
    confined = seen_by("ai:admin@here", namespaces=("open",))
    assert confined.subscription_list().count == 0
    assert world.hold.unsubscribe(id=made.id).removed
    assert world.hold.subscription_list().count == 0


def test_retry_delays_grow_have_jitter_and_are_bounded() -> None:
    grown = [retry_delay(attempts, 0.0, 1.0) for attempts in range(1, 14)]
    assert grown[:3] == [MIN_PAUSE, 2 * MIN_PAUSE, 4 * MIN_PAUSE]
    assert grown[-1] == MAX_PAUSE
    assert retry_delay(1, 0.0, 0.0) == MIN_PAUSE // 2
    assert retry_delay(1, 60.0, 0.0) == 60_000_000
    assert retry_delay(1, 1e9, 0.0) == MAX_PAUSE


@pytest.mark.parametrize(
    "asked",
    [
        {"url": "https://127.0.0.1/"},
        {"url": "http://10.0.0.1/"},
        {"url": "https://h.example/", "secret": "short"},
        {"url": "https://h.example/", "secret": "whsec_not base64 at all"},
        {"url": "https://h.example/", "events": ["approval_requested"]},
        {"url": "https://h.example/", "events": ["memory_store\n"]},
        {"url": "https://h.example/", "namespace": "a//b"},
        {"url": "https://h.example/", "agent_filter": "no agent"},
    ],
)
def test_an_undeliverable_subscription_is_refused(clocked_store: holdfast.Holdfast, asked: dict[str, Any]) -> None:
    with pytest.raises(HoldfastError) as refused:
        clocked_store.call("subscribe", asked)
    assert refused.value.code == "VALIDATION_FAILED"
    assert asked.get("secret", "nothing") not in refused.value.message
    assert clocked_store.subscription_list().count == 0

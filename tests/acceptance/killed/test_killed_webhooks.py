"""Webhook dispatchers are killed during deliveries: every event arrives at least once and in order."""

import subprocess
import sys
from queue import Queue

import pytest

import holdfast
from engines import ENGINES
from provider_server import Handler, ReceivedRequest, provider
from timeouts import TIMEOUT

pytestmark = pytest.mark.full

EVENTS = 20
KILLED_AT = (3, 8, 13)
"""Events during whose delivery a dispatcher is killed, before it gets the response."""
DISPATCHER = """
import sys, holdfast
from dataclasses import replace
from holdfast.kernel.net.outbound import WebhookLimits
from holdfast.features.webhooks.deliver import Dispatcher
with holdfast.open(sys.argv[1]) as hold:
    dispatcher = Dispatcher(replace(hold.ctx, webhook_limits=WebhookLimits(("127.0.0.0/8",), timeout=1.0)), spare=0.5)
    dispatcher.start()
    sys.stdin.read()
    dispatcher.stop()
"""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_event_arrives_in_order_despite_dispatcher_crashes(
    hold: holdfast.Holdfast, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    came: Queue[int] = Queue()
    running: list[subprocess.Popen[bytes]] = []
    left = list(KILLED_AT)

    def begin() -> None:
        running.append(subprocess.Popen([sys.executable, "-c", DISPATCHER, db], stdin=subprocess.PIPE))

    def take(handler: Handler, asked: ReceivedRequest) -> None:
        seq = asked.body["seq"]
        came.put(seq)
        if left and seq == left[0]:
            left.pop(0)
            dying = list(running)
            for one in dying:
                one.kill()
                one.wait()
            begin()
        else:
            handler.reply(b"")

    with provider(take) as receiver:
        monkeypatch.setenv("HOLDFAST_WEBHOOK_NETWORKS", "127.0.0.0/8")
        with holdfast.open(db, agent_id="ai:tester@here") as here:
            here.subscribe(url=receiver.url, secret="0123456789abcdef")
            for number in range(EVENTS):
                here.store(title=f"Memory {number}", content="x")
        begin()
        received = [came.get(timeout=TIMEOUT)]
        while received[-1] != EVENTS:
            received.append(came.get(timeout=TIMEOUT))
        survivor = running[-1]
        assert survivor.stdin is not None
        survivor.stdin.close()
        assert survivor.wait(TIMEOUT) == 0
    assert left == []
    assert [seq for place, seq in enumerate(received) if seq not in received[:place]] == list(range(1, EVENTS + 1))
    assert received == sorted(received)
    assert all(received.count(seq) > 1 for seq in KILLED_AT)
    [one] = hold.subscription_list().subscriptions
    assert (one.place, one.delivered) == (EVENTS, EVENTS)

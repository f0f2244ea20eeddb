"""The change feed over HTTP: as a page or as a live stream."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from serving import serve_app

import holdfast
from engines import ENGINES_BY_RING
from holdfast import Holdfast
from holdfast.kernel.errors import StoreUnreachable
from holdfast.surfaces.http import event_stream as feed
from holdfast.surfaces.http.app import build_app
from timeouts import TIMEOUT

LIVE = {"accept": "text/event-stream"}


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Event(msgspec.Struct):
    seq: int


@pytest.fixture
def url(hold: Holdfast) -> Iterator[str]:
    with serve_app(build_app(hold)) as found:
        yield found


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=TIMEOUT) as opened:
        yield opened


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Parse server-sent events into (id, data), as a browser does."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield {"id": int(fields["id"]), **json.loads(fields["data"])}
            fields = {}


def test_a_stream_takes_the_filters_of_a_subscription(hold: Holdfast, client: httpx.Client) -> None:
    for place in ("team", "elsewhere", "team/web"):
        hold.store(title="One", content="first", namespace=place)
    filters = {"namespace": "team/**", "events": "memory_store,memory_link_*", "limit": "1"}
    with client.stream("GET", "/api/v1/events", params=filters, headers=LIVE) as answer:
        delivered = events(answer.iter_lines())
        seen = [next(delivered)["seq"], next(delivered)["seq"]]
        hold.store(title="Two", content="second", namespace="elsewhere")
        hold.store(title="Two", content="second", namespace="team")
        seen.append(next(delivered)["seq"])
    assert seen == [1, 3, 5]


def test_without_requesting_a_stream_one_page_is_returned(hold: Holdfast, client: httpx.Client) -> None:
    hold.store(title="One", content="first")
    hold.store(title="Two", content="second")

    page = client.get("/api/v1/events", params={"limit": 1}).json()
    rest = client.get("/api/v1/events", params={"after": page["next"]}).json()

    assert [event["memory"]["title"] for event in page["events"] + rest["events"]] == ["One", "Two"]


def test_a_stream_delivers_past_events_and_then_new_ones(hold: Holdfast, client: httpx.Client) -> None:
    hold.store(title="One", content="first")

    with client.stream("GET", "/api/v1/events", headers=LIVE) as stream:
        coming = events(stream.iter_lines())
        first = next(coming)
        hold.store(title="Two", content="second")
        second = next(coming)

    assert stream.headers["content-type"].startswith("text/event-stream")
    assert [(event["id"], event["seq"], event["memory"]["title"]) for event in (first, second)] == [
        (1, 1, "One"),
        (2, 2, "Two"),
    ]


def test_an_interrupted_stream_continues_after_the_last_event(hold: Holdfast, client: httpx.Client) -> None:
    for title in ("One", "Two", "Three"):
        hold.store(title=title, content="x")

    with client.stream("GET", "/api/v1/events?after=0", headers={**LIVE, "last-event-id": "2"}) as stream:
        assert next(events(stream.iter_lines()))["memory"]["title"] == "Three"


@pytest.mark.parametrize("given", ["abc", "-1", "1.5", "9" * 40, ""])
def test_a_non_numeric_last_event_id_is_refused(client: httpx.Client, given: str) -> None:
    answer = client.get("/api/v1/events", headers={**LIVE, "last-event-id": given})

    assert (answer.status_code, answer.json()["fields"]) == (400, ["Last-Event-ID"])


def test_a_stream_with_an_invalid_field_is_refused_before_it_starts(client: httpx.Client) -> None:
    answer = client.get("/api/v1/events?limit=0", headers=LIVE)

    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_FAILED")


def test_a_stream_starts_after_the_last_event_even_if_there_is_none(hold: Holdfast, client: httpx.Client) -> None:
    with client.stream("GET", "/api/v1/events", headers={**LIVE, "last-event-id": "0"}) as stream:
        hold.store(title="One", content="first")
        assert next(events(stream.iter_lines()))["seq"] == 1


def test_other_requests_are_answered_during_many_streams_and_a_disconnect_is_noticed(
    hold: Holdfast, client: httpx.Client
) -> None:
    hold.store(title="One", content="first")
    with ExitStack() as stack:
        one = stack.enter_context(httpx.Client(base_url=client.base_url, timeout=TIMEOUT))
        streams = [stack.enter_context(one.stream("GET", "/api/v1/events", headers=LIVE)) for _ in range(20)]
        coming = [events(stream.iter_lines()) for stream in streams]
        assert [next(one)["seq"] for one in coming] == [1] * 20
        assert client.get("/api/v1/memories").json()["count"] == 1
        assert "holdfast_event_streams 20" in client.get("/metrics").text
    while "holdfast_event_streams 0" not in client.get("/metrics").text:
        pass


def test_a_stream_ends_when_its_key_is_revoked(hold: Holdfast, client: httpx.Client) -> None:
    hold.store(title="One", content="first")
    made = hold.key_create(name="laptop")

    with client.stream("GET", "/api/v1/events", headers={**LIVE, "x-api-key": made.key}) as stream:
        lines = stream.iter_lines()
        assert next(events(lines))["seq"] == 1
        hold.key_revoke(id=made.id)
        assert [line for line in lines if line.startswith("data")] == []


def test_a_stream_delivers_only_events_visible_to_its_caller(hold: Holdfast, client: httpx.Client) -> None:
    hold.store(title="Hidden", content="canary", scope="private")
    hold.store(title="Shown", content="x")

    with client.stream("GET", "/api/v1/events", headers={**LIVE, "x-agent-id": "ai:other@here"}) as stream:
        assert next(events(stream.iter_lines()))["memory"]["title"] == "Shown"


def test_a_closing_server_ends_its_streams(hold: Holdfast) -> None:
    hold.store(title="One", content="first")
    with ExitStack() as open_stream:
        with serve_app(build_app(hold)) as url:
            stream = open_stream.enter_context(
                httpx.stream("GET", f"{url}/api/v1/events", headers=LIVE, timeout=TIMEOUT)
            )
            lines = stream.iter_lines()
            assert next(events(lines))["seq"] == 1
        assert [line for line in lines if line.startswith("data")] == []


def test_an_idle_stream_sends_keepalives() -> None:
    class Page:
        events = ()
        next = 7

    asked: list[int] = []

    async def page(after: int) -> Any:
        asked.append(after)
        return Page

    async def first_words() -> bytes:
        watch = feed.ChangeWatcher(lambda seconds: False, asyncio.Event())
        return await anext(feed.stream_events(Page, page, watch, keep_alive=-1))

    assert asyncio.run(first_words()) == b": keep-alive\n\n"


def test_a_stream_delivers_events_of_another_server(hold: Holdfast, db: str, url: str) -> None:
    hold.store(title="Here", content="first")
    with (
        holdfast.open(db) as other,
        serve_app(build_app(other)) as elsewhere,
        httpx.stream("GET", f"{elsewhere}/api/v1/events", headers=LIVE, timeout=TIMEOUT) as stream,
    ):
        coming = events(stream.iter_lines())
        assert next(coming)["memory"]["title"] == "Here"
        for number in range(5):
            body = {"title": f"There {number}", "content": "x"}
            assert httpx.post(f"{url}/api/v1/memories", json=body, timeout=TIMEOUT).status_code == 201
            assert next(coming)["memory"]["title"] == f"There {number}"


def test_one_thread_wakes_many_streams_and_none_runs_without_followers(hold: Holdfast, client: httpx.Client) -> None:
    def watching() -> int:
        return sum(thread.name.startswith(("holdfast-watch", "holdfast-listener")) for thread in threading.enumerate())

    with ExitStack() as stack:
        one = stack.enter_context(httpx.Client(base_url=client.base_url, timeout=TIMEOUT))
        streams = [stack.enter_context(one.stream("GET", "/api/v1/events", headers=LIVE)) for _ in range(10)]
        hold.store(title="One", content="first")
        assert [next(events(stream.iter_lines()))["seq"] for stream in streams] == [1] * 10
        assert 1 <= watching() <= 2
    while watching():
        pass


def test_a_stream_survives_a_temporary_outage_and_ends_with_a_permanent_one() -> None:
    class Page(NamedTuple):
        events: tuple[Any, ...]
        next: int

    answers: list[Any] = [
        StoreUnreachable("The database is being started.", retryable=True),
        Page((Event(1),), 1),
        StoreUnreachable("The database refused the user."),
    ]

    async def page(after: int) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def read_all() -> list[bytes]:
        watch = feed.ChangeWatcher(lambda seconds: True, asyncio.Event())
        return [said async for said in feed.stream_events(Page((), 0), page, watch)]

    assert asyncio.run(read_all()) == [b'id: 1\ndata: {"seq":1}\n\n']

"""Three servers on one database behave like one."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, islice
from typing import Any

import httpx
import pytest
from serving_processes import ServerProcess, start_servers

import holdfast
from holdfast.features.history import service as history
from holdfast.kernel.context import read_clock
from timeouts import TIMEOUT, wait_until

SERVERS = 3
WRITERS = 16
LIVE = {"accept": "text/event-stream"}
DAY = 24 * 3600 * 1_000_000
OF_EACH_RECALL = re.compile('"(recall_id|last_accessed_at)":"[^"]*"|"access_count":[0-9]+')


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
def servers(db: str) -> Iterator[list[ServerProcess]]:
    with start_servers(SERVERS, db) as running:
        yield running


@pytest.fixture
def clients(servers: list[ServerProcess]) -> Iterator[list[httpx.Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(httpx.Client(base_url=server.url, timeout=TIMEOUT)) for server in servers]


def run_together(work: list[Callable[[], Any]]) -> list[Any]:
    """Run jobs started at the same time; return their answers."""
    ready = threading.Barrier(len(work))

    def run_job(job: Callable[[], Any]) -> Any:
        ready.wait()
        return job()

    with ThreadPoolExecutor(len(work)) as pool:
        return [job.result() for job in [pool.submit(run_job, job) for job in work]]


def run_writers(clients: list[httpx.Client], work: Callable[[httpx.Client, int], Any]) -> list[Any]:
    """Start all writers at the same time, each on the next server; return their answers."""
    return run_together([partial(work, clients[number % SERVERS], number) for number in range(WRITERS)])


def post_memory(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/api/v1/memories", json={"title": "Deploy day", "content": "Tuesdays.", **fields})


@contextmanager
def following(client: httpx.Client) -> Iterator[Iterator[dict[str, Any]]]:
    with client.stream("GET", "/api/v1/events", headers=LIVE) as stream:
        yield (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))


def assert_whole(db: str) -> None:
    with holdfast.open(db) as hold, hold.ctx.reading() as session:
        assert history.verify(hold.ctx, session) == []
        assert hold.ctx.store.faults() == []


@pytest.mark.full
def test_all_servers_give_the_same_answers(clients: list[httpx.Client]) -> None:
    ids = [post_memory(client, title=f"Deploy {number}").json()["id"] for number, client in enumerate(clients)]
    clients[0].put(f"/api/v1/memories/{ids[1]}", json={"content": "Wednesdays."})
    clients[1].post("/api/v1/links", json={"source_id": ids[0], "target_id": ids[2]})
    questions = [
        ("GET", "/api/v1/memories", None),
        ("GET", f"/api/v1/memories/{ids[1]}", None),
        ("GET", f"/api/v1/memories/{ids[1]}/history", None),
        ("GET", "/api/v1/search?query=deploy", None),
        ("GET", f"/api/v1/links/{ids[0]}", None),
        ("GET", "/api/v1/events", None),
        ("POST", "/api/v1/recall", {"context": "deploy wednesdays"}),
    ]
    for method, path, body in questions:
        answers = [client.request(method, path, json=body) for client in clients]
        assert [answer.status_code for answer in answers] == [200] * SERVERS, answers[0].text
        assert len({OF_EACH_RECALL.sub("", answer.text) for answer in answers}) == 1


@pytest.mark.full
def test_every_stream_delivers_the_writes_of_all_servers_in_one_order_without_gaps(clients: list[httpx.Client]) -> None:
    each = 10

    def stores(client: httpx.Client, writer: int) -> None:
        for number in range(each):
            assert post_memory(client, title=f"{writer}-{number}").status_code == 201

    with ExitStack() as stack:
        streams = [stack.enter_context(following(client)) for client in clients]
        with ThreadPoolExecutor(SERVERS) as pool:
            delivered = [pool.submit(list, islice(stream, WRITERS * each)) for stream in streams]
            run_writers(clients, stores)
            first, *others = [events.result() for events in delivered]
    assert [event["seq"] for event in first] == list(range(1, WRITERS * each + 1))
    assert others == [first] * (SERVERS - 1)


def test_concurrent_writers_of_one_title_make_one_memory_with_consecutive_versions(
    clients: list[httpx.Client], db: str
) -> None:
    answers = run_writers(
        clients, lambda client, number: post_memory(client, content=f"By {number}", on_conflict="merge")
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sorted(answer.json()["version"] for answer in answers) == list(range(1, WRITERS + 1))
    assert clients[0].get("/api/v1/memories").json()["count"] == 1
    assert_whole(db)


@pytest.mark.full
def test_only_one_of_several_exclusive_writers_gets_a_title(clients: list[httpx.Client], db: str) -> None:
    for title in "abcde":
        answers = run_writers(clients, lambda client, _, title=title: post_memory(client, title=title))
        assert Counter(answer.status_code for answer in answers) == {201: 1, 409: WRITERS - 1}
    assert clients[2].get("/api/v1/memories").json()["count"] == 5
    assert_whole(db)


@pytest.mark.full
def test_only_one_of_several_writers_expecting_the_same_version_succeeds(clients: list[httpx.Client], db: str) -> None:
    id = post_memory(clients[0]).json()["id"]

    def changes(version: int, client: httpx.Client, number: int) -> httpx.Response:
        body = {"content": f"{version} by {number}", "expected_version": version}
        return client.put(f"/api/v1/memories/{id}", json=body)

    for version in range(1, 6):
        answers = run_writers(clients, partial(changes, version))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: WRITERS - 1}
        (won,) = [answer.json() for answer in answers if answer.status_code == 200]
        shown = [client.get(f"/api/v1/memories/{id}").json() for client in clients]
        assert [(one["version"], one["content"]) for one in shown] == [(version + 1, won["content"])] * SERVERS
    assert_whole(db)


@pytest.mark.full
def test_expired_memories_are_collected_once(clients: list[httpx.Client], db: str) -> None:
    with holdfast.open(db, now=lambda: read_clock() - DAY) as yesterday:
        for number in range(50):
            yesterday.store(title=f"Short {number}", content="x", tier="short")
    post_memory(clients[0])
    answers = run_together([lambda client=client: client.post("/api/v1/gc", json={}) for client in clients * 2])
    assert sum(answer.json()["collected"] for answer in answers) == 50
    assert clients[1].get("/api/v1/memories").json()["count"] == 1
    assert clients[2].get("/api/v1/archive/stats").json()["archived_total"] == 50


@pytest.mark.full
def test_servers_with_automatic_collection_collect_once(db: str) -> None:
    with holdfast.open(db, now=lambda: read_clock() - DAY) as yesterday:
        ids = {yesterday.store(title=f"Short {number}", content="x", tier="short").id for number in range(50)}
    with start_servers(SERVERS, db, gc_interval_secs="1"), holdfast.open(db) as hold:
        wait_until(lambda: hold.archive_stats().archived_total >= 50)
        assert {memory.id for memory in hold.archive_list(limit=100).archived} == ids
    assert_whole(db)


@pytest.mark.full
def test_a_key_revoked_on_one_server_is_refused_by_all(clients: list[httpx.Client]) -> None:
    post_memory(clients[0])
    admin = clients[0].post("/api/v1/keys", json={"name": "admin", "scope": "admin"}).json()
    headers = {"x-api-key": admin["key"]}
    for number in range(5):
        made = clients[number % 3].post("/api/v1/keys", json={"name": f"k{number}"}, headers=headers).json()
        own = {"x-api-key": made["key"]}
        assert [client.get("/api/v1/memories", headers=own).status_code for client in clients] == [200] * SERVERS
        gone = clients[(number + 1) % 3].delete(f"/api/v1/keys/{made['id']}", headers=headers)
        assert gone.status_code == 200
        assert [client.get("/api/v1/memories", headers=own).status_code for client in clients] == [401] * SERVERS


@pytest.mark.full
def test_every_access_is_counted_once(servers: list[ServerProcess], clients: list[httpx.Client], db: str) -> None:
    id = post_memory(clients[0]).json()["id"]
    work = [lambda client=client: client.post("/api/v1/recall", json={"context": "tuesdays"}) for client in clients * 5]
    assert {answer.status_code for answer in run_together(work)} == {200}
    assert [server.stop() for server in servers] == [(0, "")] * SERVERS
    with holdfast.open(db) as hold:
        assert hold.get(id=id).access_count == 15


@pytest.mark.full
def test_a_rolling_restart_loses_no_acknowledged_write(
    servers: list[ServerProcess], clients: list[httpx.Client], db: str
) -> None:
    acknowledged: list[str] = []
    stop, numbers, places = threading.Event(), count(), threading.Lock()

    def writes(writer: int) -> None:
        """Like a client with several addresses: skip servers that do not answer."""
        for turn in count(writer):
            if stop.is_set():
                return
            with places:
                title = f"Memory {next(numbers)}"
            try:
                answer = post_memory(clients[turn % SERVERS], title=title)
            except httpx.TransportError:
                continue
            assert answer.status_code == 201, answer.text
            acknowledged.append(answer.json()["id"])

    with ThreadPoolExecutor(4) as pool, following(httpx.Client(base_url=servers[0].url, timeout=TIMEOUT)) as coming:
        writers = [pool.submit(writes, writer) for writer in range(4)]
        for place in (1, 2):
            before = len(acknowledged)
            assert servers[place].stop() == (0, "")
            while len(acknowledged) < before + 20:
                assert next(coming)
            servers[place] = ServerProcess(db, servers[place].port)
            servers[place].is_ready()
        stop.set()
        for writer in writers:
            writer.result()
    with holdfast.open(db) as hold:
        there = {memory["id"] for memory in hold.export()["memories"]}
    assert set(acknowledged) <= there
    assert len(acknowledged) == len(set(acknowledged)) > 40
    assert_whole(db)

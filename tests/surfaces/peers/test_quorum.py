"""Quorum writes: a peer counts only if it confirms the change, not merely if it answers."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from four_surfaces import run_command
from mcp_wire import stateless
from serving import serve_app, with_settings

import holdfast
from engines import ENGINES_BY_RING
from holdfast.features.sync.quorum import pending_acks as unreplicated
from holdfast.features.sync.quorum import service as quorum
from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.journal import journal
from holdfast.surfaces.http.app import build_app
from holdfast.surfaces.mcp.streamable import endpoint
from timeouts import TIMEOUT, wait_until

OWNER = "human:ann@home"
DAY = 86_400 * 10**6
MAX_TIMEOUT_MS = 60_000
"""Milliseconds for a quorum: the most that may be set, for where nobody is to be late."""
MCP = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "memory_store",
}


class Stores:
    """Several stores of one person, each served by a real server or not."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def open(self, name: str, address: str | None = None, **more: Any) -> holdfast.Holdfast:
        where = address or str(self._folder / f"{name}.db")
        return self._stack.enter_context(holdfast.open(where, agent_id=OWNER, **more))

    def serve(self, store: holdfast.Holdfast, *peers: str, needed: int = 0, timeout_ms: int = MAX_TIMEOUT_MS) -> str:
        settings = {"quorum_writes": needed, "quorum_peers": peers, "quorum_timeout_ms": timeout_ms}
        return self._stack.enter_context(serve_app(build_app(with_settings(store, **settings))))

    def peer(self, name: str, **more: Any) -> tuple[holdfast.Holdfast, str]:
        store = self.open(name, **more)
        return store, self.serve(store)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    with ExitStack() as stack:
        yield Stores(tmp_path, stack)


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the delays before a retry."""
    monkeypatch.setattr(quorum, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(quorum, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(quorum, "CLEANUP_SECONDS", 0.02)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def here(stores: Stores, db: str) -> holdfast.Holdfast:
    return stores.open("here", db)


@pytest.fixture
def unused_address() -> Iterator[str]:
    """The reserved address of a server that does not exist."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def store(url: str, title: str = "Port") -> httpx.Response:
    return httpx.post(f"{url}/api/v1/memories", json={"title": title, "content": "It is 8080."}, timeout=TIMEOUT)


def pending(hold: holdfast.Holdfast) -> int:
    return int(hold.sync_status().pending_replication)


@pytest.mark.parametrize("engine", ENGINES_BY_RING, indirect=True)
def test_a_write_is_acknowledged_when_enough_stores_have_it(stores: Stores, here: holdfast.Holdfast) -> None:
    (one, at_one), (other, at_other) = stores.peer("one"), stores.peer("other")
    url = stores.serve(here, at_one, at_other, needed=3)
    made = store(url)
    assert made.status_code == 201
    assert [hold.get(id=made.json()["id"]).content for hold in (one, other)] == ["It is 8080."] * 2
    changed = httpx.put(f"{url}/api/v1/memories/{made.json()['id']}", json={"content": "It is 9090."}, timeout=TIMEOUT)
    assert changed.status_code == 200
    assert {hold.get(id=made.json()["id"]).content for hold in (here, one, other)} == {"It is 9090."}
    wait_until(lambda: pending(here) == 0)


def test_enough_stores_acknowledge_although_one_is_down(
    stores: Stores, here: holdfast.Holdfast, unused_address: str
) -> None:
    one, at_one = stores.peer("one")
    made = store(stores.serve(here, at_one, unused_address, needed=2))
    assert made.status_code == 201
    assert one.get(id=made.json()["id"]).title == "Port"


@pytest.mark.parametrize("engine", ENGINES_BY_RING, indirect=True)
def test_too_few_acknowledgements_are_an_error_and_the_local_write_is_pending(
    stores: Stores, here: holdfast.Holdfast, unused_address: str
) -> None:
    one, at_one = stores.peer("one")
    url = stores.serve(here, at_one, unused_address, needed=3)
    refused = store(url)
    answer = refused.json()
    assert (refused.status_code, answer["code"], answer["got"], answer["needed"]) == (503, "QUORUM_NOT_MET", 2, 3)
    assert (answer["peers"][at_one], answer["reason"], "retryable" in answer) == ("kept", "unreachable", False)
    (memory,) = here.list().memories
    assert answer["pending"] == [{"kind": "memory", "id": memory.id}]
    assert one.get(id=memory.id).title == "Port"
    assert pending(here) == 1
    (section,) = [section for section in here.doctor().sections if section.name == "replication"]
    assert section.facts["pending"] == 1
    assert httpx.get(f"{url}/api/v1/memories/{memory.id}", timeout=TIMEOUT).status_code == 200


def test_a_write_with_all_peers_down_stays_local_until_one_returns(
    stores: Stores, here: holdfast.Holdfast, unused_address: str
) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    url = stores.serve(here, f"http://127.0.0.1:{port}", unused_address, needed=2)
    assert (store(url).json()["got"], pending(here)) == (1, 1)
    one = stores.open("one")
    with serve_app(build_app(one), port):
        wait_until(lambda: pending(here) == 0)
        assert [memory.title for memory in one.list().memories] == ["Port"]


def test_a_peer_that_quarantines_the_change_does_not_count(stores: Stores, here: holdfast.Holdfast) -> None:
    slow, at_slow = stores.peer("slow", now=lambda: here.ctx.now() - 30 * DAY)
    answer = store(stores.serve(here, at_slow, needed=2)).json()
    assert (answer["code"], answer["got"], slow.quarantine().total) == ("QUORUM_NOT_MET", 1, 1)
    assert "seven days ahead" in answer["peers"][at_slow]
    assert answer["reason"] == "rejected"


@pytest.mark.parametrize("body", [b"{}", b"<html>fine</html>", b'{"protocol":1,"followed":9,"outcomes":[]}'])
def test_a_peer_that_only_answers_success_does_not_count(stores: Stores, here: holdfast.Holdfast, body: bytes) -> None:
    with answering(body) as url:
        answer = store(stores.serve(here, url, needed=2)).json()
    assert (answer["code"], answer["got"]) == ("QUORUM_NOT_MET", 1)


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """A server that answers 200 to everything."""

    class AlwaysOk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), AlwaysOk)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_hanging_peer_is_awaited_only_until_the_timeout_and_blocks_no_reader(
    stores: Stores, here: holdfast.Holdfast
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = stores.serve(here, f"http://127.0.0.1:{silent.getsockname()[1]}", needed=2, timeout_ms=300)
        with ThreadPoolExecutor(12) as pool:
            answers = [pool.submit(store, url, f"Number {n}") for n in range(12)]
            assert httpx.get(f"{url}/api/v1/memories", timeout=TIMEOUT).status_code == 200
            answers_read = [answer.result().json() for answer in answers]
        assert {(one["code"], one["got"], one["reason"]) for one in answers_read} == {("QUORUM_NOT_MET", 1, "timeout")}
        assert here.stats().total == pending(here) == 12


@pytest.mark.parametrize("engine", ENGINES_BY_RING, indirect=True)
def test_a_pending_write_is_delivered_by_the_next_server_of_the_store(
    stores: Stores, here: holdfast.Holdfast, unused_address: str
) -> None:
    with serve_app(build_app(with_settings(here, quorum_writes=2, quorum_peers=(unused_address,)))) as url:
        assert store(url).status_code == 503
    one, at_one = stores.peer("one")
    stores.serve(here, at_one, needed=2)
    wait_until(lambda: pending(here) == 0)
    assert [memory.title for memory in one.list().memories] == ["Port"]


def test_a_pending_write_without_a_waiter_is_delivered(stores: Stores, here: holdfast.Holdfast) -> None:
    one, at_one = stores.peer("one")
    stores.serve(here, at_one, needed=2)
    here.store(title="Port", content="It is 8080.")
    with here.ctx.store.transaction() as session:
        unreplicated.mark_pending(session, [journal.Position(1, b"")], journal.get_head(session).origin, here.ctx.now())
    wait_until(lambda: pending(here) == 0)
    assert [memory.title for memory in one.list().memories] == ["Port"]


def test_two_servers_waiting_for_each_other_do_not_deadlock(stores: Stores, here: holdfast.Holdfast) -> None:
    other, ports = stores.open("other"), []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    mine, theirs = (
        with_settings(hold, quorum_writes=2, quorum_peers=(url,), quorum_timeout_ms=MAX_TIMEOUT_MS)
        for hold, url in ((here, urls[1]), (other, urls[0]))
    )
    with serve_app(build_app(mine), ports[0]), serve_app(build_app(theirs), ports[1]), ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(store, urls[n % 2], f"Number {n}") for n in range(20)]
        assert {answer.result().status_code for answer in answers} == {201}
    assert here.stats().total == other.stats().total == 20


def test_a_store_named_under_two_addresses_counts_once(stores: Stores, here: holdfast.Holdfast) -> None:
    _, at_one = stores.peer("one")
    answer = store(stores.serve(here, at_one, at_one.replace("127.0.0.1", "localhost"), needed=3)).json()
    assert (answer["code"], answer["got"], set(answer["peers"].values())) == ("QUORUM_NOT_MET", 2, {"kept"})


def test_a_peer_without_access_to_a_namespace_does_not_count_for_it(stores: Stores, here: holdfast.Holdfast) -> None:
    one, at_one = stores.peer("one")
    here.peer_add(name="one", token=one.peer_token().token, url=at_one, tell=["open/**"])
    url = stores.serve(here, at_one, needed=2)
    body = {"title": "Port", "content": "It is 8080."}
    answers = [
        httpx.post(f"{url}/api/v1/memories", json={**body, "namespace": namespace}, timeout=TIMEOUT).json()
        for namespace in ("open", "closed")
    ]
    assert (answers[0]["title"], answers[1]["got"], one.stats().total) == ("Port", 1, 1)
    assert answers[1]["peers"] == {at_one: "may not read its namespace"}


def test_a_peer_also_synced_by_the_daemon_counts(stores: Stores, here: holdfast.Holdfast) -> None:
    _, at_one = stores.peer("one")
    both = with_settings(
        here, sync_peers=(at_one,), quorum_writes=2, quorum_peers=(at_one,), quorum_timeout_ms=MAX_TIMEOUT_MS
    )
    with serve_app(build_app(both)) as url, ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda n: store(url, f"Number {n}").json(), range(20))]
    assert [one for one in answers if "code" in one] == []


def test_a_write_over_mcp_follows_the_same_quorum(stores: Stores, here: holdfast.Holdfast, unused_address: str) -> None:
    served = with_settings(here, quorum_writes=2, quorum_peers=(unused_address,))
    message = stateless(1, "tools/call", {"name": "memory_store", "arguments": {"title": "Port", "content": "8080"}})
    with serve_app(build_app(served, endpoint(served))) as url:
        answer = httpx.post(f"{url}/mcp", json=message, headers=MCP, timeout=TIMEOUT).text
    assert "QUORUM_NOT_MET" in answer
    assert pending(here) == 1


@pytest.mark.parametrize(
    ("needed", "peers"),
    [(3, ("http://a:1",)), (2, ("http://a:1", "http://a:1/")), (2, ("ftp://a",)), (0, ("http://a:1",)), (2, ())],
)
def test_an_impossible_quorum_is_refused_at_once(needed: int, peers: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSetting):
        quorum.validate_settings(needed, peers)


@pytest.mark.parametrize(
    "flags",
    [
        ["--quorum-writes=3", "--quorum-peers=http://a:1"],
        ["--quorum-writes=2", "--quorum-peers=http://a:1,http://a:1/"],
        ["--quorum-writes=2", "--quorum-peers=http://a:1", "--quorum-timeout-ms=60000"],
        ["--quorum-writes=-1"],
    ],
)
def test_a_server_does_not_start_with_an_impossible_quorum(tmp_path: Path, flags: list[str]) -> None:
    code, _, error = run_command([f"--db={tmp_path / 'memory.db'}", "--json", "serve", "--port=0", *flags])
    assert (code, b"MISCONFIGURED" in error) == (78, True)

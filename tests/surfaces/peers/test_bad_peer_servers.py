"""Servers that are no peers, or faulty ones: each is reported with the reason, and nothing changes here."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from serving import open_http_client, serve_app

import holdfast
from holdfast.features.sync.exchange import sync_with_server
from holdfast.features.sync.peers.client import MAX_MESSAGE_BYTES, PeerClient
from holdfast.kernel.errors import PeerFailed
from holdfast.kernel.net.outbound import PeerCredentials
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.http.app import build_app
from timeouts import TIMEOUT

Json = dict[str, Any]
Answer = Callable[[BaseHTTPRequestHandler, str, Json], None]
SECRET = "a-secret-that-must-not-be-shown"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(tmp_path / "here.db"), agent_id="human:ann@home") as opened:
        opened.store(title="Mine", content="I said this.")
        yield opened


@pytest.fixture
def there(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(tmp_path / "there.db"), agent_id="human:ann@home") as opened:
        opened.store(title="Theirs", content="They said that.")
        opened.store(title="Also theirs", content="They said more.")
        yield opened


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """A server that answers every request with the given function."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            answer(self, self.path, json.loads(gzip.decompress(body) if packed else body))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    headers_sent = {"Content_Type": "application/json", "Content_Length": str(len(body)), **headers}
    for name, value in headers_sent.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def reply_with(body: bytes, status: int = 200, **headers: str) -> Answer:
    return lambda handler, path, asked: send(handler, body, status, **headers)


def endless(handler: BaseHTTPRequestHandler, path: str, asked: Json) -> None:
    """An oversized body without a length."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Connection", "close")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"0" * 1_000_000)
    except OSError:
        handler.close_connection = True


def cut(handler: BaseHTTPRequestHandler, path: str, asked: Json) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"protocol": 1, ')
    handler.close_connection = True


BOMB = gzip.compress(b" " * (MAX_MESSAGE_BYTES + 1))
BAD: dict[str, tuple[Answer, str]] = {
    "a page for people": (reply_with(b"<html>Hello</html>", Content_Type="text/html"), "is not a Holdfast server"),
    "a page that says it is JSON": (reply_with(b"<html>Hello</html>"), "a response that this release cannot read"),
    "another JSON": (reply_with(b'{"status": "ok"}'), "a response that this release cannot read"),
    "ten gigabytes, as it says": (reply_with(b"", Content_Length=str(10**10)), "more than"),
    "more and more": (endless, "more than"),
    "half an answer": (cut, "incomplete response|closed the connection"),
    "half a packet": (reply_with(gzip.compress(b"{}" * 999)[:-9], Content_Encoding="gzip"), "is truncated"),
    "a bomb": (reply_with(BOMB, Content_Encoding="gzip"), "when decompressed"),
    "no packet": (reply_with(b"{}", Content_Encoding="gzip"), "not valid gzip"),
    "nothing there": (reply_with(b"", 404), "does not know this path"),
    "a fault of its own": (reply_with(b"oh", 500), "HTTP 500"),
    "another way": (reply_with(b"", 307, Location="http://127.0.0.1:1/"), "redirects"),
    "what it was told": (reply_with(json.dumps({"code": "NO", "error": SECRET}).encode(), 403), r"\(HTTP 403, NO\)"),
    "a nest": (reply_with(b"[" * 100_000), "a response that this release cannot read"),
}


@pytest.mark.parametrize(("answer", "said"), BAD.values(), ids=BAD)
def test_an_address_without_a_peer_is_named_and_nothing_changes(
    here: holdfast.Holdfast, answer: Answer, said: str
) -> None:
    before = here.verify().head
    with answering(answer) as url, pytest.raises(PeerFailed, match=said) as refused:
        ask(here, url)
    assert SECRET not in refused.value.message
    assert here.verify().head == before
    assert here.stats().total == 1


def test_a_server_sending_a_byte_now_and_then_times_out(here: holdfast.Holdfast) -> None:
    over = Event()

    def drip(handler: BaseHTTPRequestHandler, path: str, asked: Json) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        try:
            while not over.wait(0.01):
                handler.wfile.write(b"x")
        except OSError:
            handler.close_connection = True

    with answering(drip) as url, pytest.raises(PeerFailed, match=r"within 0\.5 seconds"):
        ask(here, url, timeout=0.5)
    over.set()


def tamper_answer(there: holdfast.Holdfast, name: str, tamper: Callable[[Json], None]) -> Answer:
    """Return a handler with the answers of a real store, one of them altered."""

    def answer(handler: BaseHTTPRequestHandler, path: str, asked: Json) -> None:
        operation = path.rpartition("/")[2]
        told = json.loads(wire.encode(there.call(f"peer_{operation}", {"message": asked})))
        if operation == name:
            tamper(told)
        send(handler, json.dumps(told).encode())

    return answer


def twice(told: Json) -> None:
    told["changes"] += told["changes"]


LIES: dict[str, tuple[str, Callable[[Json], None], str]] = {
    "a place beyond its end": ("feed", lambda told: told.update(upto=10**6), "inconsistent journal position"),
    "a place behind": ("feed", lambda told: told.update(upto=-1), "inconsistent journal position"),
    "the same place for ever": ("feed", lambda told: told.update(upto=0, more=True), "again and again"),
    "another store": ("feed", lambda told: told.update(origin="another.1"), "changed its replica id"),
    "less than nothing": ("hello", lambda told: told.update(followed=-1), "invalid cursor"),
    "an older form": ("hello", lambda told: told.update(protocol=0), "uses protocol 0"),
    "no outcomes": ("take", lambda told: told.update(outcomes=[]), "did not return an outcome for each change"),
    "nothing kept": ("take", lambda told: told.update(followed=0), "did not store the page"),
}


@pytest.mark.parametrize(("name", "tamper", "said"), LIES.values(), ids=LIES)
def test_a_peer_that_contradicts_itself_is_refused(
    here: holdfast.Holdfast, there: holdfast.Holdfast, name: str, tamper: Callable[[Json], None], said: str
) -> None:
    way = "push" if name == "take" else "pull"
    before = here.verify().head
    with answering(tamper_answer(there, name, tamper)) as url, pytest.raises(holdfast.HoldfastError, match=said):
        ask(here, url, way=way)
    assert here.verify().head == before
    with serve_app(build_app(there)) as url:
        here.sync(remote=url)
    assert here.sync_digest().digest == there.sync_digest().digest


def test_changes_sent_twice_are_applied_once(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    with answering(tamper_answer(there, "feed", twice)) as url:
        assert here.sync(remote=url, direction="pull").imported == 2
    assert here.verify().intact


@pytest.mark.parametrize("harm", [{"n": 1.5}, {"record": None}, {"at": 2**70}, {"body": [1]}, {"op": "x\x00"}])
def test_an_unreadable_change_is_refused_and_the_others_are_applied(
    here: holdfast.Holdfast, there: holdfast.Holdfast, harm: Json
) -> None:
    def spoil(told: Json) -> None:
        told["changes"][0].update(harm)

    with answering(tamper_answer(there, "feed", spoil)) as url:
        done = here.sync(remote=url, direction="pull")
    assert (done.imported, [one.reason for one in done.errors]) == (1, ["invalid"])
    assert here.verify().intact


def test_a_peer_that_misreported_its_position_is_read_again_from_the_start(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    def ahead(told: Json) -> None:
        told.update(upto=10**6, seq=10**6, changes=[])

    with answering(tamper_answer(there, "feed", ahead)) as url:
        assert here.sync(remote=url, direction="pull").imported == 0
    with serve_app(build_app(there)) as url:
        assert here.sync(remote=url, direction="pull").imported == 2


def test_a_write_on_the_peer_during_a_push_is_not_skipped(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    def meanwhile(handler: BaseHTTPRequestHandler, path: str, asked: Json) -> None:
        if path.endswith("take") and asked["changes"]:
            there.store(title="Meanwhile", content="It was stored in between.")
        tamper_answer(there, "nothing", lambda told: None)(handler, path, asked)

    with answering(meanwhile) as url:
        here.sync(remote=url)
        assert here.sync(remote=url).pulled == 1
    assert here.sync_digest().digest == there.sync_digest().digest


def test_deletions_of_an_older_release_are_recognised_by_their_outcomes(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    def older(told: Json) -> None:
        for name in ("conflicts", "settled", "deleted", "restored"):
            del told[name]

    with answering(tamper_answer(there, "take", older)) as url:
        here.sync(remote=url)
        mine, theirs = (memory.id for memory in here.list(limit=2).memories)
        here.delete(id=mine)
        there.update(id=theirs, content="At once there.")
        here.update(id=theirs, content="At once here.")
        done = here.sync(remote=url, direction="push")
        assert (done.exported, done.deletes, done.conflicts, done.rejected) == (2, 1, 1, 0)


def test_an_unknown_field_of_a_newer_release_is_ignored(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    def newer(told: Json) -> None:
        told.update(protocol=1, of_tomorrow={"so": 1}, changes=[one | {"of_tomorrow": 1} for one in told["changes"]])

    with answering(tamper_answer(there, "feed", newer)) as url:
        assert here.sync(remote=url, direction="pull").imported == 2


FEED = "/api/v1/peer/feed"
MESSAGES: dict[str, tuple[str, str, bytes, int, str]] = {
    "a bomb": (FEED, "gzip", BOMB, 400, "when decompressed"),
    "half a packet": (FEED, "gzip", gzip.compress(b'{"after": 0}')[:-3], 400, "is truncated"),
    "no packet": (FEED, "gzip", b"{}", 400, "not valid gzip"),
    "another packing": (FEED, "br", b"{}", 415, "This Content-Encoding is not supported"),
    "a packet for another": (
        "/api/v1/memories",
        "gzip",
        gzip.compress(b"{}"),
        415,
        "This Content-Encoding is not supported",
    ),
    "more than fits": (FEED, "identity", b" " * (MAX_MESSAGE_BYTES + 1), 413, "at most"),
    "an older form": (
        FEED,
        "identity",
        b'{"protocol": 0, "after": 0, "known": {}, "limit": 1}',
        409,
        "uses protocol 0",
    ),
    "a place behind all": (
        FEED,
        "identity",
        b'{"after": -1, "known": {}, "limit": 1}',
        400,
        "after must be at least 0",
    ),
}


@pytest.mark.parametrize(("path", "packing", "body", "status", "said"), MESSAGES.values(), ids=MESSAGES)
def test_a_server_refuses_malformed_messages(
    there: holdfast.Holdfast, path: str, packing: str, body: bytes, status: int, said: str
) -> None:
    with open_http_client(there) as client:
        headers = {"Content-Type": "application/json", "Content-Encoding": packing}
        answer = client.post(path, content=body, headers=headers)
    assert (answer.status_code, said in answer.json()["error"]) == (status, True)


def ask(hold: holdfast.Holdfast, url: str, way: Any = "merge", timeout: float = TIMEOUT) -> None:
    link = PeerClient(url, PeerCredentials(api_key=SECRET), timeout=timeout)
    try:
        sync_with_server(hold.ctx, link, way)
    finally:
        link.close()

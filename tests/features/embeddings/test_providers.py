"""Providers over HTTP: requests, and harmless failures."""

import json
import socket
import ssl
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trustme
from providers import (
    DIM,
    Behaviour,
    Handler,
    Provider,
    ReceivedRequest,
    as_ollama,
    as_openai,
    honest,
    numbers,
    provider,
)

import holdfast
from holdfast.app import choose_embedder
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.vector import unit_vector
from holdfast.settings import Settings

KEY = "sk-hunter2"


def asking(url: str, **settings: Any) -> Embedder:
    values = {"embedder": "openai", "embedding_model": "m", "embedding_key": KEY, "embedding_url": url, **settings}
    found = choose_embedder(Settings(**values))
    assert found
    return found


def failure(embedder: Embedder, *texts: str) -> EmbedderFailed:
    """Return the error of an embedder. The key never appears in anything that could be shown or logged."""
    with pytest.raises(EmbedderFailed) as failed:
        embedder.embed(texts or ["x"])
    assert KEY not in "".join(traceback.format_exception(failed.value)) + str(failed.value.to_json())
    assert failed.value.message.startswith("The embedding provider at 127.0.0.1:")
    return failed.value


def test_an_openai_compatible_provider_gets_openai_requests() -> None:
    with provider(honest) as server:
        vectors = asking(server.url).embed(["a", "b"])
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.body == {"model": "m", "input": ["a", "b"], "encoding_format": "float"}
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.headers["Content-Type"] == "application/json"
    assert vectors == [unit_vector(numbers("a")), unit_vector(numbers("b"))]


def test_ollama_gets_its_own_request_format() -> None:
    with provider(honest) as server:
        vectors = asking(server.url + "/", embedder="ollama", embedding_key=None).embed(["a"])
    (asked,) = server.asked
    assert asked.path == "/v1/api/embed"
    assert asked.body == {"model": "m", "input": ["a"]}
    assert "Authorization" not in asked.headers
    assert vectors == [unit_vector(numbers("a"))]


def test_many_texts_are_sent_in_batches_and_a_long_one_is_truncated() -> None:
    with provider(honest) as server:
        asking(server.url).embed(["x" * 100_000, *map(str, range(129))])
    assert [len(asked.body["input"]) for asked in server.asked] == [64, 64, 2]
    assert server.asked[0].body["input"][0] == "x" * 4000


def test_a_provider_has_its_configured_name_and_no_dimension_before_an_answer() -> None:
    with provider(honest) as server:
        embedder = asking(server.url, embedding_model="nomic-embed-text:v1.5")
        assert (embedder.model, embedder.dim, embedder.remote) == ("nomic-embed-text:v1.5", None, True)
        embedder.embed(["x"])
    assert embedder.dim == DIM


def replying(body: object, status: int = 200, **headers: str) -> Behaviour:
    return lambda handler, _: handler.reply(body, status, **headers)


def row(text: str, at: int = 0) -> bytes:
    """An OpenAI answer with one vector given as raw text."""
    return b'{"data": [{"index": %d, "embedding": [%s]}]}' % (at, text.encode())


BAD_ANSWERS = {
    "html": b"<!DOCTYPE html><title>Sign in</title>",
    "not utf-8": b'{"data": "\xff\xfe"}',
    "a number": b"1",
    "another shape": {"vectors": [[1.0]]},
    "an error": {"error": {"message": f"Incorrect API key provided: {KEY}"}},
    "nan": row("NaN, 1"),
    "infinity": row("1, -Infinity"),
    "too large for a float": row("1, 1e999"),
    "too large for any number": row("1" + "0" * 400),
    "null": row("null"),
    "text": row('"1"'),
    "nested": row("[1]"),
    "deeply nested": b'{"x": ' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "no numbers": row(""),
    "only zeros": row("0, 0, -0.0"),
    "too many numbers": row(",".join(["1"] * 2001)),
    "no vectors": as_openai([]),
    "two vectors": as_openai([[1.0], [1.0]]),
    "another index": row("1", at=1),
    "base64": {"data": [{"index": 0, "embedding": "AACAPw=="}]},
}


@pytest.mark.parametrize("body", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_an_answer_without_embeddings_is_a_permanent_error(body: object) -> None:
    with provider(replying(body)) as server:
        embedder = asking(server.url)
        failed = failure(embedder)
    assert "returned" in failed.message
    assert not failed.retryable
    assert embedder.dim is None


def test_an_invalid_answer_of_ollama_is_an_error() -> None:
    for body in (as_openai([[1.0]]), as_ollama([]), as_ollama([[]]), as_ollama([[1.0], [1.0]])):
        with provider(replying(body)) as server:
            assert not failure(asking(server.url, embedder="ollama")).retryable


def test_huge_and_tiny_numbers_are_accepted_because_only_direction_counts() -> None:
    for text, same in (("1e308, -1e308", [1.0, -1.0]), ("3e-320, 0", [1.0, 0.0]), ("3, 4", [0.6, 0.8])):
        with provider(replying(row(text))) as server:
            assert asking(server.url).embed(["x"]) == [unit_vector(same)]


def test_mixed_dimensions_in_one_answer_are_refused() -> None:
    with provider(replying(as_openai([[1.0], [1.0, 2.0]]))) as server:
        embedder = asking(server.url)
        failed = failure(embedder, "x", "y")
    assert "1 and 2 dimensions" in failed.message
    assert not failed.retryable
    assert embedder.dim is None


def test_a_changed_dimension_is_refused_and_the_first_is_kept() -> None:
    with provider(honest) as server:
        embedder = asking(server.url)
        before = embedder.embed(["x"])
        server.behave = replying(as_openai([[1.0] * (DIM + 1)]))
        failed = failure(embedder)
        server.behave = honest
        assert embedder.embed(["x"]) == before
    assert f"{DIM} and {DIM + 1} dimensions" in failed.message
    assert not failed.retryable
    assert embedder.dim == DIM


@pytest.mark.parametrize(
    ("status", "retryable", "said"),
    [
        (204, False, "HTTP 204"),
        (400, False, "HTTP 400"),
        (401, False, "embedding_key"),
        (403, False, "embedding_key"),
        (404, False, "embedding_model"),
        (408, True, "HTTP 408"),
        (413, False, "HTTP 413"),
        (429, True, "HTTP 429"),
        (500, True, "HTTP 500"),
        (503, True, "HTTP 503"),
    ],
)
def test_a_provider_refusal_gives_advice_and_says_whether_to_retry(status: int, retryable: bool, said: str) -> None:
    with provider(replying({"error": f"no {KEY}"}, status)) as server:
        failed = failure(asking(server.url))
    assert said in failed.message
    assert failed.retryable is retryable


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(status: int) -> None:
    with provider(honest) as other, provider(replying(b"", status, Location=other.url + "/embeddings")) as server:
        failed = failure(asking(server.url))
    assert "embedding_url" in failed.message
    assert not failed.retryable
    assert other.asked == []


def test_environment_proxies_do_not_receive_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with provider(honest) as proxy, provider(honest) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        asking(server.url).embed(["x"])
    assert proxy.asked == []


def silent(handler: Handler, _: ReceivedRequest) -> None:
    handler.server.closing.wait()


def dripping_head(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.server.closing.wait(0.01):
        handler.wfile.write(b"x")


def dripping_lines(handler: Handler, _: ReceivedRequest) -> None:
    while not handler.server.closing.wait(0.01):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def dripping_body(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not handler.server.closing.wait(0.01):
        handler.wfile.write(b" ")


@pytest.mark.parametrize("behave", [silent, dripping_head, dripping_lines, dripping_body])
def test_an_endless_provider_answer_times_out(behave: Behaviour) -> None:
    with provider(behave) as server:
        failed = failure(asking(server.url, embedding_timeout_secs=0.2))
    assert "within 0.2 seconds" in failed.message
    assert failed.retryable


def endless(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not handler.server.closing.is_set():
        handler.wfile.write(b" " * 65_536)


def endless_chunks(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not handler.server.closing.is_set():
        handler.wfile.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")


def too_long_body(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
    while not handler.server.closing.is_set():
        handler.wfile.write(b" " * 65_536)


@pytest.mark.parametrize("behave", [endless, endless_chunks, too_long_body])
def test_a_too_large_answer_is_cut_off(behave: Behaviour) -> None:
    with provider(behave) as server:
        failed = failure(asking(server.url))
    assert "bytes" in failed.message
    assert not failed.retryable


def hanging_up(handler: Handler, _: ReceivedRequest) -> None:
    handler.close_connection = True


def nothing(handler: Handler, _: ReceivedRequest) -> None:
    handler.reply(b"")


def cut_in_the_head(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")


def cut_in_the_body(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"data": [')


def cut_in_a_chunk(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{"data": [')


def no_http(handler: Handler, _: ReceivedRequest) -> None:
    handler.wfile.write(b"220 mail.example.org ESMTP " + KEY.encode() + b"\r\n")


@pytest.mark.parametrize("behave", [hanging_up, nothing, cut_in_the_head, cut_in_the_body, cut_in_a_chunk, no_http])
def test_a_broken_connection_is_retryable(behave: Behaviour) -> None:
    with provider(behave) as server:
        assert failure(asking(server.url)).retryable


def test_an_unreachable_provider_is_retryable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failed = failure(asking(f"http://127.0.0.1:{port}"))
    assert "cannot be reached" in failed.message
    assert failed.retryable


def test_a_provider_recovers_automatically() -> None:
    with provider(replying({}, 503)) as server:
        embedder = asking(server.url)
        failure(embedder)
        server.behave = honest
        assert embedder.embed(["x"]) == [unit_vector(numbers("x"))]


@contextmanager
def secure() -> Iterator[tuple[Provider, trustme.CA]]:
    """A provider over TLS, and its certificate authority."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with Provider(honest) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server, authority
        finally:
            server.shutdown()


def test_an_unknown_certificate_is_not_trusted() -> None:
    with secure() as (server, _):
        failed = failure(asking(server.url.replace("http:", "https:")))
    assert "certificate" in failed.message
    assert not failed.retryable
    assert server.asked == []


def test_a_provider_is_called_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with secure() as (server, authority), authority.cert_pem.tempfile() as known:
        monkeypatch.setenv("SSL_CERT_FILE", known)
        assert asking(server.url.replace("http:", "https:")).embed(["x"]) == [unit_vector(numbers("x"))]


def test_requests_are_json_for_any_text() -> None:
    text = 'quote " backslash \\ NUL \x00 half \ud800 emoji 😀 line \n'
    with provider(honest) as server:
        asking(server.url).embed([text])
    assert server.asked[0].body["input"] == [text.replace("\ud800", "?")]
    assert json.dumps(server.asked[0].body)


def test_a_hanging_provider_is_awaited_once_and_then_skipped() -> None:
    with provider(silent) as server:
        embedder = asking(server.url, embedding_timeout_secs=0.2)
        failure(embedder)
        again = failure(embedder)
    assert "is skipped for" in again.message
    assert "did not answer within 0.2 seconds" in again.message
    assert again.retryable
    assert len(server.asked) == 1


def test_a_recall_reports_its_keyword_fallback_and_the_next_one_does_not_wait(tmp_path: Path) -> None:
    with provider(silent) as server:
        values = {"embedder": "openai", "embedding_url": server.url, "embedding_timeout_secs": 0.2}
        settings = Settings(db=str(tmp_path / "m.db"), **values)
        with holdfast.app.open(settings=settings, once=True) as hold:
            hold.store(title="a", content="The heron waits.")
            first, second = (hold.recall("heron") for _ in range(2))
    assert [len(answer.memories) for answer in (first, second)] == [1, 1]
    assert "did not answer within 0.2 seconds" in first.meta.degraded
    assert "is skipped for" in second.meta.degraded
    assert len(server.asked) == 1

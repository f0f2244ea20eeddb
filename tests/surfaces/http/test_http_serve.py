"""`holdfast serve` as a process: one line when ready, and a clean exit."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from serving import store_over_http

import holdfast
from timeouts import TIMEOUT

SERVE = (sys.executable, "-c", "from holdfast.__main__ import main; main()", "serve")


@contextmanager
def running_server(db: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server and its address."""
    command = [*SERVE, "--db", db, "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr
        greeting = process.stderr.readline()
        found = re.search(r"http://\S+:[1-9][0-9]+", greeting)
        assert found, greeting + process.stderr.read()
        try:
            yield process, found[0]
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_the_server_prints_its_address_serves_and_exits_with_success(db: str, how: signal.Signals) -> None:
    with running_server(db) as (process, url):
        with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
            id = store_over_http(client)["id"]
            assert client.get("/health").json()["status"] == "ok"
        process.send_signal(how)
        out, rest = process.communicate(timeout=TIMEOUT)

        assert (process.returncode, out, rest) == (0, "", "")
    with holdfast.open(db) as hold:
        assert hold.get(id=id).title == "Deploy day"


@pytest.mark.full
def test_the_server_stops_despite_an_open_event_stream(db: str) -> None:
    with running_server(db) as (process, url), httpx.Client(base_url=url, timeout=TIMEOUT) as client:
        store_over_http(client)
        with client.stream("GET", "/api/v1/events", headers={"accept": "text/event-stream"}) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "id: 1"
            process.terminate()
            assert [line for line in lines if line.startswith("id")] == []
        _, rest = process.communicate(timeout=TIMEOUT)

        assert (process.returncode, rest) == (0, "")


@pytest.mark.full
def test_accesses_are_flushed_at_the_latest_when_the_server_stops(db: str) -> None:
    with running_server(db) as (process, url):
        with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
            id = store_over_http(client)["id"]
            client.post("/api/v1/recall", json={"context": "tuesdays"})
        process.terminate()
        process.communicate(timeout=TIMEOUT)
    with holdfast.open(db) as hold:
        assert hold.get(id=id).access_count == 1


@pytest.mark.full
def test_mcp_is_served_beside_the_api_behind_the_same_guard(db: str) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"accept": "application/json, text/event-stream"}
    with running_server(db) as (_, url), httpx.Client(base_url=url, timeout=TIMEOUT) as client:
        assert client.post("/mcp", json=ping, headers={**accept, "host": "evil.com"}).status_code == 421
        assert client.post("/mcp", json=ping, headers={**accept, "origin": "http://evil.com"}).status_code == 403
        assert client.post("/mcp", json=ping, headers=accept).status_code < 500
        with holdfast.open(db) as hold:
            made = hold.key_create(name="laptop")
        refused = client.post("/mcp", json=ping, headers=accept)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert client.post("/mcp", json=ping, headers={**accept, "x-api-key": made.key}).status_code not in (401, 403)


def run_failing(db: str, *options: str) -> tuple[int, str]:
    done = subprocess.run([*SERVE, "--db", db, *options], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.returncode, done.stderr


@pytest.mark.full
def test_without_a_key_the_server_refuses_to_serve_other_machines(db: str) -> None:
    code, output = run_failing(db, "--host", "0.0.0.0", "--port", "0")

    assert code == 78
    assert "there is no key" in output


@pytest.mark.full
def test_with_a_key_the_server_serves_other_machines(db: str) -> None:
    with holdfast.open(db) as hold:
        made = hold.key_create(name="laptop")
    with (
        running_server(db, "--host", "0.0.0.0") as (_, url),
        httpx.Client(base_url=url.replace("0.0.0.0", "127.0.0.1"), timeout=TIMEOUT) as client,
    ):
        assert client.get("/api/v1/memories").status_code == 401
        assert client.get("/api/v1/memories", headers={"x-api-key": made.key}).status_code == 200


@pytest.mark.full
def test_a_taken_port_is_reported_plainly(db: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output = run_failing(db, "--port", str(taken.getsockname()[1]))

    assert code == 78
    assert "Cannot listen on" in output
    assert "Traceback" not in output

"""Access control over HTTP: host names, origins, headers, and errors without internal details."""

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from serving import open_http_client, store_over_http
from starlette.testclient import TestClient

from holdfast import Holdfast
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Registry

PATHS = ("/health", "/api/v1/memories", "/metrics", "/openapi.json", "/api/v1/events", "/nothing")


@pytest.fixture
def client(hold: Holdfast) -> Iterator[TestClient]:
    with open_http_client(hold) as opened:
        yield opened


FOREIGN_HOSTS = (
    *("evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "evil.com:9077", "10.0.0.1"),
    *("", "a b", "[::1", "localhost:x"),
)
OWN_HOSTS = (
    *("localhost", "LOCALHOST:9077", "127.0.0.1", "127.0.0.1:1", "127.8.8.8"),
    *("[::1]", "[::1]:9077", " localhost "),
)
FOREIGN_ORIGINS = (
    *("http://evil.com", "null", "", "http://localhost.evil.com", "file://", "http://[", "x"),
    *("http://evil.com@localhost", "http://localhost:80.evil.com", "http://localhost http://evil.com"),
)


def test_a_foreign_host_name_is_refused_on_every_path(client: TestClient) -> None:
    answers = {(path, host): client.get(path, headers={"host": host}) for path in PATHS for host in FOREIGN_HOSTS}

    assert outcomes_of(answers) == dict.fromkeys(answers, (421, "MISADDRESSED"))


def outcomes_of(answers: dict[Any, httpx.Response]) -> dict[Any, tuple[int, str]]:
    return {
        asked: (answer.status_code, answer.json()["code"] if answer.is_error else "")
        for asked, answer in answers.items()
    }


def test_every_name_of_the_local_machine_is_accepted(client: TestClient) -> None:
    statuses = {host: client.get("/health", headers={"host": host}).status_code for host in OWN_HOSTS}

    assert statuses == dict.fromkeys(OWN_HOSTS, 200)


def test_a_request_with_two_hosts_is_refused(client: TestClient) -> None:
    answer = client.get("/health", headers=[("host", "localhost"), ("host", "evil.com")])

    assert answer.status_code == 421


def test_host_names_in_the_settings_are_accepted(hold: Holdfast) -> None:
    with open_http_client(hold, allowed_hosts=("memory.example",), host="192.0.2.7", api_key="secret") as client:
        for host in ("memory.example", "Memory.Example:443", "192.0.2.7", "localhost"):
            assert client.get("/health", headers={"host": host}).status_code == 200
        assert client.get("/health", headers={"host": "192.0.2.8"}).status_code == 421


def test_on_a_wildcard_address_any_ip_address_is_accepted_but_no_host_name(hold: Holdfast) -> None:
    with open_http_client(hold, host="0.0.0.0", api_key="secret") as client:
        assert client.get("/health", headers={"host": "192.0.2.8:9077"}).status_code == 200
        assert client.get("/health", headers={"host": "evil.com"}).status_code == 421


def test_a_foreign_origin_is_refused_on_every_path(client: TestClient) -> None:
    answers = {
        (method, path, origin): client.request(method, path, headers={"origin": origin})
        for method in ("GET", "POST", "OPTIONS")
        for path in PATHS
        for origin in FOREIGN_ORIGINS
    }

    assert outcomes_of(answers) == dict.fromkeys(answers, (403, "FORBIDDEN"))


def test_a_local_origin_is_accepted(client: TestClient) -> None:
    for origin in ("http://127.0.0.1:9077", "http://localhost:3000", "https://[::1]"):
        assert client.get("/api/v1/memories", headers={"origin": origin}).status_code == 200, origin


def test_the_origin_of_the_server_itself_is_accepted(hold: Holdfast) -> None:
    with open_http_client(hold, allowed_hosts=("memory.example",)) as client:
        own = {"host": "memory.example:8443", "origin": "https://memory.example:8443"}
        other = {"host": "memory.example:8443", "origin": "https://memory.example"}
        assert client.get("/api/v1/memories", headers=own).status_code == 200
        assert client.get("/api/v1/memories", headers=other).status_code == 403


def test_every_answer_has_security_headers_and_allows_no_other_origin(client: TestClient) -> None:
    callers: list[dict[str, str]] = [
        *({}, {"host": "evil.com"}, {"origin": "http://evil.com"}, {"origin": "http://localhost"})
    ]
    unsealed = [
        (path, headers)
        for path in PATHS
        for headers in callers
        if not is_sealed(client.request("OPTIONS" if "origin" in headers else "GET", path, headers=headers))
    ]

    assert unsealed == []


def is_sealed(answer: httpx.Response) -> bool:
    sent = answer.headers
    return (
        (sent["x-content-type-options"], sent["x-frame-options"]) == ("nosniff", "DENY")
        and "default-src 'none'" in sent["content-security-policy"]
        and not [name for name in sent if name.startswith("access-control-") or name == "set-cookie"]
    )


def test_a_preflight_request_gets_no_permission(client: TestClient) -> None:
    answer = client.options(
        "/api/v1/memories", headers={"origin": "http://localhost:3000", "access-control-request-method": "POST"}
    )

    assert answer.status_code == 405


def test_whitespace_around_a_header_is_ignored(client: TestClient) -> None:
    answer = client.post(
        "/api/v1/memories", json={"title": "t", "content": "c"}, headers={"x-agent-id": " \tai:scout@here \t"}
    )

    assert (answer.status_code, answer.json()["agent_id"]) == (201, "ai:scout@here")


broken = Registry()
SECRET = "hunter2 in /home/someone"


@broken.operation(Effect.READ, "GET /broken")
def broken_inside(ctx: Context, request: EmptyRequest) -> EmptyRequest:
    """Fail with a message that must stay internal."""
    raise RuntimeError(SECRET)


def test_an_internal_error_reveals_nothing_to_the_client_and_is_located_in_the_log(
    hold: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    with open_http_client(hold, broken) as client, caplog.at_level(logging.ERROR):
        answer = client.get("/broken")

    assert (answer.status_code, answer.json()["code"]) == (500, "ERROR")
    assert "hunter2" not in answer.text
    assert "hunter2" not in caplog.text
    assert "broken_inside" in caplog.text


def test_request_data_is_never_logged(hold: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    with open_http_client(hold, broken) as client, caplog.at_level(logging.DEBUG, logger="holdfast"):
        client.get("/broken?token=canary-1", headers={"x-agent-id": "canary-2"})
        client.get("/broken%0d%0aforged", headers={"authorization": "Bearer canary-3"})

    assert "canary" not in caplog.text
    assert "\nforged" not in caplog.text


def test_a_private_memory_is_not_found_by_another_agent(client: TestClient) -> None:
    id = client.post(
        "/api/v1/memories",
        json={"title": "Mine", "content": "secret", "scope": "private"},
        headers={"x-agent-id": "ai:owner@here"},
    ).json()["id"]

    other = {"x-agent-id": "ai:other@here"}
    unknown = client.get("/api/v1/memories/01900000-0000-7000-8000-000000000000", headers=other)
    for answer in (
        client.get(f"/api/v1/memories/{id}", headers=other),
        client.put(f"/api/v1/memories/{id}", json={"priority": 9}, headers=other),
        client.delete(f"/api/v1/memories/{id}", headers=other),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
        assert answer.json()["error"].replace(id, "ID") == unknown.json()["error"].replace(unknown.json()["id"], "ID")
    assert client.get(f"/api/v1/memories/{id}", headers={"x-agent-id": "ai:owner@here"}).status_code == 200


def test_the_agent_header_determines_the_agent_and_a_body_cannot_name_another(client: TestClient) -> None:
    headers = {"x-agent-id": "ai:scout@here"}
    body = {"title": "t", "content": "c", "agent_id": "ai:other@here"}

    refused = client.post("/api/v1/memories", json=body, headers=headers)
    taken = client.post("/api/v1/memories", json={**body, "agent_id": "ai:scout@here"}, headers=headers)

    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert (taken.status_code, taken.json()["agent_id"], taken.json()["source"]) == (201, "ai:scout@here", "api")


def test_without_a_header_the_agent_is_stable(client: TestClient) -> None:
    first, second = store_over_http(client, title="One"), store_over_http(client, title="Two")
    named = store_over_http(client, title="Three", agent_id="ai:named@here")

    assert first["agent_id"] == second["agent_id"]
    assert first["agent_id"].startswith("ai:http@")
    assert named["agent_id"] == "ai:named@here"


def test_an_unclaimable_agent_id_is_refused(client: TestClient) -> None:
    for agent in ("", "a b", "../x", "/x", "x" * 129, "system", "a;b", "é"):
        answer = client.get("/api/v1/memories", headers={b"x-agent-id": agent.encode()})

        assert (answer.status_code, answer.json()["fields"]) == (400, ["X-Agent-Id"]), agent


def test_two_agent_ids_are_refused(client: TestClient) -> None:
    answer = client.get("/api/v1/memories", headers=[("x-agent-id", "ai:a@b"), ("x-agent-id", "ai:c@d")])

    assert answer.status_code == 400

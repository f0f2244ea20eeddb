"""API keys: their rights, their namespaces and their revocation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import open_http_client, store_over_http, with_settings
from starlette.routing import Route
from starlette.testclient import TestClient

import holdfast
from engines import ENGINES_BY_RING
from holdfast import Holdfast
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, Invalid, InvalidSetting, NotFound
from holdfast.surfaces.http import page
from holdfast.surfaces.http.authentication import is_loopback
from holdfast.surfaces.serve import serve


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(hold: Holdfast) -> Iterator[TestClient]:
    with open_http_client(hold) as opened:
        yield opened


def bearer(key: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {key.key}"}


def test_a_key_is_shown_once_and_stored_as_a_hash(hold: Holdfast, db: str) -> None:
    made = hold.key_create(name="laptop", scope="read", namespaces=["team/*"])

    assert made.key.startswith("hf_")
    assert len(made.key) == 46
    assert (made.scope, made.namespaces, made.agent_id) == ("read", ["team"], "key:laptop")
    [shown] = hold.key_list().keys
    assert made.key not in repr(shown)
    for file in Path(db).parent.glob("memory.db*"):
        assert made.key.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "no blanks"},
        {"name": "x" * 65},
        {"name": "a", "scope": "owner"},
        {"name": "a", "namespaces": []},
        {"name": "a", "namespaces": ["a/*/b"]},
        {"name": "a", "namespaces": ["../etc"]},
        {"name": "a", "namespaces": ["**"]},
        {"name": "a", "agent_id": "system"},
        {"name": "a", "agent_id": "no blanks"},
    ],
)
def test_an_invalid_key_request_creates_no_key(hold: Holdfast, arguments: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        hold.call("key_create", arguments)
    assert hold.key_list().count == 0


def test_without_keys_a_loopback_server_is_open(client: TestClient) -> None:
    assert client.get("/api/v1/memories").status_code == 200


def test_once_a_key_exists_every_path_except_health_and_page_files_requires_one(
    hold: Holdfast, client: TestClient
) -> None:
    hold.key_create(name="laptop")

    routes = [route for route in client.app.routes if isinstance(route, Route)]  # type: ignore[attr-defined]
    requests = [(method, route.path) for route in routes for method in {*(route.methods or ()), "OPTIONS"} - {"HEAD"}]
    requests += [
        (method, path)
        for path in ("/nothing", "/api/v1/memories/", "/health")
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
    ]
    free, answers = {"/health", "/api/v1/health", *(path for path, _ in page.list_files())}, {}
    for method, path in requests:
        answer = client.request(method, path.replace(":path", ""), json={} if method == "POST" else None)
        answers[method, path] = answer.status_code, answer.headers.get("www-authenticate")

    closed = {key: found for key, found in answers.items() if key[1] not in free}
    assert closed == dict.fromkeys(closed, (401, "Bearer"))
    assert {status for (_, path), (status, _) in answers.items() if path in free} == {200, 405}


def test_a_key_is_accepted_in_either_header(hold: Holdfast, client: TestClient) -> None:
    made = hold.key_create(name="laptop")

    for headers in (bearer(made), {"x-api-key": made.key}, {"authorization": f"bEaReR  {made.key} "}):
        stored = client.post("/api/v1/memories", json={"title": str(headers), "content": "c"}, headers=headers)
        assert (stored.status_code, stored.json()["agent_id"]) == (201, "key:laptop")


def wrong_headers(secret: str) -> list[list[tuple[str, str]]]:
    return [
        [],
        [("authorization", "")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer ")],
        [("authorization", secret)],
        [("authorization", f"Basic {secret}")],
        [("authorization", f"Bearer {secret}x")],
        [("authorization", f"Bearer {secret[:-1]}")],
        [("authorization", f"Bearer {secret.swapcase()}")],
        [("authorization", f"Bearer {secret}"), ("authorization", f"Bearer {secret}")],
        [("authorization", f"Bearer {secret}"), ("x-api-key", secret)],
        [("x-api-key", "")],
        [("x-api-key", "   ")],
        [("x-api-key", f"Bearer {secret}")],
        [("x-api-key", "\xff")],
    ]


def test_a_missing_or_wrong_key_is_refused(hold: Holdfast, client: TestClient) -> None:
    secret = hold.key_create(name="laptop").key
    for wrong in wrong_headers(secret):
        headers = [(name, value.encode("latin-1")) for name, value in wrong]

        answer = client.get("/api/v1/memories", headers=headers)  # type: ignore[arg-type]

        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED"), wrong
        assert secret not in answer.text, wrong


def test_a_key_in_the_url_is_ignored(hold: Holdfast, client: TestClient) -> None:
    open_to_all = client.get("/api/v1/memories?api_key=canary")
    secret = hold.key_create(name="laptop").key
    keyed = client.get(f"/api/v1/memories?api_key={secret}")

    assert (open_to_all.status_code, open_to_all.json()["fields"]) == (400, ["api_key"])
    assert keyed.status_code == 401
    assert secret not in keyed.text


def test_a_wrong_key_is_refused_even_where_none_is_required(client: TestClient) -> None:
    assert client.get("/api/v1/memories", headers={"x-api-key": "hf_made-up"}).status_code == 401


def test_a_revocation_by_another_process_applies_at_once(hold: Holdfast, client: TestClient, db: str) -> None:
    hold.key_create(name="stays")
    made = hold.key_create(name="goes")
    assert client.get("/api/v1/memories", headers=bearer(made)).status_code == 200

    with holdfast.open(db) as other:
        other.key_revoke(id=made.id)

    assert client.get("/api/v1/memories", headers=bearer(made)).status_code == 401


def test_a_key_can_be_revoked_only_once(hold: Holdfast) -> None:
    made = hold.key_create(name="laptop")

    assert hold.key_revoke(id=made.id).revoked_at is not None
    with pytest.raises(NotFound):
        hold.key_revoke(id=made.id)
    assert [key.id for key in hold.key_list().keys] == [made.id]


@pytest.mark.parametrize(("scope", "allowed"), [("read", 0), ("write", 1), ("admin", 2)])
def test_each_operation_requires_its_right(hold: Holdfast, client: TestClient, scope: str, allowed: int) -> None:
    headers = bearer(hold.key_create(name="laptop", scope=scope))

    answers = [
        client.post("/api/v1/recall", json={"context": "x"}, headers=headers),
        client.post("/api/v1/memories", json={"title": "t", "content": "c"}, headers=headers),
        client.post("/api/v1/keys", json={"name": "other"}, headers=headers),
    ]

    assert [answer.status_code < 300 for answer in answers] == [number <= allowed for number in range(3)]
    assert {answer.json()["code"] for answer in answers[allowed + 1 :]} <= {"FORBIDDEN"}


def test_a_key_covers_its_namespaces_and_their_children(hold: Holdfast, client: TestClient) -> None:
    for namespace in ("team", "team/project", "teammate", "Team", "other"):
        hold.store(title=f"In {namespace}", content="canary", namespace=namespace)
    headers = bearer(hold.key_create(name="team", scope="write", namespaces=["team/*"]))
    inside = {"In team", "In team/project"}

    listed = client.get("/api/v1/memories", headers=headers).json()["memories"]
    recalled = client.post("/api/v1/recall", json={"context": "canary"}, headers=headers).json()["memories"]
    refused = client.get("/api/v1/memories?namespace=other", headers=headers)
    stored = client.post("/api/v1/memories", json={"title": "t", "content": "c", "namespace": "x"}, headers=headers)

    assert {memory["title"] for memory in listed} == {memory["title"] for memory in recalled} == inside
    assert (refused.status_code, stored.status_code) == (403, 403)
    assert "holdfast_memories 2" in client.get("/metrics", headers=headers).text.splitlines()


def test_a_memory_outside_the_namespaces_of_a_key_is_not_found_by_its_id(hold: Holdfast, client: TestClient) -> None:
    id = hold.store(title="Elsewhere", content="canary", namespace="other").id
    headers = bearer(hold.key_create(name="team", namespaces=["team"]))

    for method, body in (("GET", None), ("PUT", {"priority": 9}), ("DELETE", None)):
        answer = client.request(method, f"/api/v1/memories/{id}", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
        assert "canary" not in answer.text


def test_a_key_acts_only_as_its_agent(hold: Holdfast, client: TestClient) -> None:
    bound = bearer(hold.key_create(name="laptop", agent_id="ai:scout@here"))
    body = {"title": "t", "content": "c"}

    other = client.post("/api/v1/memories", json=body, headers={**bound, "x-agent-id": "ai:other@here"})
    named = client.post("/api/v1/memories", json={**body, "agent_id": "ai:other@here"}, headers=bound)
    plain = client.post("/api/v1/memories", json=body, headers={**bound, "x-agent-id": "ai:scout@here"})

    assert (other.status_code, named.status_code) == (403, 403)
    assert (plain.status_code, plain.json()["agent_id"]) == (201, "ai:scout@here")


def test_a_key_for_any_agent_acts_as_the_header_says(hold: Holdfast, client: TestClient) -> None:
    headers = bearer(hold.key_create(name="hub", agent_id="*"))

    named = client.post(
        "/api/v1/memories", json={"title": "a", "content": "c"}, headers={**headers, "x-agent-id": "ai:scout@here"}
    )
    unnamed = client.post("/api/v1/memories", json={"title": "b", "content": "c"}, headers=headers)

    assert (named.json()["agent_id"], unnamed.json()["agent_id"]) == ("ai:scout@here", "key:hub")


def test_no_key_exceeds_the_rights_of_its_creator(hold: Holdfast) -> None:
    team = Caller(agent="key:team", right="admin", namespaces=("team",), has_fixed_agent=True)
    outside = hold.key_create(name="all")

    for namespaces in (None, ["*"], ["other"], ["team", "other"], ["teammate"]):
        with pytest.raises(Forbidden):
            hold.call("key_create", {"name": "wide", "namespaces": namespaces}, caller=team)
    with pytest.raises(NotFound):
        hold.call("key_revoke", {"id": outside.id}, caller=team)
    inside = hold.call("key_create", {"name": "narrow", "namespaces": ["team/project"]}, caller=team)
    assert [key.id for key in hold.call("key_list", {}, caller=team).keys] == [inside.id]


def test_the_key_in_the_settings_has_every_right(hold: Holdfast) -> None:
    with open_http_client(hold, api_key="a-secret-of-my-own") as client:
        assert client.get("/api/v1/memories").status_code == 401
        assert client.get("/api/v1/memories", headers={"x-api-key": "a-secret-of-my-ow"}).status_code == 401
        headers = {"x-api-key": "a-secret-of-my-own", "x-agent-id": "ai:scout@here"}
        assert client.get("/api/v1/keys", headers=headers).status_code == 200
        assert store_with_headers(client, headers)["agent_id"] == "ai:scout@here"


def store_with_headers(client: TestClient, headers: dict[str, str]) -> dict[str, Any]:
    client.headers.update(headers)
    return store_over_http(client)


def test_an_empty_key_in_the_settings_counts_as_none(hold: Holdfast) -> None:
    with open_http_client(hold, api_key="") as client:
        assert client.get("/api/v1/memories").status_code == 200
        assert client.get("/api/v1/memories", headers={"x-api-key": ""}).status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "", "example.com"])
@pytest.mark.parametrize("api_key", [None, ""])
def test_a_server_for_other_machines_does_not_start_without_a_key(
    hold: Holdfast, host: str, api_key: str | None
) -> None:
    settings = with_settings(hold, host=host, api_key=api_key, port=0).settings
    with pytest.raises(InvalidSetting, match="there is no key"):
        serve(settings, Holdfast(hold.ctx, settings))


def test_a_server_for_other_machines_stays_closed_after_its_last_key_is_revoked(hold: Holdfast) -> None:
    made = hold.key_create(name="laptop")
    with open_http_client(hold, host="0.0.0.0") as client:
        assert client.get("/api/v1/memories", headers=bearer(made)).status_code == 200
        hold.key_revoke(id=made.id)
        assert client.get("/api/v1/memories").status_code == 401


def test_loopback_hosts_are_recognised() -> None:
    hosts = ["127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9", "0.0.0.0", "::", "", "10.0.0.1", "localhost.evil"]

    assert [is_loopback(host) for host in hosts] == [True] * 5 + [False] * 5

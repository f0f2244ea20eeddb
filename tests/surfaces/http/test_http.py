"""Operations over HTTP: parsing of arguments, answers and refusals."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from serving import open_http_client, store_over_http
from starlette.testclient import TestClient

from engines import ENGINES_BY_RING, hide_store
from holdfast import Holdfast, __version__
from holdfast.operations import REGISTRY
from holdfast.surfaces.http.openapi import routes_of


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(hold: Holdfast) -> Iterator[TestClient]:
    with open_http_client(hold) as opened:
        yield opened


def test_a_stored_memory_is_read_back_with_its_version_as_etag(client: TestClient) -> None:
    stored = store_over_http(client, namespace="team", tags=["ops"])

    answer = client.get(f"/api/v1/memories/{stored['id']}")

    assert answer.status_code == 200
    assert answer.headers["etag"] == '"1"'
    assert answer.headers["content-type"] == "application/json"
    assert {**answer.json()["memory"], "outcome": "created"} == stored


def test_every_http_operation_responds_at_its_route(client: TestClient) -> None:
    for operation in REGISTRY:
        for route in routes_of(operation):
            method, path = route.split()
            answer = client.request(method, path.replace("{", "none-").replace("}", ""), json={"nonsense": 1})
            assert "nothing at this path" not in answer.text, route
            assert answer.status_code != 405, route


def test_an_operation_not_offered_over_http_has_no_route() -> None:
    assert [routes_of(op) for op in REGISTRY if "http" not in op.surfaces] == [
        () for op in REGISTRY if "http" not in op.surfaces
    ]


def test_a_literal_path_takes_precedence_over_one_with_a_parameter(client: TestClient) -> None:
    answer = client.post("/api/v1/memories/bulk", json=[{"title": "One", "content": "first"}])

    assert (answer.status_code, answer.json()["created"]) == (200, 1)


def test_a_namespace_in_a_path_can_contain_slashes(client: TestClient) -> None:
    for path in ("team/project", quote("team/project", safe="")):
        answer = client.get(f"/api/v1/namespaces/{path}/standard")
        assert (answer.status_code, answer.json()["namespace"]) == (200, "team/project")


def test_query_parameters_are_typed_by_field(client: TestClient) -> None:
    store_over_http(client, title="A", tags=["x", "y"], priority=9)
    store_over_http(client, title="B", tags=["x"])

    found = client.get("/api/v1/memories", params={"tags": "x,y", "limit": "5", "min_priority": "3"})

    assert [memory["title"] for memory in found.json()["memories"]] == ["A"]
    assert found.json() == client.get("/api/v1/memories?tags=x&tags=y&limit=5&min_priority=3").json()


BAD_QUERIES = (
    ("limit=0", "limit"),
    ("limit=-1", "limit"),
    ("limit=1000000000", "limit"),
    ("limit='", "limit"),
    ("limit=1.5", "limit"),
    ("limit=NaN", "limit"),
    ("limit=", "limit"),
    ("limit=5&limit=6", "limit"),
    ("offset=9223372036854775808", "offset"),
    ("offset=-1", "offset"),
    ("tier=eternal", "tier"),
    ("since=yesterday", "since"),
    ("since=0000-00-00", "since"),
    ("tags=", "tags"),
    ("namespace=", "namespace"),
    ("namespace=a//b", "namespace"),
    ("namespace=../../etc", "namespace"),
    ("namespace=a%00b", "namespace"),
    ("namespace=a%0A", "namespace"),
    ("x')%20OR%201=1%20--=1", "x') OR 1"),
    ("$where=1", "$where"),
    ("a.b%22]=1", 'a.b"]'),
)


def test_an_invalid_query_parameter_is_refused_and_named(client: TestClient) -> None:
    answers = {query: client.get(f"/api/v1/memories?{query}") for query, _ in BAD_QUERIES}

    assert list_not_refused(answers) == []
    assert [
        (query, answers[query].json()) for query, field in BAD_QUERIES if not names_first(answers[query], field)
    ] == []


def list_not_refused(answers: dict[str, httpx.Response]) -> list[tuple[str, int, str]]:
    return [
        (name, answer.status_code, answer.text)
        for name, answer in answers.items()
        if answer.status_code != 400 or answer.json()["code"] != "VALIDATION_FAILED"
    ]


def names_first(answer: httpx.Response, field: str) -> bool:
    return bool(answer.json()["fields"][0].startswith(field))


def test_an_unreadable_query_string_is_refused(client: TestClient) -> None:
    queries = ("namespace=%ff", "&".join(f"a{n}=1" for n in range(300)))

    assert list_not_refused({query: client.get(f"/api/v1/memories?{query}") for query in queries}) == []


BAD_FIELDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"title": "t"}, "content"),
    ({"title": "t", "content": "c", "priority": "5"}, "priority"),
    ({"title": "t", "content": "c", "priority": 11}, "priority"),
    ({"title": "t", "content": "c", "colour": "red"}, "colour"),
    ({"title": "t", "content": "c", "source_span": {"start": 0, "end": 1, "x": 2}}, "source_span.x"),
    ({"title": "t", "content": "   "}, "content"),
    ({"title": "t", "content": "a\x00b"}, "content"),
    ({"title": "t\n", "content": "c", "namespace": "a\n"}, "namespace"),
    ({"title": "t", "content": "c", "tags": ["a,b"]}, "tags"),
    ({"title": "t", "content": "c", "metadata": []}, "metadata"),
    ({"title": "t", "content": "x" * 65_537}, "content"),
    ({"title": "t", "content": "é" * 40_000}, "content"),
    ({"title": "t", "content": "c", "namespace": "n" * 10_000}, "namespace"),
    ({"title": "t", "content": "c", "expires_at": "0001-01-01T00:00:00Z"}, "expires_at"),
    ({"title": "t", "content": "c", "ttl_secs": -1}, "ttl_secs"),
    ({"title": "t", "content": "c", "id": "mine"}, "id"),
)


def test_an_invalid_body_field_is_refused_and_named(client: TestClient) -> None:
    answers = {f"{body!r:.100}": client.post("/api/v1/memories", json=body) for body, _ in BAD_FIELDS}

    assert list_not_refused(answers) == []
    assert [
        (body, answer.json())
        for (body, answer), (_, field) in zip(answers.items(), BAD_FIELDS, strict=True)
        if not names_first(answer, field)
    ] == []
    assert client.get("/api/v1/memories").json()["count"] == 0


BODIES = {
    "not JSON": b"title=t&content=c",
    "nothing but a number": b"5",
    "null": b"null",
    "an array where no list belongs": b"[]",
    "NaN": b'{"title": "t", "content": "c", "confidence": NaN}',
    "an infinite number": b'{"title": "t", "content": "c", "confidence": 1e400}',
    "infinity in metadata": b'{"title": "t", "content": "c", "metadata": {"a": Infinity}}',
    "a name twice": b'{"title": "t", "content": "c", "title": "u"}',
    "a name twice, deep": b'{"title": "t", "content": "c", "metadata": {"a": {"b": 1, "b": 2}}}',
    "a lone surrogate": rb'{"title": "t", "content": "\ud800"}',
    "invalid UTF-8": b'{"title": "t", "content": "\xff"}',
    "UTF-16": '{"title": "t", "content": "c"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"title": "t", "content": "c"}',
    "garbage after it": b'{"title": "t", "content": "c"} x',
    "cut off": b'{"title": "t", "content": "c"',
    "nested 100,000 deep": b'{"title": "t", "content": "c", "metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nested 900 deep": b'{"title": "t", "content": "c", "metadata": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}",
    "a number of 5,000 digits": b'{"title": "t", "content": "c", "metadata": {"n": ' + b"9" * 5000 + b"}}",
    "a whole number over 64 bits": b'{"title": "t", "content": "c", "metadata": {"n": 99999999999999999999999}}',
}


def test_a_body_that_is_not_plain_json_is_refused_and_changes_nothing(client: TestClient) -> None:
    assert list_not_refused({name: post_json(client, body) for name, body in BODIES.items()}) == []
    assert client.get("/api/v1/memories").json()["count"] == 0


def post_json(client: TestClient, body: bytes) -> httpx.Response:
    return client.post("/api/v1/memories", content=body, headers={"content-type": "application/json"})


def test_a_lone_surrogate_is_named_in_the_error(client: TestClient) -> None:
    for half in (rb"\ud800", rb"\ud800x", rb"\udc00", rb"\ud800\u0041"):
        answer = post_json(client, b'{"title": "t", "content": "' + half + b'"}')
        assert answer.json()["error"] == "The body is not valid Unicode text (a lone surrogate).", half


def test_an_integral_float_is_accepted_as_an_integer(client: TestClient) -> None:
    assert store_over_http(client, priority=7.0)["priority"] == 7


@pytest.mark.parametrize(
    "media_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_body_requires_a_json_content_type(client: TestClient, media_type: str | None) -> None:
    body = b'{"title": "t", "content": "c"}'
    answer = client.post("/api/v1/memories", content=body, headers={"content-type": media_type} if media_type else {})

    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert client.get("/api/v1/memories").json()["count"] == 0


def test_a_form_without_fields_cannot_trigger_anything(client: TestClient) -> None:
    answer = client.post("/api/v1/gc", headers={"content-type": "text/plain"})

    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert client.post("/api/v1/gc").status_code == 200


def test_the_content_type_of_json_can_have_parameters(client: TestClient) -> None:
    for media_type in ("application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json"):
        answer = client.post(
            "/api/v1/memories",
            content=f'{{"title": "{media_type}", "content": "c"}}',
            headers={"content-type": media_type},
        )
        assert answer.status_code == 201


def test_get_accepts_no_body(client: TestClient) -> None:
    answer = client.request("GET", "/api/v1/memories", json={"limit": 1})

    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_FAILED")


def test_a_field_given_in_two_places_must_be_equal(client: TestClient) -> None:
    id = store_over_http(client)["id"]

    same = client.put(f"/api/v1/memories/{id}", json={"id": id, "priority": 8})
    other = client.put(f"/api/v1/memories/{id}", json={"id": "another", "priority": 9})

    assert (same.status_code, same.json()["priority"]) == (200, 8)
    assert (other.status_code, other.json()["fields"]) == (400, ["id"])


@pytest.mark.parametrize("size", [2 * 1024 * 1024 + 1, 64 * 1024 * 1024])
def test_a_body_over_the_limit_is_refused(client: TestClient, size: int) -> None:
    body = b'{"title": "t", "content": "' + b"x" * size + b'"}'
    answer = client.post("/api/v1/memories", content=body, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")


def test_a_chunked_body_over_the_limit_is_refused(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    answer = client.post("/api/v1/memories", content=chunks(), headers={"content-type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")


def test_a_chunked_body_within_the_limit_is_read(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"title": "t", '
        yield b'"content": "c"}'

    answer = client.post("/api/v1/memories", content=chunks(), headers={"content-type": "application/json"})

    assert answer.status_code == 201


@pytest.mark.parametrize("given", ['"1"', "1"])
def test_if_match_with_the_current_version_allows_a_change(client: TestClient, given: str) -> None:
    id = store_over_http(client)["id"]

    answer = client.put(f"/api/v1/memories/{id}", json={"priority": 8}, headers={"if-match": given})

    assert (answer.status_code, answer.headers["etag"], answer.json()["version"]) == (200, '"2"', 2)


@pytest.mark.parametrize("headers", [{"if-match": '"7"'}, {}])
def test_a_stale_version_is_a_conflict_in_the_header_and_in_the_body(
    client: TestClient, headers: dict[str, str]
) -> None:
    id = store_over_http(client)["id"]
    body = {"priority": 8} if headers else {"priority": 8, "expected_version": 7}

    answer = client.put(f"/api/v1/memories/{id}", json=body, headers=headers)

    assert answer.status_code == 409
    assert answer.json() == {
        "error": f"The memory {id} is at version 1, not 7: read it again and retry.",
        "code": "VERSION_CONFLICT",
        "id": id,
        "expected_version": 7,
        "current_version": 1,
        "status": "conflict",
    }


def test_an_if_match_without_a_version_is_refused(client: TestClient) -> None:
    id = store_over_http(client)["id"]

    for given in ("abc", '"1', 'W/"1"', '"1", "2"', "-1", "0x1", "1" * 20, "", '""'):
        answer = client.put(f"/api/v1/memories/{id}", json={"priority": 8}, headers={"if-match": given})

        assert (answer.status_code, answer.json()["fields"]) == (400, ["If-Match"]), given


def test_if_match_and_the_body_must_agree(client: TestClient) -> None:
    id = store_over_http(client)["id"]

    answer = client.put(
        f"/api/v1/memories/{id}", json={"priority": 8, "expected_version": 1}, headers={"if-match": '"2"'}
    )

    assert (answer.status_code, answer.json()["fields"]) == (400, ["expected_version"])


def test_if_match_is_never_ignored(client: TestClient) -> None:
    id = store_over_http(client)["id"]

    answer = client.post(f"/api/v1/memories/{id}/promote", headers={"if-match": '"7"'})

    assert (answer.status_code, answer.json()["fields"]) == (400, ["If-Match"])


def test_an_unknown_path_gets_the_common_error_shape(client: TestClient) -> None:
    for path in (
        "/page",
        "/page/",
        "/api",
        "/api/v1/nothing",
        "/api/v1/memories/",
        "/api/v1/memories/a/b",
        "//api/v1/memories",
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path


def test_a_wrong_method_lists_the_allowed_ones(client: TestClient) -> None:
    answer = client.patch("/api/v1/memories")
    page = client.post("/health")

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert answer.json() == {
        "error": "This path does not support that method.",
        "code": "METHOD_NOT_ALLOWED",
        "allow": ["GET", "HEAD", "POST"],
    }
    assert (page.status_code, page.headers["allow"]) == (405, "GET, HEAD")


def test_head_responds_like_get_without_a_body(client: TestClient) -> None:
    id = store_over_http(client)["id"]

    answer = client.head(f"/api/v1/memories/{id}")

    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')


def test_an_impossible_id_is_not_found(client: TestClient) -> None:
    for id in ("none", "..%2f..", "%ff", "'", "a" * 128):
        assert client.get(f"/api/v1/memories/{id}").status_code == 404, id
    for id in ("%00", "a" * 129):
        assert client.get(f"/api/v1/memories/{id}").status_code == 400, id


SEARCHES = ['"', "*", "AND", "a AND", "NEAR(", "title:", "-a", "C++", "'", "", "(" * 2000, "x" * 60_000, "a\x00b", "%"]


def test_no_text_breaks_a_search(client: TestClient) -> None:
    store_over_http(client, content="C++ and a title")

    for words in SEARCHES:
        search = client.get("/api/v1/search", params={"q": words})
        recall = client.post("/api/v1/recall", json={"context": words})

        assert search.status_code in (200, 400 if not words else 200), words
        assert recall.status_code in (200, 400 if not words else 200), words


def test_ownership_claims_in_metadata_have_no_effect(client: TestClient) -> None:
    claimed = {"agent_id": "system", "trust": 1, "created_at": "2001-01-01", "namespace": "x", "__proto__": {"a": 1}}

    stored = store_over_http(client, metadata=claimed)

    assert (stored["agent_id"], stored["namespace"]) == (stored["metadata"]["agent_id"], "global")
    assert stored["agent_id"].startswith("ai:http@")


def test_forget_without_a_filter_is_refused(client: TestClient) -> None:
    store_over_http(client)

    for request in ({"json": {}}, {"json": {"namespace": None}}, {"params": {}}, {"json": {"dry_run": False}}):
        answer = client.post("/api/v1/forget", **request)  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["code"]) == (400, "FILTER_REQUIRED")
    assert client.get("/api/v1/memories").json()["count"] == 1


def test_health_reports_only_whether_the_store_is_readable(client: TestClient) -> None:
    for path in ("/health", "/api/v1/health"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()) == (
            200,
            {"status": "ok", "service": "holdfast", "version": __version__},
        )


def test_health_is_an_error_for_an_unreadable_store(hold: Holdfast, client: TestClient, db: str) -> None:
    hold.ctx.store.close()
    with hide_store(db):
        answer = client.get("/health")

    assert (answer.status_code, answer.json()) == (
        503,
        {"status": "error", "service": "holdfast", "version": __version__},
    )
    assert client.get("/health").status_code == 200


def test_metrics_count_requests_by_operation_and_code(client: TestClient) -> None:
    store_over_http(client)
    client.get("/api/v1/memories/none")
    client.get("/nothing")

    answer = client.get("/metrics")
    lines = answer.text.splitlines()

    assert answer.headers["content-type"].startswith("text/plain")
    assert 'holdfast_requests_total{operation="store",code="201"} 1' in lines
    assert 'holdfast_requests_total{operation="get",code="404"} 1' in lines
    assert 'holdfast_requests_total{operation="none",code="404"} 1' in lines
    assert 'holdfast_request_seconds_bucket{operation="store",le="+Inf"} 1' in lines
    assert 'holdfast_request_seconds_count{operation="store"} 1' in lines
    assert "holdfast_memories 1" in lines
    assert client.get("/api/v1/metrics").status_code == 200


def test_writes_of_another_process_are_visible_at_once(client: TestClient, db: str) -> None:
    import holdfast

    with holdfast.open(db) as other:
        id = other.store(title="Elsewhere", content="Stored by another connection.").id

    assert client.get(f"/api/v1/memories/{id}").json()["title"] == "Elsewhere"

"""Reflections over the ai-memory API: by the tools' names and fields."""

from collections.abc import Iterator
from typing import Any

import pytest
from serving import open_http_client, store_over_http
from starlette.testclient import TestClient

from engines import ENGINES_BY_RING
from holdfast import Holdfast


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def raw(hold: Holdfast) -> Iterator[TestClient]:
    with open_http_client(hold) as opened:
        yield opened


def ask(raw: TestClient, tool: str, **arguments: Any) -> Any:
    answer = raw.post(f"/api/v1/{tool}", json=arguments)
    return answer.status_code, answer.json()


def test_a_reflection_is_created_traced_and_exported_by_the_routes_of_the_tools(raw: TestClient) -> None:
    source = store_over_http(raw)["id"]
    status, made = ask(raw, "memory_reflect", source_ids=[source], title="So", content="It follows.", depth=1)
    assert (status, made["reflection_depth"], made["reflects_on"]) == (200, 1, [source])
    assert made.keys() == {"id", "reflection_depth", "reflects_on", "namespace"}
    status, origin = ask(raw, "memory_reflection_origin", memory_id=made["id"])
    assert (status, origin["peer_origin"], origin["local_depth_at_arrival"]) == (200, None, None)
    assert (origin["original_depth"], origin["is_reflection"]) == (1, True)
    status, file = ask(raw, "memory_export_reflection", memory_id=made["id"])
    assert (status, file.keys()) == (200, {"content", "suggested_filename"})
    assert file["suggested_filename"].endswith(f"/{made['id']}.md")


def test_refusals_have_the_codes_known_to_these_clients(raw: TestClient) -> None:
    source = store_over_http(raw)["id"]
    for title in ("first", "second", "third"):
        source = ask(raw, "memory_reflect", source_ids=[source], title=title, content="It follows.")[1]["id"]
    status, refused = ask(raw, "memory_reflect", source_ids=[source], title="fourth", content="It follows.")
    assert (status, refused["code"]) == (409, "REFLECTION_DEPTH_EXCEEDED")
    status, refused = ask(raw, "memory_reflect", source_ids=[source], title="x", content="x", depth=9)
    assert (status, refused["code"]) == (400, "CALLER_DEPTH_MISMATCH")
    first = raw.get("/api/v1/memories", params={"namespace": "global", "limit": 100}).json()["memories"]
    ground = next(one["id"] for one in first if one["reflection_depth"] == 0)
    link = {"source_id": ground, "target_id": source, "relation": "reflects_on"}
    answer = raw.post("/api/v1/links", json=link)
    assert (answer.status_code, answer.json()["code"]) == (409, "REFLECTION_CYCLE_DETECTED")


def test_a_pending_reflection_is_reported(raw: TestClient) -> None:
    raw.put("/api/v1/namespaces/*/policy", json={"require_approval_above_depth": 0})
    status, pending = ask(
        raw, "memory_reflect", source_ids=[store_over_http(raw)["id"]], title="So", content="It follows."
    )
    assert status == 202
    assert (pending["status"], pending["proposed_depth"], pending["require_approval_above_depth"]) == ("pending", 1, 0)
    listed = raw.get("/api/v1/pending").json()
    assert [one["id"] for one in listed["pending"]] == [pending["pending_id"]]

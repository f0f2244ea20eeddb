"""Tags, query expansion and atoms over the ai-memory API."""

from collections.abc import Iterator

import pytest
from serving import open_http_client, store_over_http
from starlette.testclient import TestClient

from holdfast import Holdfast

LONG = " ".join(f"Part {number} of the report tells how the gate {number} was built." for number in range(20))


@pytest.fixture
def raw(hold: Holdfast) -> Iterator[TestClient]:
    with open_http_client(hold) as opened:
        yield opened


def test_tags_are_suggested_for_a_memory_or_a_text(raw: TestClient) -> None:
    id = store_over_http(raw, content=LONG)["id"]
    by_id = raw.post("/api/v1/auto_tag", json={"memory_id": id}).json()
    assert (by_id["memory_id"], by_id["tags"]) == (id, by_id["new_tags"])
    by_text = raw.post("/api/v1/auto_tag", json={"title": "Gates", "content": LONG}).json()
    assert (by_text["memory_id"], "gates" in by_text["tags"]) == (None, True)


def test_a_query_is_expanded_under_the_expected_names(raw: TestClient) -> None:
    store_over_http(raw, content=LONG)
    answer = raw.post("/api/v1/expand_query", json={"query": "gate"}).json()
    assert {"original", "expanded_terms"} <= answer.keys()


def test_atoms_are_created_by_the_route_of_the_tool(raw: TestClient) -> None:
    id = store_over_http(raw, content=LONG)["id"]
    made = raw.post("/api/v1/memory_atomise", json={"memory_id": id, "max_atom_tokens": 100}).json()
    assert (made["source_id"], made["atom_count"]) == (id, len(made["atom_ids"]))
    refused = raw.post("/api/v1/memory_atomise", json={"memory_id": id})
    assert (refused.status_code, refused.json()["code"]) == (409, "ALREADY_ATOMISED")
    again = raw.post("/api/v1/memory_atomise", json={"memory_id": id, "force_re_atomise": True, "max_atom_tokens": 50})
    assert set(made["atom_ids"]) - set(again.json()["atom_ids"]) == set(again.json()["superseded_ids"]) != set()

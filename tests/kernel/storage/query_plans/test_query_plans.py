"""Query plans of frequent statements: index seeks, no table scans."""

from itertools import pairwise
from typing import Any

import pytest
from plans import Plans

from holdfast.app import Holdfast

ASKED: dict[str, dict[str, Any]] = {
    "get": {"id": "ID"},
    "get by prefix": {"id": "PREFIX"},
    "get as known": {"id": "ID", "known_at": "2100-01-01"},
    "list in a namespace": {"namespace": "team"},
    "search": {"query": "tuesdays"},
    "recall": {"context": "when do we deploy?", "namespace": "team"},
    "recall by source": {"context": "deploy", "source_uri_prefix": "doc:"},
    "search by source": {"source_uri": "doc:x"},
    "store": {"title": "Deploy day", "content": "We deploy on Mondays.", "namespace": "team"},
    "update": {"id": "ID", "title": "Deploy days", "priority": 9},
    "promote": {"id": "ID"},
    "history": {"id": "ID"},
    "events": {"after": 0, "limit": 5},
    "gc": {},
    "sync_since": {"limit": 5},
    "undo": {"change": 1},
    "link": {"source_id": "ID", "target_id": "OTHER", "relation": "related_to"},
    "get_links": {"id": "ID"},
    "kg_query": {"source_id": "ID", "max_depth": 3},
    "find_paths": {"source_id": "ID", "target_id": "OTHER"},
    "lineage": {"id": "ID"},
    "lineage onwards": {"id": "OTHER", "direction": "descendants"},
    "graph around a memory": {"id": "ID"},
    "graph within a namespace": {"namespace": "team"},
    "inbox": {},
    "delete": {"id": "ID"},
    "delete what another stands on": {"id": "OTHER"},
    "dependents": {"id": "OTHER"},
    "invalidations of a memory": {"dependent_id": "ID"},
    "invalidations because of a memory": {"invalidated_id": "OTHER"},
    "ingest": {"content": "We deploy on Mondays.\n\nWe eat at one.", "namespace": "team", "source_uri": "doc:x"},
}


def test_frequent_queries_use_an_index(plans: Plans, hold: Holdfast) -> None:
    unplanned, walking = [], {}
    for what, asked in ASKED.items():
        deploys = {"content": "We deploy on Tuesdays.", "namespace": "team", "source_uri": "doc:x", "tier": "mid"}
        one = hold.store(title=f"Day of {what}", **deploys)
        other = hold.store(title=f"Lunch of {what}", content="We eat at noon.", namespace="team")
        hold.link(one.id, other.id, relation="derived_from")
        words = {"ID": one.id, "PREFIX": one.id[:20], "OTHER": other.id}
        with plans.record_statements() as seen:
            hold.call(what.split(" ")[0], {name: words.get(value, value) for name, value in asked.items()})
        if not plans.steps(seen):
            unplanned.append(what)
        if walks := plans.walks(seen):
            walking[what] = walks
    assert (unplanned, walking) == ([], {})


def test_a_page_of_all_memories_follows_the_index_of_its_order(plans: Plans, hold: Holdfast) -> None:
    with plans.record_statements() as seen:
        hold.list(limit=20)
    steps = plans.steps(seen)
    assert [step for step in steps if "memory_order" in step]
    assert [step for step in steps if "Sort" in step or "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("what", ["recall", "search"])
def test_words_are_looked_up_in_the_full_text_index(plans: Plans, hold: Holdfast, engine: str, what: str) -> None:
    with plans.record_statements() as seen:
        hold.call(what, ASKED[what])
    index = "SCAN t VIRTUAL TABLE INDEX" if engine == "sqlite" else "Bitmap Index Scan memory_text_words"
    assert [step for step in plans.steps(seen) if step.startswith(index)]


def test_writes_that_invalidate_nothing_run_no_invalidation_queries(plans: Plans, hold: Holdfast) -> None:
    with plans.record_statements() as seen:
        one = hold.store(title="Deploy day", content="We deploy on Tuesdays.").id
        other = hold.store(title="Lunch", content="We eat at noon.").id
        hold.update(one, content="We deploy on Mondays.")
        hold.link(one, other, relation="related_to")
    asked = [sql for sql, _ in seen if "invalidation" in sql or "recursive" in sql]
    assert asked == []
    with plans.record_statements() as seen:
        hold.link(one, other, relation="derived_from")
    circle, told = [sql for sql, _ in seen if "invalidation" in sql or "recursive" in sql]
    assert "recursive" in circle
    assert "recursive" not in told


@pytest.mark.parametrize("what", ["kg_query", "find_paths", "lineage"])
def test_links_are_followed_by_one_recursive_statement(plans: Plans, hold: Holdfast, what: str) -> None:
    ids = [hold.store(title=title, content="x").id for title in "abcd"]
    for one, other in pairwise(ids):
        hold.link(one, other, relation="derived_from")
    asked = {"kg_query": {"source_id": ids[0]}, "find_paths": {"source_id": ids[0], "target_id": ids[3]}}
    with plans.record_statements() as seen:
        hold.call(what, {"max_depth": 4, **asked.get(what, {"id": ids[0]})})
    assert len([sql for sql, _ in seen if "recursive" in sql]) == 1
    assert len([sql for sql, _ in seen if "link l" in sql]) == 1

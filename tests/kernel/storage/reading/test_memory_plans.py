"""Query plans of memories under every filter and view."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import pytest
from plans import ME, Plans, SqlitePlans, Statement, ran

import holdfast
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, Filter, SqlPart, View

FILTERS = [
    EVERYTHING,
    Filter(namespace="a"),
    Filter(namespaces=("a", "a/b")),
    Filter(under="a"),
    Filter(tier="long"),
    Filter(agent="ai:tester@here"),
    Filter(min_priority=5),
    Filter(since=1, until=2),
    Filter(tags=("x", "y")),
    Filter(kinds=("fact",)),
    Filter(source_uri="doc:a"),
    Filter(source_uri_prefix="doc:"),
    Filter(confidence=(0.5, 1.0)),
    Filter(as_agent="a/b/c/d"),
]


Ask = Callable[[Sequence[SqlPart], dict[str, Any]], list[Statement]]


@pytest.fixture
def ask(hold: holdfast.Holdfast, plans: Plans) -> Ask:
    """Run a statement joined from parts and return what the engine ran."""

    return partial(ran, plans, hold)


def selecting(which: Filter, view: View, then: str, **params: Any) -> tuple[Sequence[SqlPart], dict[str, Any]]:
    parts, narrowing = memories.filter_clauses(ME, which, now=1, view=view)
    return ("memory_select", *parts, then), narrowing | params


def over_memories(steps: list[str]) -> list[str]:
    """Return the steps over memories, without subqueries."""
    return [
        step for step in steps if re.search(r" m | t |ORDER BY| memory |memory_text|memory_archive|Sort", f"{step} ")
    ]


@pytest.mark.parametrize("which", FILTERS, ids=str)
def test_recall_queries_the_full_text_index_once_for_any_filter(
    hold: holdfast.Holdfast, plans: Plans, ask: Ask, which: Filter
) -> None:
    parts, params = memories.filter_clauses(ME, which, now=1)
    with hold.ctx.store.reading() as session:
        asking, asked = session.full_text_query(["thing"], match_all=False)
    params |= asked | {"limit": 10, "since_row": 1}
    run = ask((*asking, *parts, "full_text_hits.since_row", "full_text_hits.best"), params)
    steps = over_memories(plans.steps(run))
    if isinstance(plans, SqlitePlans):
        assert steps == ["SCAN t VIRTUAL TABLE INDEX 32:M3>", "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)"]
    else:
        assert sum("memory_text_words" in step for step in steps) == 1
        assert plans.walks(run) == []


@pytest.mark.parametrize("view", get_args(View))
def test_memories_are_read_by_id_through_the_id_index(plans: Plans, ask: Ask, view: View) -> None:
    for then, given in (("one", {"id": "a"}), ("some", {"ids": ["a"]}), ("prefixed", {"prefix": "a"})):
        (step,) = over_memories(plans.steps(ask(*selecting(EVERYTHING, view, f"memory.{then}", **given))))
        assert re.match(r"SEARCH m USING INDEX sqlite_autoindex_memory_1 \(id|Index Scan memory_id_key memory \(", step)


@pytest.mark.parametrize("which", [EVERYTHING, Filter(namespace="a"), Filter(min_priority=5)], ids=str)
def test_a_page_by_priority_is_read_in_index_order(plans: Plans, ask: Ask, which: Filter) -> None:
    run = ask(*selecting(which, "live", "memory.by_importance", limit=10, skip=0))
    (step,) = over_memories(plans.steps(run))
    assert re.search("(USING INDEX|Index Scan) memory_(order|namespace)", step)


def test_the_archive_is_read_without_scanning_live_memories(plans: Plans, ask: Ask) -> None:
    steps = plans.steps(ask(*selecting(EVERYTHING, "archived", "memory.by_archival", limit=10, skip=0)))
    if isinstance(plans, SqlitePlans):
        assert over_memories(steps) == [
            "SEARCH m USING INDEX memory_archive (state=?)",
            "SEARCH m USING INDEX memory_expiry (lives_until<?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ]
    else:
        indexes = [step for step in steps if step.startswith("Bitmap Index Scan")]
        assert [step.split()[3] for step in indexes] == ["memory_archive", "memory_expiry"]

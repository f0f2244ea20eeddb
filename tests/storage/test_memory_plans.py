"""How SQLite finds memories under every filter and view: the plans that keep a large memory quick."""

from typing import Any, get_args

import pytest

from holdfast import Holdfast
from holdfast.domain.caller import Caller
from holdfast.storage import memories
from holdfast.storage.memories import EVERYTHING, Filter, Part, View
from holdfast.storage.sqlite.engine import SqliteSession, bound, joined

ME = Caller("ai:tester@here")
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


def plan(hold: Holdfast, parts: tuple[Part, ...], params: dict[str, Any]) -> list[str]:
    """The steps over the memories themselves; those of subqueries are left out."""
    with hold.hold.store.reading() as session:
        assert isinstance(session, SqliteSession)
        steps = session._connection.execute("explain query plan " + joined(parts), bound(params)).fetchall()
    return [text for _, _, _, text in steps if " m " in f"{text} " or " t " in text or "ORDER BY" in text]


def selecting(hold: Holdfast, which: Filter, view: View, then: str, **params: Any) -> list[str]:
    parts, narrowing = memories.narrowed(ME, which, now=1, view=view)
    return plan(hold, ("memory_select", *parts, then), narrowing | params)


@pytest.mark.parametrize("which", FILTERS, ids=str)
def test_recall_asks_the_full_text_once_whatever_the_filter(hold: Holdfast, which: Filter) -> None:
    parts, params = memories.narrowed(ME, which, now=1)
    params |= {"match": "apple", "limit": 10, "since_row": 1}
    steps = plan(hold, ("memory_found", *parts, "memory_found.since_row", "memory_found.best"), params)
    assert steps == ["SCAN t VIRTUAL TABLE INDEX 32:M3>", "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)"]


@pytest.mark.parametrize("view", get_args(View))
def test_memories_are_read_by_id_through_the_index_of_ids(hold: Holdfast, view: View) -> None:
    by_id = "SEARCH m USING INDEX sqlite_autoindex_memory_1 "
    assert selecting(hold, EVERYTHING, view, "memory.one", id="a") == [by_id + "(id=?)"]
    assert selecting(hold, EVERYTHING, view, "memory.some", ids=["a"]) == [by_id + "(id=?)"]
    assert selecting(hold, EVERYTHING, view, "memory.prefixed", prefix="a") == [by_id + "(id>? AND id<?)"]


@pytest.mark.parametrize("which", [EVERYTHING, Filter(namespace="a"), Filter(min_priority=5)], ids=str)
def test_a_page_of_the_most_important_is_read_in_order(hold: Holdfast, which: Filter) -> None:
    (step,) = selecting(hold, which, "live", "memory.by_importance", limit=10, skip=0)
    assert "USING INDEX memory_" in step


def test_the_archive_is_read_without_walking_the_live_memories(hold: Holdfast) -> None:
    steps = selecting(hold, EVERYTHING, "put_away", "memory.by_archival", limit=10, skip=0)
    assert steps == [
        "SEARCH m USING INDEX memory_archive (state=?)",
        "SEARCH m USING INDEX memory_expiry (lives_until<?)",
        "USE TEMP B-TREE FOR ORDER BY",
    ]

"""Query plans of recall: bounded index ranges."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from plans import ME, OpenStore, Plans, SqlitePlans, ran

import holdfast
from engines import raw_connection
from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, Filter, SqlPart
from holdfast.features.recall import search_index
from holdfast.kernel.storage.postgres.store import PostgresStore
from holdfast.kernel.vector import unit_vector

MANY = 600


@pytest.fixture(scope="module")
def hold(empty: OpenStore) -> holdfast.Holdfast:
    """Many threads, with vectors for half of their turns."""
    opened, address = empty
    opened.bulk_store(memories=[spoken_turn(number) for number in range(MANY)])
    with opened.ctx.store.transaction() as session:
        half = [due for due in vectors.list_due_after(session, "one", 0, MANY) if due.row % 2]
        vectors.put_embeddings(
            session,
            [
                vectors.PassageEmbedding(one.id, "one", 0, 9, 2, one.text_hash, 0, unit_vector([1, one.row]))
                for one in half
            ],
        )
    if isinstance(opened.ctx.store, PostgresStore):
        with raw_connection(address) as raw:
            raw.execute("analyze")
    return opened


def spoken_turn(number: int) -> dict[str, Any]:
    return {
        "title": f"Turn {number}",
        "content": f"some thing of {number}",
        "namespace": f"n{number % 30}",
        "speaker": f"Name{number % 50} Family",
        "thread": f"thread {number % 7}" if number % 3 else None,
        "place": number % 5,
        "occurred_at": f"2026-01-{1 + number % 9:02}" if number % 2 else None,
    }


def filter_parts(which: Filter, first: str, *then: str, **params: Any) -> tuple[Sequence[SqlPart], dict[str, Any]]:
    parts, narrowing = memories.filter_clauses(ME, which, now=1)
    return (first, *parts, *then), narrowing | params


def read(steps: list[str], table: str) -> list[str]:
    """Return the steps that read a table; SQLite names it by its alias."""
    other = {"memory": "m", "embedding": "e"}.get(table, table)
    return [step for step in steps if re.search(rf"SEARCH ({other}|{table}) | {table}( |$)", step)]


def test_neighbours_of_a_memory_are_read_from_its_position_in_the_thread(plans: Plans, hold: holdfast.Holdfast) -> None:
    run = ran(plans, hold, ["thread_neighbours"], {"rows": [3, 300]})
    steps = [step for step in plans.steps(run) if "memory_thread_key" in step]
    if isinstance(plans, SqlitePlans):
        seeks = [f"position=? AND rowno{sign}?" for sign in "<>"] + [f"position{sign}?" for sign in "<>"]
        assert set(steps) == {
            f"SEARCH n USING COVERING INDEX memory_thread_key (thread_key=? AND {seek})" for seek in seeks
        }
    else:
        bounds = {re.sub(r".*\(thread_key = m\.thread_key\) AND ", "", step).replace('"', "") for step in steps}
        here = {f"(position = m.position) AND (rowno {sign} m.rowno))" for sign in "<>"}
        assert bounds == here | {f"(position {sign} m.position))" for sign in "<>"}
    assert plans.walks(run) == []


def test_the_two_neighbours_on_each_side_are_in_thread_order(hold: holdfast.Holdfast) -> None:
    with hold.ctx.reading() as session:
        kept = session.query_sql(
            "select thread_key, position, rowno from memory where thread_key is not null order by 1, 2, 3", {}
        )
        found = search_index.find_adjacent(session, [row for *_, row in kept])
    for at, (thread_key, _, row) in enumerate(kept):
        beside = [kept[place] if 0 <= place < len(kept) else ("",) for place in (at - 1, at - 2, at + 1, at + 2)]
        assert found[row] == tuple(other[-1] if other[0] == thread_key else None for other in beside)


WHICH = [EVERYTHING, Filter(namespace="n1"), Filter(under="n1"), Filter(tags=("x",)), Filter(source_uri="doc:a")]


@pytest.mark.parametrize("select", ["candidate_select.numbered", "neighbour_select", "candidate_select"])
@pytest.mark.parametrize("which", WHICH, ids=str)
def test_candidates_are_read_by_row_number_or_id_for_any_filter(
    plans: Plans, hold: holdfast.Holdfast, which: Filter, select: str
) -> None:
    run = ran(plans, hold, *filter_parts(which, select, rows=[3, 300], ids=["a", "b"]))
    (step,) = read(plans.steps(run), "memory")
    by_id = select == "candidate_select"
    if isinstance(plans, SqlitePlans):
        seek = "INDEX sqlite_autoindex_memory_1 (id=?)" if by_id else "INTEGER PRIMARY KEY (rowid=?)"
        assert step == f"SEARCH memory USING {seek}"
    else:
        assert ("memory_id_key memory (id = ANY" if by_id else "memory_pkey memory (rowno = ANY") in step


@pytest.mark.parametrize("which", WHICH, ids=str)
def test_speakers_are_looked_up_in_their_index(plans: Plans, hold: holdfast.Holdfast, which: Filter) -> None:
    run = ran(plans, hold, *filter_parts(which, "speaker_select", "memory.first", name="Name7", limit=1))
    assert plans.walks(run) == []
    assert sum("memory_speaker" in step for step in plans.steps(run)) == 2


def test_changes_are_read_as_one_range_of_the_journal(plans: Plans, hold: holdfast.Holdfast) -> None:
    (step,) = read(plans.steps(ran(plans, hold, ["memory_changed"], {"after": 500, "upto": 520})), "journal")
    if isinstance(plans, SqlitePlans):
        assert step == "SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
    else:
        assert "journal_pkey journal ((seq > " in step
        assert "(seq <= " in step


def test_memories_without_embeddings_are_read_in_order_after_the_watermark(
    plans: Plans, hold: holdfast.Holdfast
) -> None:
    steps = plans.steps(
        ran(
            plans,
            hold,
            ["embedding_due", "embedding_due.first"],
            {"model": "one", "after": 500, "limit": 5, "renewed": -1},
        )
    )
    assert [step for step in steps if "Sort" in step or "ORDER BY" in step] == []
    (memory,), (kept,) = read(steps, "memory"), read(steps, "embedding")
    if isinstance(plans, SqlitePlans):
        assert memory == "SEARCH m USING INTEGER PRIMARY KEY (rowid>?)"
        assert kept == "SEARCH e USING INDEX sqlite_autoindex_embedding_1 (memory=? AND model=?)"
    else:
        assert "memory_pkey memory (rowno > " in memory
        assert re.search(r"embedding_pkey embedding \(\(?\(?memory = ", kept)


@pytest.mark.parametrize(
    ("parts", "params"),
    [
        (
            ["embedding_due", "memory.some", "embedding_due.first"],
            {"model": "one", "ids": ["a"], "after": 0, "limit": 5, "renewed": -1},
        ),
        (["embedding_of"], {"model": "one", "ids": ["a"]}),
        (["embedding_reply_targets"], {"ids": ["a"]}),
        (["memory_id_neighbours"], {"id": "a"}),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_embeddings_of_given_memories_are_found_by_index(
    plans: Plans, hold: holdfast.Holdfast, parts: Sequence[SqlPart], params: dict[str, Any]
) -> None:
    run = ran(plans, hold, parts, params)
    assert plans.steps(run)
    assert plans.walks(run) == []


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("which", [EVERYTHING, Filter(namespace="n1"), Filter(tags=("x",))], ids=str)
def test_embeddings_in_a_file_are_read_by_row_number_for_any_filter(
    plans: Plans, hold: holdfast.Holdfast, which: Filter
) -> None:
    run = ran(plans, hold, *filter_parts(which, "embedding_nearest", numbers=[3, 300]))
    assert [step for step in plans.steps(run) if re.match("SEARCH [sem] ", step)] == [
        "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH e USING INDEX sqlite_autoindex_embedding_1 (memory=? AND model=? AND begins=?)",
        "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)",
    ]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_new_binary_index_rows_are_read_after_the_known_ones(plans: Plans, hold: holdfast.Holdfast) -> None:
    run = ran(plans, hold, ["binary_index_page"], {"model": "one", "after": 250, "last": 300, "size": 8, "limit": 9})
    assert plans.steps(run) == ["SEARCH binary_index USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]


@pytest.mark.parametrize("order", ["memory_by_time.forward", "memory_by_time.backward"])
def test_memories_of_a_period_are_read_as_one_index_range(plans: Plans, hold: holdfast.Holdfast, order: str) -> None:
    run = ran(plans, hold, *filter_parts(Filter(said_since=1, said_until=2), "memory_by_time", order, limit=10))
    assert any("memory_time" in step for step in plans.steps(run))
    assert plans.walks(run) == []

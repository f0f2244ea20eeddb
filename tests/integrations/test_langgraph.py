"""The LangGraph store: for any labels and keys, our answers equal those of LangGraph's own store."""

import asyncio
from itertools import count
from typing import Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import holdfast
from engines import ENGINES_BY_RING
from holdfast.integrations import HoldfastStore
from holdfast.integrations.namespace_segments import from_segment, to_segment
from holdfast.kernel.errors import Invalid

numbers = count()
odd = st.text(st.characters(exclude_characters="."), min_size=1, max_size=8)
labels = st.sampled_from(["users", "a", "a/b", "a:b", "%2F", "_invalidations", "Straße", "e\u0301", "*", " "])
paths = st.lists(labels, min_size=1, max_size=3).map(tuple)
keys = st.sampled_from(["k", "K", " k", "", "a.b/c", "é", "e\u0301", "\n", "k" * 700, "k" * 701])
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
values = st.fixed_dictionaries({"n": st.integers(0, 3), "tag": st.sampled_from(["x", "y"])}, optional={"more": json})
filters = st.sampled_from(
    [
        None,
        {"tag": "x"},
        {"n": {"$gt": 1}},
        {"n": {"$gte": 1, "$lt": 3}},
        {"tag": {"$ne": "x"}, "n": {"$lte": 2}},
        {"more": None},
        {"n": {"$eq": 2}},
        {"more": {"a": 1}},
        {"more": [1]},
    ]
)
conditions = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), st.lists(labels, max_size=2).map(tuple))
ops = st.one_of(
    st.tuples(paths, keys, values).map(lambda given: PutOp(*given)),
    st.tuples(paths, keys, values).map(lambda given: PutOp(*given)),
    st.tuples(paths, keys, st.none()).map(lambda given: PutOp(*given)),
    st.tuples(paths, keys).map(lambda given: GetOp(*given)),
    st.tuples(st.lists(labels, max_size=2).map(tuple), filters, st.just(100)).map(lambda given: SearchOp(*given)),
    st.tuples(
        st.none() | st.lists(conditions, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        st.integers(0, 5),
        st.integers(0, 2),
    ).map(lambda given: ListNamespacesOp(*given)),
)


def plain(result: Any) -> Any:
    """Return an answer without its times; search results without their order, which LangGraph leaves open."""
    if isinstance(result, list) and result and isinstance(result[0], SearchItem):
        return sorted((item.namespace, item.key, repr(item.value)) for item in result)
    return result and ((result.namespace, result.key, result.value) if hasattr(result, "key") else result)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(ops, min_size=1, max_size=4), max_size=6))
def test_the_store_answers_like_the_store_of_langgraph(hold: holdfast.Holdfast, batches: list[list[Any]]) -> None:
    theirs, ours = InMemoryStore(), HoldfastStore(hold, namespace=f"n{next(numbers)}")
    for batch in batches:
        for path in [path for path, held in theirs._data.items() if not held]:
            del theirs._data[path]  # it lists namespaces that were only queried
        ordered = sorted(batch, key=lambda op: isinstance(op, GetOp))
        assert list(map(plain, ours.batch(ordered))) == list(map(plain, theirs.batch(ordered)))


@given(st.lists(odd, max_size=4))
def test_a_path_of_any_labels_survives_encoding(path: list[str]) -> None:
    assert [from_segment(to_segment(label)) for label in path] == path


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.lists(odd, min_size=1, max_size=12).map(tuple), key=st.text(max_size=12))
def test_any_labels_and_any_key_identify_one_item(hold: holdfast.Holdfast, path: tuple[str, ...], key: str) -> None:
    store = HoldfastStore(hold, namespace=f"m{next(numbers)}")
    try:
        store.batch([PutOp(path, key, {"v": key})])
    except (Invalid, InvalidNamespaceError):
        return
    found = store.get(path, key)
    assert found is not None
    assert (found.namespace, found.key, found.value) == (path, key, {"v": key})
    assert store.list_namespaces() == [path]
    assert store.get((*path, "x"), key) is None


@pytest.mark.parametrize("engine", ENGINES_BY_RING)
def test_a_query_is_answered_best_first_within_its_prefix(hold: holdfast.Holdfast) -> None:
    store = HoldfastStore(hold, fields=["text"])
    store.put(("users", "1"), "a", {"text": "Ann drinks black coffee", "note": "likes tea"})
    store.put(("users", "2"), "b", {"text": "The roof leaks", "n": 1})
    store.put(("users", "2"), "c", {"text": "coffee is out", "n": 2}, index=False)
    store.put(("users", "10"), "d", {"text": "x", "other": "coffee machine"}, index=["other"])
    store.put(("usersx",), "e", {"text": "coffee elsewhere"})
    found = store.search(("users",), query="who drinks coffee?")
    assert [item.key for item in found][:2] == ["a", "d"]
    assert {item.key: item.score is not None for item in found} == {"a": True, "b": False, "c": False, "d": True}
    assert [item.key for item in store.search(("users", "2"), query="coffee", filter={"n": {"$gte": 2}})] == ["c"]
    assert [item.key for item in store.search(("users",), limit=2, offset=1)] == ["c", "b"]
    assert hold.recall("who drinks coffee?").memories[0].title == "a"
    asyncio.run(store.aput(("users", "1"), "a", {"text": "Ann drinks green tea"}))
    item = asyncio.run(store.aget(("users", "1"), "a"))
    assert item is not None
    assert item.created_at < item.updated_at
    assert [change.op for change in hold.history(id=hold.recall("green tea").memories[0].id).changes] != []


def test_an_unstorable_item_is_reported(hold: holdfast.Holdfast) -> None:
    store = HoldfastStore(hold)
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a.b",), "k", {"v": 1})])
    with pytest.raises(NotImplementedError):
        store.put(("a",), "k", {"v": 1}, ttl=5)
    with pytest.raises(Invalid, match="metadata"):
        store.put(("a",), "k", {"v": "x" * 70_000})
    store.put(("a",), "k", {"v": 1})
    with pytest.raises(ValueError, match=r"Unsupported operator: \$in"):
        store.search(("a",), filter={"v": {"$in": [1]}})


class State(TypedDict):
    said: str


def test_a_graph_remembers_from_one_thread_to_the_next(db: str) -> None:
    def note(state: State, *, store: BaseStore) -> State:
        known = store.search(("people", "ann"))
        store.put(("people", "ann"), f"n{len(known)}", {"said": state["said"]})
        return {"said": " / ".join(sorted(item.value["said"] for item in known))}

    def answer(said: str) -> str:
        with holdfast.open(db) as hold:
            graph = StateGraph(State).add_node("note", note).add_edge(START, "note").add_edge("note", END)
            return str(graph.compile(store=HoldfastStore(hold)).invoke({"said": said})["said"])

    assert [answer(said) for said in ("one", "two", "three")] == ["", "one", "one / two"]

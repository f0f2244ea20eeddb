"""Results of the library: datetimes, None, lists, dictionaries."""

import pickle
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import types
from holdfast.kernel.errors import StoreClosed
from holdfast.kernel.registry.encoding import Result, get_converter, library_type
from holdfast.operations import REGISTRY


def test_times_are_aware_datetimes_and_what_is_not_there_is_none(hold: holdfast.Holdfast) -> None:
    before = datetime.now(UTC)
    stored = hold.store("Plan", "x", expires_at="2031-01-01")
    assert before <= stored.created_at <= datetime.now(UTC)
    assert stored.expires_at == datetime(2031, 1, 1, tzinfo=UTC)
    assert (stored.valid_from, stored.speaker) == (None, None)
    assert "speaker" not in repr(stored)


def test_a_result_with_a_list_is_iterable(hold: holdfast.Holdfast) -> None:
    for number in range(3):
        hold.store(f"Plan {number}", f"We deploy on day {number}.")
    result = hold.recall("deploy")
    assert (len(result), bool(result)) == (3, True)
    assert [memory.id for memory in result] == [memory.id for memory in result.memories]
    assert (result[-1], result[:2]) == (result.memories[2], result.memories[:2])
    with pytest.raises(IndexError, match=r"RecallResult.memories has no item 3: it has 3\."):
        result[3]
    none = hold.recall("zebra")
    assert (len(none), bool(none), list(none)) == (0, False, [])
    with pytest.raises(IndexError, match=r"no item 0: it is empty\. Check `if result:`"):
        none[0]


def test_to_dict_is_what_the_other_surfaces_send(hold: holdfast.Holdfast) -> None:
    stored = hold.store("Plan", "x", valid_from="2026-01-01", source_span={"start": 1, "end": 2}, source_uri="doc:plan")
    hold.store("Plan", "y", on_conflict="merge")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get", {"id": stored.id}),
        ("recall", {"context": "plan", "explain": True, "note": False}),
        ("list", {}),
        ("get_taxonomy", {}),
        ("history", {"id": stored.id}),
        ("stats", {}),
        ("verify", {}),
    ]
    for name, arguments in calls:
        sent = msgspec.to_builtins(hold.call(name, arguments))
        assert getattr(hold, name)(**arguments).to_dict() == msgspec.json.decode(msgspec.json.encode(sent)), name


def test_a_result_cannot_be_changed_and_can_be_pickled(hold: holdfast.Holdfast) -> None:
    hold.store("Plan", "x")
    result = hold.list()
    with pytest.raises(AttributeError):
        result.count = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_more_special_memory_is_a_memory_too(hold: holdfast.Holdfast) -> None:
    hold.store("Plan", "x")
    assert isinstance(hold.recall("plan")[0], types.MemoryView)


def test_every_answer_has_a_type_in_the_types_module() -> None:
    for op in REGISTRY:
        result = library_type(op.answer)
        assert getattr(types, result.__name__) is result
        assert callable(get_converter(op.answer, "library"))
    assert set(types.__all__) == set(dir(types))
    assert issubclass(types.RecallResult, Result)
    with pytest.raises(AttributeError):
        types.Nonsense  # noqa: B018 - reading it is the test


def test_a_closed_store_refuses_every_operation(hold: holdfast.Holdfast) -> None:
    hold.close()
    hold.close()
    for op in REGISTRY:
        with pytest.raises(StoreClosed):
            hold.call(op.name, {})
        with pytest.raises(StoreClosed):
            getattr(hold, op.name)()

"""The origin of a reflection survives export and import."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import NotFound

Make = Callable[..., str]


def copy_store(hold: holdfast.Holdfast, to: Path) -> holdfast.Holdfast:
    """Copy everything into another store."""
    other = holdfast.open(str(to), agent_id="ai:importer@there", now=hold.ctx.now)
    assert other.call("import", {"envelope": hold.export()}).rejected == 0
    return other


def node(hold: holdfast.Holdfast) -> str:
    return str(hold.verify().node)


def test_a_local_memory_has_no_other_origin(hold: holdfast.Holdfast, observe: Make, reflect: Make) -> None:
    so = reflect("so", observe("a"))
    found = hold.reflection_origin(memory_id=so)
    assert (found.peer_origin, found.signing_agent, found.original_depth) == (None, "ai:tester@here", 1)
    assert (found.local_depth_at_arrival, found.is_reflection) == (None, True)
    plain = hold.reflection_origin(memory_id=observe("b"))
    assert (plain.original_depth, plain.is_reflection) == (0, False)


def test_depth_and_kind_survive_a_transfer_to_another_store(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tmp_path: Path
) -> None:
    second = reflect("second", reflect("first", observe("a")))
    with copy_store(hold, tmp_path / "other.db") as other:
        came = other.get(second)
        assert (came.memory_kind, came.reflection_depth) == ("reflection", 2)
        found = other.reflection_origin(memory_id=second)
        assert found.peer_origin is not None
        assert found.peer_origin.startswith(node(hold))
        assert (found.signing_agent, found.original_depth, found.local_depth_at_arrival) == ("ai:tester@here", 2, 2)


def test_a_synced_memory_has_its_origin_and_its_depth_at_arrival(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tmp_path: Path
) -> None:
    so, low = reflect("so", observe("a")), observe("low")
    hold.link(source_id=low, target_id=so, relation="reflects_on")
    with holdfast.open(str(tmp_path / "other.db"), agent_id="ai:puller@there") as other:
        other.sync(remote=hold.settings.db, direction="pull")
        came, rose = (other.reflection_origin(memory_id=id) for id in (so, low))
    assert (came.signing_agent, came.original_depth, came.local_depth_at_arrival) == ("ai:tester@here", 1, 1)
    assert (rose.original_depth, rose.local_depth_at_arrival, rose.reflection_depth) == (0, 2, 2)
    assert came.peer_origin is not None
    assert came.peer_origin.startswith(node(hold))
    assert hold.reflection_origin(memory_id=so).local_depth_at_arrival is None


def test_the_origin_is_the_author_and_not_the_relaying_store(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tmp_path: Path
) -> None:
    so = reflect("so", observe("a"))
    with copy_store(hold, tmp_path / "second.db") as second, copy_store(second, tmp_path / "third.db") as third:
        origin = third.reflection_origin(memory_id=so).peer_origin
        assert origin is not None
        assert origin.startswith(node(hold))


def test_the_original_depth_is_separate_from_a_later_depth_at_the_origin(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tmp_path: Path
) -> None:
    low, high = observe("low"), reflect("first", observe("a"))
    hold.link(source_id=low, target_id=high, relation="reflects_on")
    with copy_store(hold, tmp_path / "other.db") as other:
        extra = other.reflect(source_ids=[other.store(title="b", content="x").id], title="there", content="x").id
        other.link(source_id=high, target_id=extra, relation="reflects_on")
        found = other.reflection_origin(memory_id=low)
        assert (found.original_depth, found.local_depth_at_arrival, found.reflection_depth) == (0, 2, 3)


def test_the_origin_format_of_another_program_is_read(hold: holdfast.Holdfast) -> None:
    told = {"peer_origin": "ai:far@away", "original_depth": 2, "local_depth_at_arrival": 3}
    row = {"id": "m", "title": "m", "content": "x", "reflection_depth": 2, "tier": "long", "memory_kind": "reflection"}
    hold.call("import", {"envelope": {"memories": [row | {"metadata": {"reflection_origin": told}}]}})
    found = hold.reflection_origin(memory_id="m")
    assert (found.peer_origin, found.original_depth, found.local_depth_at_arrival) == ("ai:far@away", 2, 2)


@pytest.mark.parametrize(
    "told", [7, {}, {"original_depth": "deep"}, {"original_depth": -1}, {"original_depth": 1 << 60}]
)
def test_an_unreadable_origin_is_ignored(hold: holdfast.Holdfast, told: Any) -> None:
    row = {"id": "m", "title": "m", "content": "x", "reflection_depth": 2, "tier": "long", "reflection_origin": told}
    hold.call("import", {"envelope": {"memories": [row]}})
    assert hold.reflection_origin(memory_id="m").original_depth == 2


def test_an_edit_does_not_change_the_origin(hold: holdfast.Holdfast, observe: Make, reflect: Make) -> None:
    so = reflect("so", observe("a"))
    hold.update(so, metadata={"reflection_origin": {"peer_origin": "forged", "original_depth": 9}}, content="New.")
    found = hold.reflection_origin(memory_id=so)
    assert (found.peer_origin, found.original_depth) == (None, 1)


def test_the_origin_of_an_unknown_memory_is_not_found(hold: holdfast.Holdfast) -> None:
    with pytest.raises(NotFound):
        hold.reflection_origin(memory_id="no-such-memory")

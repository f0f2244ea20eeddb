"""Fixtures: observations and reflections, by title."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.graph import read_links as links
from holdfast.features.graph.read_links import LinkFilter


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def observe(hold: holdfast.Holdfast) -> Callable[..., str]:
    """Store an observation; return its id."""

    def observe(title: str, **more: Any) -> str:
        return str(hold.store(title=title, content=f"{title} is so.", **more).id)

    return observe


@pytest.fixture
def reflect(hold: holdfast.Holdfast) -> Callable[..., str]:
    """Store a reflection; return its id."""

    def reflect(title: str, *sources: str, **more: Any) -> str:
        answer = hold.reflect(source_ids=list(sources), title=title, content=f"{title} follows.", **more)
        return str(answer.id)

    return reflect


@pytest.fixture
def depth(hold: holdfast.Holdfast) -> Callable[[str], int]:
    """The depth of a memory in any state."""

    def depth(id: str) -> int:
        with hold.ctx.reading() as session:
            rows = session.select(("memory_select", "memory.one"), {"id": id})
        return int(rows[0][17])

    return depth


@pytest.fixture
def ground(hold: holdfast.Holdfast) -> Callable[[str], set[str]]:
    """The current sources of a reflection."""

    def ground(id: str) -> set[str]:
        with hold.ctx.reading() as session:
            which = LinkFilter(view=None, relations=("reflects_on",))
            return {
                edge.id for edge in links.list_outgoing(session, hold.ctx.caller, [id], which, hold.ctx.now(), limit=99)
            }

    return ground

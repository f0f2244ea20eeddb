"""Fixtures: observations and reflections, by title."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.graph import store as links
from holdfast.features.graph.store import LinkFilter


@pytest.fixture
def ctx(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def observe(ctx: holdfast.Holdfast) -> Callable[..., str]:
    """Store an observation; return its id."""

    def observe(title: str, **more: Any) -> str:
        return str(ctx.store(title=title, content=f"{title} is so.", **more).id)

    return observe


@pytest.fixture
def reflect(ctx: holdfast.Holdfast) -> Callable[..., str]:
    """Store a reflection; return its id."""

    def reflect(title: str, *sources: str, **more: Any) -> str:
        answer = ctx.reflect(source_ids=list(sources), title=title, content=f"{title} follows.", **more)
        return str(answer.id)

    return reflect


@pytest.fixture
def depth(ctx: holdfast.Holdfast) -> Callable[[str], int]:
    """The depth of a memory in any state."""

    def depth(id: str) -> int:
        with ctx.ctx.reading() as session:
            rows = session.select(("memory_select", "memory.one"), {"id": id})
        return int(rows[0][17])

    return depth


@pytest.fixture
def ground(ctx: holdfast.Holdfast) -> Callable[[str], set[str]]:
    """The current sources of a reflection."""

    def ground(id: str) -> set[str]:
        with ctx.ctx.reading() as session:
            which = LinkFilter(view=None, relations=("reflects_on",))
            return {
                edge.id for edge in links.list_outgoing(session, ctx.ctx.caller, [id], which, ctx.ctx.now(), limit=99)
            }

    return ground

"""Fixtures: memories derived from others, by title."""

from typing import Any

import pytest
from ways_to_invalidate import Remember

import holdfast


@pytest.fixture
def remember(clocked_store: holdfast.Holdfast) -> Remember:
    def remember(title: str, *sources: str, relation: str = "derived_from", **more: Any) -> str:
        """Store a memory derived from some others."""
        given = {"title": title, "content": f"about {title}", "tier": "long", "namespace": "team"} | more
        id = str(clocked_store.store(**given).id)
        for source in sources:
            clocked_store.link(id, source, relation=relation)
        return id

    return remember

"""Fixtures: memories derived from others, by title."""

from typing import Any

import pytest
from falling import Remember

import holdfast


@pytest.fixture
def remember(timed: holdfast.Holdfast) -> Remember:
    def remember(title: str, *sources: str, relation: str = "derived_from", **more: Any) -> str:
        """Store a memory derived from some others."""
        given = {"title": title, "content": f"about {title}", "tier": "long", "namespace": "team"} | more
        id = str(timed.store(**given).id)
        for source in sources:
            timed.link(id, source, relation=relation)
        return id

    return remember

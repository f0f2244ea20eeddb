"""Keeping a memory clean: what a new text repeats, renews or contradicts."""

from ..domain.alike import Likeness, Relation, compare
from ..domain.memory import Memory
from ..storage.port import Session
from . import duplicate
from .hold import Hold

_ORDER: dict[Relation, int] = {"same": 0, "near": 1, "update": 2, "conflict": 3, "other": 4}


def likes(
    hold: Hold, session: Session, namespace: str | None, title: str, content: str, limit: int = 10
) -> list[tuple[Memory, Likeness]]:
    """The memories that say nearly what a text says, or something else of the same subject, best first."""
    found = [
        (one, compare(one.content, content)) for one in duplicate.candidates(hold, session, title, content, namespace)
    ]
    near = [pair for pair in found if pair[1].relation != "other"]
    return sorted(near, key=lambda pair: (_ORDER[pair[1].relation], -pair[1].score, pair[0].id))[:limit]

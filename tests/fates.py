"""Memories of which one store deletes some: for those who count what an exchange makes of them."""

from typing import Any

import holdfast

DELETED = 3
"""Of those below, by the end of an exchange; the others live on, or were deleted before."""
COUNTED = {"new": 0, "update": 4, "noop": 1, "links": 0}


def part(source: holdfast.Holdfast, target: holdfast.Holdfast) -> None:
    """Let one store delete what the other edited before, or later, or deleted too, or never heard of."""
    names = ("deleted before it is edited", "edited before", "brought back", "deleted twice", "deleted on both sides")
    late, early, back, twice, both = (source.store(title=name, content="As it was.").id for name in names)
    source.sync(remote=target.settings.db, trust_source=True)
    target.update(id=early, content="Edited before it was deleted.")
    for id in (late, early, back, twice, both):
        source.delete(id=id)
    for id in (back, twice):
        source.undo(change=source.history(id=id).changes[-1].seq)
    source.delete(id=twice)
    source.delete(id=source.store(title="Fleeting", content="Nobody else heard of it.").id)
    target.update(id=late, content="Edited after it was deleted.")
    target.delete(id=both)


def told(done: Any) -> tuple[int, int, int]:
    """What a sync says of all that it did, or would do, as one that is rehearsed and one that is not both say it."""
    plans = [plan for plan in (getattr(done, "pull", None), getattr(done, "push", None)) if plan]
    went = [getattr(done, name, 0) or 0 for name in ("imported", "exported", "pulled", "pushed")]
    return sum(plan.new + plan.update for plan in plans) or sum(went), done.deletes, done.conflicts

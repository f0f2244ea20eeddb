"""Memories deleted in one store and edited in another, to test the counts of a sync."""

from typing import Any

import holdfast

DELETED = 3
"""Number of memories below that a sync deletes."""
COUNTED = {"new": 0, "update": 4, "noop": 1, "links": 0}


def delete_and_edit(source: holdfast.Holdfast, target: holdfast.Holdfast) -> None:
    """Delete memories in one store that the other edited before or later, deleted too, or never received."""
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


def read_counts(done: Any) -> tuple[int, int, int]:
    """Return the totals of a sync, in a form that a dry run and a real one share."""
    plans = [plan for plan in (getattr(done, "pull", None), getattr(done, "push", None)) if plan]
    went = [getattr(done, name, 0) or 0 for name in ("imported", "exported", "pulled", "pushed")]
    return sum(plan.new + plan.update for plan in plans) or sum(went), done.deletes, done.conflicts

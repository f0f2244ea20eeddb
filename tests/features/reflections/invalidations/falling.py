"""Ways to invalidate a memory, and reading the notices."""

from collections.abc import Callable
from typing import Any

import holdfast
from holdfast.features.reflections.invalidation import INVALIDATION
from holdfast.kernel.journal import journal

Remember = Callable[..., str]
Told = tuple[str, str, str, int, str, str]
"""Source, replacement, dependent, distance, cause and status."""


def told(hold: holdfast.Holdfast) -> set[Told]:
    """Read all live invalidations."""
    with hold.hold.reading() as session:
        rows = [INVALIDATION.load(row) for row in session.rows("invalidation_all", after="", limit=10_000)]
    return {
        (one.invalidated, one.invalidating, one.dependent, one.hop, one.cause, one.status)
        for one in rows
        if one.state == "live"
    }


def entries(hold: holdfast.Holdfast) -> list[journal.Entry]:
    with hold.hold.reading() as session:
        return [entry for entry in journal.pages(session) if entry.kind == "invalidation"]


def superseded(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.link(heir, fallen, relation="supersedes")


def deleted(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.delete(fallen)


def archived(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.archive(ids=[fallen])


def forgotten(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.forget(namespace="fallen")


def ended(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.update(fallen, valid_until="2020-01-01")


def imported(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    link = {"source_id": heir, "target_id": fallen, "relation": "supersedes"}
    assert hold.call("import", {"envelope": {"memories": [], "links": [link]}}).rejected == 0


WAYS: dict[str, tuple[Callable[..., Any], str]] = {
    "superseded": (superseded, "superseded"),
    "deleted": (deleted, "deleted"),
    "archived": (archived, "archived"),
    "forgotten": (forgotten, "archived"),
    "ended": (ended, "invalidated"),
    "imported": (imported, "superseded"),
}

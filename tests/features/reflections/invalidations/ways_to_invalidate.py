"""Ways to invalidate a memory, and reading the notices."""

from collections.abc import Callable
from typing import Any

import holdfast
from holdfast.features.reflections.invalidation import INVALIDATION
from holdfast.kernel.journal import journal

Remember = Callable[..., str]
NoticeRow = tuple[str, str, str, int, str, str]
"""Source, replacement, dependent, distance, cause and status."""


def read_notices(hold: holdfast.Holdfast) -> set[NoticeRow]:
    """Read all live invalidations."""
    with hold.ctx.reading() as session:
        rows = [INVALIDATION.load(row) for row in session.rows("invalidation_all", after="", limit=10_000)]
    return {
        (one.invalidated, one.invalidating, one.dependent, one.hop, one.cause, one.status)
        for one in rows
        if one.state == "live"
    }


def entries(hold: holdfast.Holdfast) -> list[journal.Entry]:
    with hold.ctx.reading() as session:
        return [entry for entry in journal.iter_entries(session) if entry.kind == "invalidation"]


def supersede_memory(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.link(heir, fallen, relation="supersedes")


def delete_memory(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.delete(fallen)


def archive_memory(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.archive(ids=[fallen])


def forget_namespace(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.forget(namespace="fallen")


def end_validity(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    return hold.update(fallen, valid_until="2020-01-01")


def import_link(hold: holdfast.Holdfast, fallen: str, heir: str) -> Any:
    link = {"source_id": heir, "target_id": fallen, "relation": "supersedes"}
    assert hold.call("import", {"envelope": {"memories": [], "links": [link]}}).rejected == 0


CAUSES: dict[str, tuple[Callable[..., Any], str]] = {
    "superseded": (supersede_memory, "superseded"),
    "deleted": (delete_memory, "deleted"),
    "archived": (archive_memory, "archived"),
    "forgotten": (forget_namespace, "archived"),
    "ended": (end_validity, "invalidated"),
    "imported": (import_link, "superseded"),
}

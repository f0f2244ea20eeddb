"""Read candidate rows and corpus statistics in few queries."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.features.memories.store import Filter, narrowed
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage.index_terms import Parsed, length_of, read
from holdfast.kernel.storage.port import Session

SAMPLE = 200
MOST_COUNTED = 5000
"""If a filter matches more memories than this, word rarity is taken from the whole store."""
MOST_FILTERS = 256
BELIEVED = 50
"""A filter with very many matches is counted again after this many uses."""
DEAR = 3000
"""A word in more memories than this is not counted within a filter: its share of the whole store is used."""


class Row(Struct, frozen=True, gc=False):
    """The columns of a memory that ranking needs."""

    rowno: int
    id: str
    speaker: str | None
    strand: str | None
    occurred_at: int | None
    created_at: int
    updated_at: int
    valid_until: int | None
    priority: int
    confidence: float
    content_hash: str
    kind: str
    parsed: Parsed


def _row(row: Sequence[Any]) -> Row:
    columns = (*row[:-1], read(row[-1]))
    return Row(*columns)


class Around(NamedTuple):
    """The rows before and after a row in its thread, nearest first."""

    before: int | None
    long_before: int | None
    after: int | None
    long_after: int | None


class Scope(NamedTuple):
    """Number and mean length of the memories in scope, and how many contain each stem."""

    memories: int
    usual_length: float
    held: dict[str, int]
    share: dict[str, float]
    """Share of all memories of the store that contain a stem."""


def by_ids(session: Session, caller: Caller, ids: Sequence[str], which: Filter, now: int) -> list[Row]:
    """Read the memories among some ids that pass a filter."""
    parts, params = narrowed(caller, which, now)
    rows = session.assembled(("candidate_select", *parts), params | {"ids": list(ids)})
    return [_row(row) for row in rows]


def by_rows(session: Session, caller: Caller, rows: Collection[int], which: Filter, now: int) -> list[Row]:
    """Read memories by row number that pass a filter."""
    if not rows:
        return []
    parts, params = narrowed(caller, which, now)
    found = session.assembled(("candidate_select.numbered", *parts), params | {"rows": list(rows)})
    return [_row(row) for row in found]


def said(session: Session, caller: Caller, which: Filter, now: int, *, forward: bool, limit: int) -> list[str]:
    """List ids of memories that pass a filter, by time, oldest or newest first."""
    parts, params = narrowed(caller, which, now)
    order = "said_select.forward" if forward else "said_select.backward"
    return [row[0] for row in session.assembled(("said_select", *parts, order), params | {"limit": limit})]


class Neighbour(Struct, frozen=True, gc=False):
    """A memory next to another one in a thread."""

    rowno: int
    id: str
    speaker: str | None
    text: str
    """The parsed text."""


def neighbours(session: Session, caller: Caller, rows: Collection[int], which: Filter, now: int) -> list[Neighbour]:
    """Read the memories in some rows that the caller may see."""
    if not rows:
        return []
    parts, params = narrowed(caller, which, now)
    found = session.assembled(("neighbour_select", *parts), params | {"rows": list(rows)})
    return [Neighbour(*row) for row in found]


def around(session: Session, rows: Iterable[int]) -> dict[int, Around]:
    """Find the rows before and after those that are in a thread."""
    asked = list(rows)
    return {row[0]: Around(*row[1:]) for row in session.rows("strand_around", rows=asked)} if asked else {}


def speakers(session: Session, caller: Caller, names: Iterable[str], which: Filter, now: int) -> set[str]:
    """Find the speakers with one of some names."""
    parts, params = narrowed(caller, which, now)
    asked = ("speaker_select", *parts, "memory.first")
    return {row[0] for name in names for row in session.assembled(asked, params | {"name": name, "limit": 1})}


class Usual:
    """Cached statistics: the mean length of the newest memories, refreshed when the store has grown by an eighth, and
    which filters match very many memories, refreshed now and then."""

    def __init__(self) -> None:
        self._at, self._length = 0, 0.0
        self._many: dict[tuple[Caller, Filter], int] = {}

    def length(self, session: Session, last_row: int) -> float:
        if 8 * abs(last_row - self._at) > self._at:
            found = [length_of(text) for (text,) in session.rows("parsed_newest", limit=SAMPLE)]
            self._at, self._length = last_row, sum(found) / len(found) if found else 0.0
        return self._length

    def count(self, session: Session, caller: Caller, which: Filter, now: int) -> int | None:
        """Count the memories that pass a filter; None if there are very many. Cached, because counting takes long."""
        asked = (caller, which)
        if (left := self._many.get(asked, 0)) > 0:
            self._many[asked] = left - 1
            return None
        count = _count(session, caller, which, now)
        if count is None:
            if len(self._many) >= MOST_FILTERS:
                self._many.clear()
            self._many[asked] = BELIEVED
        return count


def scope(
    session: Session,
    caller: Caller,
    words: Mapping[str, str],
    which: Filter,
    now: int,
    usual: Usual,
    *,
    narrow: bool,
    last: int,
    held: Mapping[str, int] = {},
) -> Scope:
    """Count in how many memories each query stem occurs, in scope and in the whole store.

    `last` is the newest row; `held` are the counts for the whole store, if known.
    """
    held = held or session.holding(list(words), last)
    share = {stem: min(1.0, held.get(stem, 0) / last) if last else 0.0 for stem in words}
    memories = usual.count(session, caller, which, now) if narrow else None
    if memories is None:
        return Scope(last, usual.length(session, last), {stem: held.get(stem, 0) for stem in words}, share)
    counted = {
        stem: _held(session, caller, word, which, now) if held.get(stem, 0) <= DEAR else round(share[stem] * memories)
        for stem, word in words.items()
    }
    return Scope(memories, usual.length(session, last), counted, share)


def _count(session: Session, caller: Caller, which: Filter, now: int) -> int | None:
    """Count the memories that pass a filter; None if there are very many."""
    parts, params = narrowed(caller, which, now)
    ((count,),) = session.assembled(("memory_some", *parts, "memory_some.end"), params | {"limit": MOST_COUNTED + 1})
    return None if count > MOST_COUNTED else int(count)


def _held(session: Session, caller: Caller, word: str, which: Filter, now: int) -> int:
    """Count the memories that pass a filter and contain a word."""
    parts, params = narrowed(caller, which, now)
    ((count,),) = session.assembled(("word_held", *parts), params | {"match": session.match(word)})
    return int(count)

"""Measure invalidation of dependents, and showing staleness: `python -m benchmarks.stale [ROOTS] [POSTGRES]`.

Every root has a thousand dependent reflections in chains three deep, over five times as many observations. The roots
are superseded one by one; the floor is inserting the same rows with the bare driver into tables of the same size.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from benchmarks.floors.bare_database import open_connection
from benchmarks.floors.bare_sqlite import connect
from benchmarks.report import Row, times
from benchmarks.speed import BATCH, open_store
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.timing import in_turns, timer
from holdfast.app import Holdfast
from holdfast.features.graph import service as relate
from holdfast.features.reflections import read_invalidations as invalidations
from holdfast.kernel.journal.kinds import LINK
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.link import Link, Relation
from holdfast.kernel.storage.port import Session

ROOTS = 10
DEPENDENTS = 1000
CHAIN = 3
OBSERVATIONS = 5
"""Observations per reflection."""
QUESTIONS = 100
AGENT = "ai:bench@here"
NOTICES = "select * from invalidation where created_at = :at"
ENTRIES = "select * from journal where recorded_at = :at"
LINKS = "select * from link where created_at = :at"
TABLES = {"invalidation": NOTICES, "journal": ENTRIES, "link": LINKS}

Rows = dict[str, list[tuple[Any, ...]]]


class Floor(Protocol):
    """Inserts rows without Holdfast; durable when it returns."""

    def insert(self, rows: Rows) -> None: ...


class BareFile:
    """A copy of a store's file."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)

    def insert(self, rows: Rows) -> None:
        self._connection.execute("begin immediate")
        for table, many in rows.items():
            marks = ", ".join("?" * len(many[0]))
            self._connection.executemany(f"insert into {table} values ({marks})", many).fetchall()
        self._connection.execute("commit")


class BareTables:
    """Copies of a store's tables with the same rows."""

    def __init__(self, url: str) -> None:
        self._connection = open_connection(url)
        for table in TABLES:
            self._connection.execute(f"create table bare_{table} (like {table} including all)")
            self._connection.execute(f"insert into bare_{table} select * from {table}")

    def insert(self, rows: Rows) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for table, many in rows.items():
                marks = ", ".join(["%s"] * len(many[0]))
                cursor.executemany(f"insert into bare_{table} values ({marks})", many)


def fill(hold: Holdfast, roots: int) -> list[str]:
    """Store the roots, reflections and observations; return the ids of the roots."""
    prose, found = Prose(4), list[str]()
    kept = [
        id
        for begun in range(0, roots * DEPENDENTS * (OBSERVATIONS + 1) + roots, BATCH)
        for id in _store_batch(hold, prose, begun)
    ]
    for _ in range(roots):
        root, *above = [kept.pop() for _ in range(DEPENDENTS + 1)]
        with hold.ctx.transaction() as write:
            for place, id in enumerate(above):
                grounds = [kept.pop() for _ in range(OBSERVATIONS)]
                below = above[place - 1] if place % CHAIN else root
                write.add_all(LINK, [_link(write, id, ground, "reflects_on") for ground in (below, *grounds)], "link")
        found.append(root)
    return found


def _store_batch(hold: Holdfast, prose: Prose, begun: int) -> list[str]:
    memories = [prose.memory(number) for number in range(begun, begun + BATCH)]
    ids: list[str] = hold.call("bulk_store", {"memories": memories}).ids
    return ids


def _link(write: Transaction, source: str, target: str, relation: Relation) -> Link:
    at = write.now
    return Link(
        relate.link_id(source, target, relation), source, target, relation, at, None, AGENT, at, at, write.origin, 1
    )


def measure_superseding(hold: Holdfast, roots: Sequence[str], floor: Floor) -> Row:
    """Measure superseding the roots one by one, relative to inserting the rows it wrote."""
    heirs = _store_batch(hold, Prose(5), 10_000_000)
    written: list[Rows] = []

    def supersede(number: int) -> None:
        told = hold.call("link", {"source_id": heirs[number], "target_id": roots[number], "relation": "supersedes"})
        assert len(told.invalidation_notified) == DEPENDENTS

    timed = timer(supersede)

    def ours(number: int) -> float:
        seconds = timed(number)
        with hold.ctx.reading() as session:
            written.append(_newest_rows(session))
        return seconds

    seconds = [ours(number) for number in range(len(roots))]
    bare = [timer(floor.insert)(rows) for rows in written]
    what = f"superseding a source of {DEPENDENTS:,} reflections"
    return times(
        what, "the same rows inserted", sorted(bare)[len(bare) // 2], sorted(seconds)[len(seconds) // 2], at_most=5
    )


def _newest_rows(session: Session) -> Rows:
    """Return the rows of the newest change."""
    ((at,),) = session.query_sql("select max(created_at) from invalidation", {})
    return {table: session.query_sql(asked, {"at": at}) for table, asked in TABLES.items()}


def measure_marks(hold: Holdfast) -> Row:
    """Measure recall with staleness marks relative to recall without; the marks are timed separately."""
    prose = Prose(6)
    questions = [prose.question() for _ in range(QUESTIONS)]
    hits: dict[str, list[str]] = {
        question: [hit.id for hit in hold.call("recall", {"context": question}).memories] for question in questions
    }

    def marks(question: str) -> None:
        with hold.ctx.reading() as session:
            invalidations.find_stale(session, hold.ctx.caller, hits[question], hold.ctx.now())

    doers: dict[str, Callable[[Any], float]] = {
        "recall": timer(lambda question: hold.call("recall", {"context": question})),
        "marks": timer(marks),
    }
    found = in_turns(doers, questions, lambda: None)
    whole, alone = found["recall"].p50, found["marks"].p50
    return times("recall with marks of what is stale", "the same without them", whole - alone, whole, at_most=1.2)


def measure_stale(address: str, floor: Callable[[], Floor], roots: int) -> list[Row]:
    with open_store(address) as hold:
        made = fill(hold, roots)
        return [measure_superseding(hold, made, floor()), measure_marks(hold)]


def main(words: Sequence[str]) -> int:
    """Print the figures; return 1 if a target is missed."""
    roots = int(words[0]) if words else ROOTS
    with ExitStack() as stack:
        if words[1:]:
            rows = measure_stale(words[1], lambda: BareTables(words[1]), roots)
        else:
            place = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-stale-")))
            rows = measure_stale(str(place / "memory.db"), lambda: BareFile(_copy_store(place)), roots)
    for row in rows:
        print(f"{row.what}: {row.ours:.1f} ms, floor {row.floor:.1f} ms, {row.ratio:.2f}x ({row.target})")
    return int(any(row.met is False for row in rows))


def _copy_store(place: Path) -> Path:
    """Copy the store's file, including its log."""
    connection = connect(place / "memory.db")
    connection.execute("vacuum into ?", (str(place / "bare.db"),)).fetchall()
    connection.close()
    return place / "bare.db"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

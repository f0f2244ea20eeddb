"""Measure both engines while a store grows, and PostgreSQL relative to the bare database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.floors.bare_sqlite import Text
from benchmarks.report import POSTGRES, SQLITE, Growth, Row, growth_of, times
from benchmarks.speed import BATCH, Rounds, open_store
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.synthetic.synthetic_vectors import VectorCloud, add_next_vectors, check_vector_search
from benchmarks.timing import in_turns, timer
from holdfast.app import Holdfast
from holdfast.features.embeddings.minilm import MiniLm
from holdfast.features.recall.quality.timing import ProgressMeter, Spread
from holdfast.surfaces.bench.scratch_schemas import Database

if TYPE_CHECKING:
    from benchmarks.floors.bare_database import BareDatabase

BARE, AT_ONCE = "bare PostgreSQL", "bare PostgreSQL, at once"
TARGET_FROM = 10_000
"""In smaller stores nearly all time is network round trips."""

Found = dict[str, Spread]


class Grown(NamedTuple):
    about: str
    """The server and its durability settings."""
    rows: list[Row]
    growth: list[Growth]


NOT_GROWN = Grown("", [], [])


class Stores(NamedTuple):
    """A store on each engine, and bare tables: the store's own for reading, copies for writing."""

    sqlite: Holdfast
    postgres: Holdfast
    reading: BareDatabase
    writing: BareDatabase


class Grow(NamedTuple):
    """Sizes to grow to, and sizes measured with vectors."""

    sizes: Sequence[int]
    near: Sequence[int]
    rounds: Rounds
    meter: ProgressMeter


def steps(sizes: Sequence[int], near: Sequence[int], rounds: Rounds) -> int:
    filling = sum(len(range(before, size, BATCH)) for before, size in pairwise((0, *sizes)))
    with_vectors = len(near) * (2 + rounds.questions)
    return 2 * filling + len(sizes) * (1 + rounds.questions + rounds.grown) + with_vectors


def growing(place: Path, database: Database, how: Grow) -> Grown:
    """Measure the same questions and writes at one size after the other, at some sizes with vectors."""
    rows, growth, rounds, meter = list[Row](), list[Growth](), how.rounds, how.meter
    with stores_of(place, database) as stores:
        for before, size in pairwise((0, *how.sizes)):
            grow(stores, before, size, meter)
            recall = recalling(stores, rounds, meter.start_phase(f"recalling among {size:,}"))
            rows += recall_rows(size, recall)
            if size in how.near:
                rows += recalling_near(stores, database.store("ours"), size, rounds, meter)
            sample = Sample(size, rounds.grown, database.store("sample"))
            store = storing(stores, sample, meter.start_phase(f"storing among {size:,}"))
            growth += [growth_of(name, size, store[name], recall[name]) for name in (SQLITE, POSTGRES, BARE)]
        rows += store_rows(how.sizes[-1], store)
        return Grown(stores.reading.about(), rows, growth)


@contextmanager
def stores_of(place: Path, database: Database) -> Iterator[Stores]:
    from benchmarks.floors.bare_database import BareDatabase

    ours, bare = database.store("ours"), database.store("bare")
    with ExitStack() as stack:
        sqlite, postgres = (stack.enter_context(open_store(address)) for address in (str(place / "growing.db"), ours))
        open_store(bare).close()
        reading, writing = BareDatabase(ours), BareDatabase(bare)
        stack.callback(reading.close)
        stack.callback(writing.close)
        yield Stores(sqlite, postgres, reading, writing)


def grow(stores: Stores, before: int, size: int, meter: ProgressMeter) -> None:
    """Grow every store to a size."""
    for name, hold in ((SQLITE, stores.sqlite), (POSTGRES, stores.postgres)):
        prose, step = Prose(size), meter.start_phase(f"filling {size:,} memories on {name}")
        for begin in range(before, size, BATCH):
            memories = [prose.memory(number) for number in range(begin, min(begin + BATCH, size))]
            hold.call("bulk_store", {"memories": memories})
            step()
    step = meter.start_phase("filling the bare database")
    stores.writing.follow(stores.reading)
    for bare in (stores.reading, stores.writing):
        bare.tidy()
    step()


def recalling(stores: Stores, rounds: Rounds, step: Callable[[], None]) -> Found:
    prose = Prose(3)
    doers = {
        SQLITE: timer(lambda question: stores.sqlite.call("recall", {"context": question})),
        POSTGRES: timer(lambda question: stores.postgres.call("recall", {"context": question})),
        BARE: timer(stores.reading.ask),
    }
    for ask in doers.values():
        ask("What was it about?")
    return in_turns(doers, [prose.question() for _ in range(rounds.questions)], step)


class Sample:
    """Texts to store, and bare statements that write the same rows for similar texts."""

    def __init__(self, seed: int, count: int, url: str) -> None:
        from benchmarks.floors.bare_database import transactions

        prose = Prose(seed + 1)
        self.texts, others, more = (
            [(f"{part} {title}", content) for title, content in map(prose.text, range(seed, seed + count))]
            for part in range(3)
        )
        with open_store(url) as hold:
            for text in (*others, *more):
                store(hold, text)
        found = transactions(url, 2 * count)
        self.one_by_one, self.at_once = found[:count], found[count:]


def storing(stores: Stores, sample: Sample, step: Callable[[], None]) -> Found:
    """Measure writes, each durable before the next."""
    doers = {
        SQLITE: timer(lambda number: store(stores.sqlite, sample.texts[number])),
        POSTGRES: timer(lambda number: store(stores.postgres, sample.texts[number])),
        BARE: timer(lambda number: stores.writing.store(sample.one_by_one[number])),
        AT_ONCE: timer(lambda number: stores.writing.store_at_once(sample.at_once[number])),
    }
    return in_turns(doers, range(len(sample.texts)), step)


def store(hold: Holdfast, text: Text) -> None:
    hold.call("store", {"title": text[0], "content": text[1], "tier": "long", "tags": ["kept", "measured"]})


def recalling_near(stores: Stores, ours: str, size: int, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure questions that are embedded when asked, among memories with vectors."""
    embedder, prose = MiniLm(), Prose(6)
    give_vectors(stores, embedder, rounds, meter)
    step = meter.start_phase(f"recalling among {size:,} with vectors")
    with open_store(ours, "minilm") as hold:
        doers = {
            "bare": timer(lambda question: stores.reading.ask_near(question, embedder.embed([question])[0])),
            "ours": timer(lambda question: hold.call("recall", {"context": question})),
        }
        for ask in doers.values():
            ask("What was it about?")
        check_vector_search(hold, "What was it about?")
        return near_rows(size, in_turns(doers, [prose.question() for _ in range(rounds.questions)], step))


def give_vectors(stores: Stores, embedder: MiniLm, rounds: Rounds, meter: ProgressMeter) -> None:
    """Add vectors to every memory without one; create the indexes last, as for an empty table."""
    step, prose = meter.start_phase("filling vectors"), Prose(9)
    cloud = VectorCloud(embedder, [prose.content() for _ in range(rounds.centres)])
    indexes = stores.reading.unindex()
    after: int | None = 0
    while after is not None:
        after = add_next_vectors(stores.postgres, cloud, after, BATCH)
    step()
    stores.reading.index(indexes)
    stores.reading.tidy()
    step()


def recall_rows(size: int, found: Found) -> list[Row]:
    bare, ours, most = found[BARE], found[POSTGRES], 2 if size >= TARGET_FROM else None
    what = f"recall on PostgreSQL among {size:,}"
    return [
        times(f"{what}, p50", "the tsvector query, then reading", bare.p50, ours.p50, at_most=most),
        times(f"{what}, p95", "the same", bare.p95, ours.p95, at_most=most),
    ]


def store_rows(size: int, found: Found) -> list[Row]:
    bare, at_once, ours = found[BARE], found[AT_ONCE], found[POSTGRES]
    what = f"store on PostgreSQL among {size:,}"
    return [
        times(f"{what}, p50", "the same rows through psycopg", bare.p50, ours.p50, at_most=2),
        times(f"{what}, p95", "the same", bare.p95, ours.p95, at_most=2),
        times(f"{what}, p50", "the same rows in one pipeline", at_once.p50, ours.p50),
    ]


def near_rows(size: int, found: Found) -> list[Row]:
    bare, ours, most = found["bare"], found["ours"], 3 if size >= TARGET_FROM else None
    what = f"recall on PostgreSQL among {size:,} with vectors"
    return [
        times(f"{what}, p50", "the embedding, the pgvector and tsvector queries", bare.p50, ours.p50),
        times(f"{what}, p95", "the same", bare.p95, ours.p95, at_most=most),
    ]

"""The measurements with vectors: recall by words and by meaning, and what making vectors costs who stores."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks import cold
from benchmarks.cloud import Cloud, give_next, must_find_near
from benchmarks.crowd import crowd
from benchmarks.floors import BareQuery
from benchmarks.prose import Prose
from benchmarks.report import Curve, Row, rate, times
from benchmarks.speed import BATCH, Rounds, fill, opened
from benchmarks.timing import Doer, in_turns, took
from holdfast.features.embeddings.minilm import MiniLm
from holdfast.features.embeddings.service import texts
from holdfast.features.recall.quality.timing import Meter, Spread
from holdfast.surfaces.bench.clients import holdfast_command, serve

TARGET_FROM = 10_000
LARGE = 100_000
QUICK_MS = 60
"""What the slowest 5 % of recalls among a hundred thousand may take."""
ONE_EMBEDDING = "one embedding of the question"
FTS5 = "the FTS5 query on that file"


def recalling(place: Path, sizes: Sequence[int], rounds: Rounds, meter: Meter) -> tuple[list[Row], list[Curve]]:
    """The same questions to memories of every size, by words alone and with vectors."""
    embedder = MiniLm()
    cloud = cloud_of(embedder, rounds, meter)
    for size in sizes:
        fill(place / f"{size}.db", size, meter.stepping(f"filling {size:,} memories"))
        give_vectors(place / f"{size}.db", size, cloud, meter.stepping(f"filling vectors of {size:,} memories"))
    prose = Prose(3)
    questions = [prose.question() for _ in range(rounds.questions)]
    with ExitStack() as stack:
        doers: dict[str, Doer] = {"embedding": took(lambda question: embedder.embed([question]))}
        for size in sizes:
            doers |= stack.enter_context(asking(place / f"{size}.db", size, embedder))
        found = in_turns(doers, questions, meter.stepping("recalling"))
    return recall_rows(sizes, found), [curve(size, found) for size in sizes]


def cloud_of(embedder: MiniLm, rounds: Rounds, meter: Meter) -> Cloud:
    step, prose = meter.stepping("embedding texts"), Prose(9)
    cloud = Cloud(embedder, [prose.content() for _ in range(rounds.centres)])
    step()
    return cloud


def give_vectors(path: Path, size: int, cloud: Cloud, step: Callable[[], None]) -> None:
    """To every memory of a store, a thousand memories a transaction."""
    after: int | None = 0
    with opened(path) as hold:
        for _ in range(0, size, BATCH):
            after = give_next(hold, cloud, after or 0, BATCH)
            step()
        give_next(hold, cloud, after or 0, BATCH)


@contextmanager
def asking(path: Path, size: int, embedder: MiniLm) -> Iterator[dict[str, Doer]]:
    """A memory and the bare query on its file, which was read through once: it is the work that is compared."""
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass
    query = BareQuery(path)
    with opened(path) as words, opened(path, "minilm") as vectors:
        doers = {
            f"bare {size}": took(query.ask),
            f"both {size}": took(lambda question: query.ask(question, embedder)),
            f"words {size}": took(lambda question: words.call("recall", {"context": question})),
            f"vectors {size}": took(lambda question: vectors.call("recall", {"context": question})),
        }
        for ask in doers.values():
            ask("What was it about?")
        must_find_near(vectors, "What was it about?")
        yield doers
    query.close()


def recall_rows(sizes: Sequence[int], found: dict[str, Spread]) -> list[Row]:
    rows = [row for size in sizes for row in (*words_rows(size, found), *vectors_rows(size, found))]
    if len(sizes) > 1:
        rows += [growth_row(sizes, found, "words", ""), growth_row(sizes, found, "vectors", " with vectors")]
    return rows


def words_rows(size: int, found: dict[str, Spread]) -> list[Row]:
    bare, ours, most = found[f"bare {size}"], found[f"words {size}"], 3 if size >= TARGET_FROM else None
    return [
        times(f"recall among {size:,}, p50", FTS5, bare.p50, ours.p50, at_most=most),
        times(f"recall among {size:,}, p95", "the same", bare.p95, ours.p95, at_most=most),
    ]


def vectors_rows(size: int, found: dict[str, Spread]) -> list[Row]:
    bare, both, one = found[f"bare {size}"], found[f"both {size}"], found["embedding"]
    ours, what = found[f"vectors {size}"], f"recall among {size:,} with vectors"
    most, large = 4 if size == TARGET_FROM else None, size == LARGE
    return [
        times(f"{what}, p50", f"{FTS5} and {ONE_EMBEDDING}", both.p50, ours.p50, at_most=most),
        times(f"{what}, p95", "the same", both.p95, ours.p95),
        times(f"{what}, p50", ONE_EMBEDDING, one.p50, ours.p50),
        times(f"{what}, p50", FTS5, bare.p50, ours.p50),
        times(
            *(f"{what}, p95", "the same", bare.p95, ours.p95),
            at_most=1 if large else None,
            most_ms=QUICK_MS if large else None,
        ),
    ]


def growth_row(sizes: Sequence[int], found: dict[str, Spread], kind: str, how: str) -> Row:
    least, largest = min(sizes), max(sizes)
    small, large = found[f"{kind} {least}"].p95, found[f"{kind} {largest}"].p95
    what, floor = f"recall among {largest:,}{how}, p95", f"recall among {least:,}{how}, p95"
    return times(what, floor, small, large, at_most=10)


def curve(size: int, found: dict[str, Spread]) -> Curve:
    bare, words, vectors = (found[f"{kind} {size}"] for kind in ("bare", "words", "vectors"))
    return Curve(
        size=size,
        p50=words.p50 * 1000,
        p95=words.p95 * 1000,
        vectors_p50=vectors.p50 * 1000,
        vectors_p95=vectors.p95 * 1000,
        floor_p50=bare.p50 * 1000,
        floor_p95=bare.p95 * 1000,
    )


def starting(store: Path, size: int, rounds: Rounds, meter: Meter) -> list[Row]:
    """Cold starts on a store with vectors: the model, its library and every vector's signs are read anew."""
    recall = holdfast_command("recall", "what was it about", "--json", "--db", str(store))
    doers = {
        "words": took(lambda _: cold.run(recall, HOLDFAST_EMBEDDER="none")),
        "vectors": took(lambda _: cold.run(recall)),
    }
    for start in doers.values():
        start(0)
    found = in_turns(doers, range(rounds.starts), meter.stepping("starting the command line with vectors"))
    what, floor = f"`holdfast recall` among {size:,} with vectors, cold", "the same by words, cold"
    return [times(what, floor, found["words"].p50, found["vectors"].p50, at_most=2)]


def storing(place: Path, rounds: Rounds, meter: Meter) -> list[Row]:
    """What a store waits for, while a thread makes vectors of what was stored before."""
    step = meter.stepping("storing while vectors are made")

    def crowded(batch: int, count: int) -> dict[str, float]:
        def stored(kind: str) -> float:
            return crowd(kind, place / f"{kind} {batch}.db", count, processes=1, batch=batch).per_second

        return compared(stored, ("ours", "vectors"), rounds.turns, step)

    one, many = crowded(1, rounds.stores), crowded(BATCH, rounds.batches)
    http = compared(lambda kind: posted(place / f"{kind}.db", kind, rounds), ("none", "minilm"), rounds.turns, step)
    return [
        queued("stores while vectors are made", one["ours"], one["vectors"]),
        queued("stores in one transaction while vectors are made", many["ours"], many["vectors"]),
        queued("stores over HTTP while vectors are made", http["none"], http["minilm"]),
    ]


def queued(what: str, floor: float, ours: float) -> Row:
    return rate(what, "the same without vectors", floor, ours, at_least=0.8)


def compared(
    measure: Callable[[str], float], kinds: Sequence[str], turns: int, step: Callable[[], None]
) -> dict[str, float]:
    """The median of each kind, measured by turns."""
    found = {kind: list[float]() for kind in kinds}
    for turn in range(turns):
        for kind in kinds if turn % 2 else reversed(kinds):
            found[kind].append(measure(kind))
            step()
    return {kind: median(many) for kind, many in found.items()}


def posted(path: Path, embedder: str, rounds: Rounds) -> float:
    """Stores a second over one connection to `holdfast serve`."""
    prose = Prose(path.stat().st_size if path.exists() else 0)
    memories = [prose.memory(number) for number in range(rounds.stores)]
    with serve(str(path), HOLDFAST_EMBEDDER=embedder) as server:
        for query in ({"context": "What was it about?"}, {"context": "Where is it?"}):
            server.call("recall", query)
        seconds = took(lambda _: [server.call("store", memory) for memory in memories])(0)
    return rounds.stores / seconds


def reembedding(place: Path, rounds: Rounds, meter: Meter) -> list[Row]:
    """Making vectors of memories that have none, against the model alone on the same texts."""
    step, prose, embedder = meter.stepping("making vectors"), Prose(7), MiniLm()
    memories = [prose.memory(number) for number in range(rounds.reembedded)]
    passages = [text for one in memories for _, _, text in texts(one["title"], one["content"])]
    embedder.embed(passages[:1])
    bare = took(embedder.embed)(passages)
    step()
    with opened(place / "store.db") as hold:
        hold.call("bulk_store", {"memories": memories})
    with opened(place / "store.db", "minilm") as hold:
        ours = took(lambda _: hold.call("reembed", {}))(0)
    step()
    what = f"vectors by `reembed` of {rounds.reembedded:,} memories"
    return [rate(what, "the model alone", len(passages) / bare, len(passages) / ours)]

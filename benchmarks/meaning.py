"""Benchmarks with embeddings: recall by keywords and vectors, and the cost of embedding for writers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks import cold
from benchmarks.concurrent_writers import run_crowd
from benchmarks.floors.bare_sqlite import BareQuery
from benchmarks.report import Curve, Row, rate, times
from benchmarks.speed import BATCH, Rounds, fill, open_store
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.synthetic.synthetic_vectors import VectorCloud, add_next_vectors, check_vector_search
from benchmarks.timing import Doer, in_turns, timer
from holdfast.features.embeddings.minilm import MiniLm
from holdfast.features.embeddings.service import list_texts
from holdfast.features.recall.quality.timing import ProgressMeter, Spread
from holdfast.surfaces.bench.clients import holdfast_command, serve

TARGET_FROM = 10_000
LARGE = 100_000
MAX_RECALL_MS = 60
"""Target for the 95th percentile of recall among a hundred thousand."""
ONE_EMBEDDING = "one embedding of the question"
FTS5 = "the FTS5 query on that file"


def measure_recall(
    place: Path, sizes: Sequence[int], rounds: Rounds, meter: ProgressMeter
) -> tuple[list[Row], list[Curve]]:
    """Measure the same questions on stores of every size, by keywords only and with vectors."""
    embedder = MiniLm()
    cloud = make_cloud(embedder, rounds, meter)
    for size in sizes:
        fill(place / f"{size}.db", size, meter.start_phase(f"filling {size:,} memories"))
        add_vectors(place / f"{size}.db", size, cloud, meter.start_phase(f"filling vectors of {size:,} memories"))
    prose = Prose(3)
    questions = [prose.question() for _ in range(rounds.questions)]
    with ExitStack() as stack:
        doers: dict[str, Doer] = {"embedding": timer(lambda question: embedder.embed([question]))}
        for size in sizes:
            doers |= stack.enter_context(open_askers(place / f"{size}.db", size, embedder))
        found = in_turns(doers, questions, meter.start_phase("recalling"))
    return recall_rows(sizes, found), [curve(size, found) for size in sizes]


def make_cloud(embedder: MiniLm, rounds: Rounds, meter: ProgressMeter) -> VectorCloud:
    step, prose = meter.start_phase("embedding texts"), Prose(9)
    cloud = VectorCloud(embedder, [prose.content() for _ in range(rounds.centres)])
    step()
    return cloud


def add_vectors(path: Path, size: int, cloud: VectorCloud, step: Callable[[], None]) -> None:
    """Add vectors to every memory of a store, a thousand per transaction."""
    after: int | None = 0
    with open_store(path) as hold:
        for _ in range(0, size, BATCH):
            after = add_next_vectors(hold, cloud, after or 0, BATCH)
            step()
        add_next_vectors(hold, cloud, after or 0, BATCH)


@contextmanager
def open_askers(path: Path, size: int, embedder: MiniLm) -> Iterator[dict[str, Doer]]:
    """Open a store and the bare query on its file, after reading the file once, so only the work is compared."""
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass
    query = BareQuery(path)
    with open_store(path) as words, open_store(path, "minilm") as vectors:
        doers = {
            f"bare {size}": timer(query.ask),
            f"both {size}": timer(lambda question: query.ask(question, embedder)),
            f"words {size}": timer(lambda question: words.call("recall", {"context": question})),
            f"vectors {size}": timer(lambda question: vectors.call("recall", {"context": question})),
        }
        for ask in doers.values():
            ask("What was it about?")
        check_vector_search(vectors, "What was it about?")
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
            most_ms=MAX_RECALL_MS if large else None,
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


def measure_cold_start(store: Path, size: int, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure cold starts with vectors: the model, its library and the binary index are loaded each time."""
    recall = holdfast_command("recall", "what was it about", "--json", "--db", str(store))
    doers = {
        "words": timer(lambda _: cold.run(recall, HOLDFAST_EMBEDDER="none")),
        "vectors": timer(lambda _: cold.run(recall)),
    }
    for start in doers.values():
        start(0)
    found = in_turns(doers, range(rounds.starts), meter.start_phase("starting the command line with vectors"))
    what, floor = f"`holdfast recall` among {size:,} with vectors, cold", "the same by words, cold"
    return [times(what, floor, found["words"].p50, found["vectors"].p50, at_most=2)]


def measure_storing(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure writes while a thread computes the embeddings of earlier writes."""
    step = meter.start_phase("storing while vectors are made")

    def compare_crowds(batch: int, count: int) -> dict[str, float]:
        def stores_per_second(kind: str) -> float:
            return run_crowd(kind, place / f"{kind} {batch}.db", count, processes=1, batch=batch).per_second

        return compare_kinds(stores_per_second, ("ours", "vectors"), rounds.turns, step)

    one, many = compare_crowds(1, rounds.stores), compare_crowds(BATCH, rounds.batches)
    http = compare_kinds(
        lambda kind: post_stores(place / f"{kind}.db", kind, rounds), ("none", "minilm"), rounds.turns, step
    )
    return [
        store_row("stores while vectors are made", one["ours"], one["vectors"]),
        store_row("stores in one transaction while vectors are made", many["ours"], many["vectors"]),
        store_row("stores over HTTP while vectors are made", http["none"], http["minilm"]),
    ]


def store_row(what: str, floor: float, ours: float) -> Row:
    return rate(what, "the same without vectors", floor, ours, at_least=0.8)


def compare_kinds(
    measure: Callable[[str], float], kinds: Sequence[str], turns: int, step: Callable[[], None]
) -> dict[str, float]:
    """Return the median of each kind, measured in turns."""
    found = {kind: list[float]() for kind in kinds}
    for turn in range(turns):
        for kind in kinds if turn % 2 else reversed(kinds):
            found[kind].append(measure(kind))
            step()
    return {kind: median(many) for kind, many in found.items()}


def post_stores(path: Path, embedder: str, rounds: Rounds) -> float:
    """Return writes per second over one connection to `holdfast serve`."""
    prose = Prose(path.stat().st_size if path.exists() else 0)
    memories = [prose.memory(number) for number in range(rounds.stores)]
    with serve(str(path), HOLDFAST_EMBEDDER=embedder) as server:
        for query in ({"context": "What was it about?"}, {"context": "Where is it?"}):
            server.call("recall", query)
        seconds = timer(lambda _: [server.call("store", memory) for memory in memories])(0)
    return rounds.stores / seconds


def measure_reembedding(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure `reembed` relative to the model alone on the same texts."""
    step, prose, embedder = meter.start_phase("making vectors"), Prose(7), MiniLm()
    memories = [prose.memory(number) for number in range(rounds.reembedded)]
    passages = [text for one in memories for _, _, text in list_texts(one["title"], one["content"])]
    embedder.embed(passages[:1])
    bare = timer(embedder.embed)(passages)
    step()
    with open_store(place / "store.db") as hold:
        hold.call("bulk_store", {"memories": memories})
    with open_store(place / "store.db", "minilm") as hold:
        ours = timer(lambda _: hold.call("reembed", {}))(0)
    step()
    what = f"vectors by `reembed` of {rounds.reembedded:,} memories"
    return [rate(what, "the model alone", len(passages) / bare, len(passages) / ours)]

"""Measure document ingestion: `python -m benchmarks.ingest [SEGMENTS] [MEMORIES] [ADDRESS]`.

The document is ingested into a store with many memories and vectors. The floor is the least any ingest must do: embed
the same texts with the same model, and insert the bare rows with full-text search in one transaction. CPU time is
measured too, because the machine may be busy.
"""

import resource
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

from benchmarks.floors.bare_sqlite import BareTable
from benchmarks.report import Row, rate, times, times_better
from benchmarks.speed import BATCH, open_store
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.synthetic.synthetic_vectors import VectorCloud, add_next_vectors
from holdfast.app import Holdfast
from holdfast.features.embeddings.minilm import MiniLm
from holdfast.features.embeddings.service import list_texts
from holdfast.features.ingest.split_document import split_document

SEGMENTS = 10_000
MEMORIES = 100_000
CENTRES = 500
NAMESPACE = "team/0"
SOURCE = "doc:bench"
MIN_SHARE = 0.8
"""Target share of the floor's speed."""
MIN_SPEEDUP = 20
"""How many times faster the same document must be the second time."""


class Timing(NamedTuple):
    seconds: float
    work: float
    """CPU seconds."""


def time_work(work: Any) -> Timing:
    begun, used = perf_counter(), process_time()
    work()
    return Timing(perf_counter() - begun, process_time() - used)


def fill(address: str, memories: int) -> None:
    """Fill a realistic store: notes and conversations in twenty namespaces, all with vectors."""
    prose = Prose(1)
    with open_store(address) as hold:
        for begin in range(0, memories, BATCH):
            batch = [prose.memory(number) for number in range(begin, min(begin + BATCH, memories))]
            hold.call("bulk_store", {"memories": batch})
        cloud = VectorCloud(MiniLm(), [prose.content() for _ in range(CENTRES)])
        after: int | None = 0
        while after is not None:
            after = add_next_vectors(hold, cloud, after, BATCH)


def document(segments: int, seed: int = 2) -> str:
    """Return a document with ten paragraphs under each heading."""
    prose, lines = Prose(seed), list[str]()
    for number in range(segments):
        if number % 10 == 0:
            lines.append(f"## {' '.join(prose.words(3)).capitalize()} {number}")
        lines.append(prose.content())
    return "\n\n".join(lines) + "\n"


def floor(place: Path, text: str) -> Timing:
    """Time embedding every text and inserting the bare rows."""
    embedder, table = MiniLm(), BareTable(place / "bare.db")
    embedder.embed(["Loaded."])
    pieces = split_document(text).pieces

    def work() -> None:
        for piece in pieces:
            embedder.embed([said for *_, said in list_texts(piece.title, piece.text)])
        table.insert_all((piece.title, piece.text) for piece in pieces)

    found = time_work(work)
    table.close()
    return found


def measure_ingest(address: str, place: Path, segments: int, memories: int) -> list[Row]:
    fill(address, memories)
    text = document(segments)
    asked = {"content": text, "namespace": NAMESPACE, "source_uri": SOURCE}
    with open_store(address, "minilm") as hold:
        hold.call("ingest", {"content": document(5, seed=3), "namespace": NAMESPACE})
        before = peak()
        bare = floor(place, text)
        ours = time_work(lambda: _ingest(hold, asked, segments))
        grown = peak() - before
        again = time_work(lambda: hold.call("ingest", asked))
    print(f"{segments:,} segments into {memories:,} memories; {grown} MiB more at the peak")
    return [
        rate(
            "segments ingested in a second", "their vectors and bare rows", segments / bare.seconds,
            segments / ours.seconds, at_least=MIN_SHARE,
        ),
        rate(
            "the same, of a processor", "the same", segments / bare.work, segments / ours.work, at_least=MIN_SHARE
        ),
        times_better("the same document again", "the first time", ours.seconds, again.seconds, at_least=MIN_SPEEDUP),
        times("a segment", "its vectors and its bare row", bare.work / segments, ours.work / segments),
    ]  # fmt: skip


def _ingest(hold: Holdfast, asked: dict[str, Any], segments: int) -> None:
    found = hold.call("ingest", asked)
    assert found.total == segments, found.total
    print({name: number for name, number in found.decisions.items() if number})


def peak() -> int:
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main(words: Sequence[str]) -> int:
    """Print the figures; return 1 if a target is missed."""
    segments = int(words[0]) if words else SEGMENTS
    memories = int(words[1]) if words[1:] else MEMORIES
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-ingest-")))
        rows = measure_ingest(words[2] if words[2:] else str(place / "memory.db"), place, segments, memories)
    for row in rows:
        print(f"{row.what}: {row.ours:.1f} {row.unit}, floor {row.floor:.1f}, {row.ratio:.2f}x ({row.target or '-'})")
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

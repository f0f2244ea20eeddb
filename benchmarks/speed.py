"""The speed benchmarks; each works in a directory and returns rows of the report."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks import cold
from benchmarks.concurrent_writers import PROCESSES, run_crowd
from benchmarks.floors.bare_sqlite import BareTable, Text
from benchmarks.report import Row, rate, times, times_better
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.timing import Doer, in_turns, timer
from holdfast import app
from holdfast.app import Holdfast
from holdfast.features.recall.quality.timing import ProgressMeter
from holdfast.settings import load
from holdfast.surfaces.bench.clients import holdfast_command

BATCH = 1000


class Rounds(Struct, frozen=True):
    """Number of repetitions."""

    questions: int = 200
    stores: int = 400
    batches: int = 5
    each: int = 50
    """Writes by each of the eight processes."""
    starts: int = 15
    calls: int = 500
    grown: int = 100
    """Writes at each size of a growing store."""
    turns: int = 5
    """Processes that store while embeddings are computed, and as many without embeddings."""
    reembedded: int = 1000
    """Memories embedded by the model itself."""
    centres: int = 2000
    """Texts with real vectors; the vectors of other memories are derived from them."""

    def steps(self, sizes: Sequence[int]) -> int:
        filling = sum(-(-size // BATCH) for size in sizes)
        with_vectors = filling + 1 + self.starts + 6 * self.turns + 2
        return filling + self.questions + self.stores + self.batches + 2 + 3 * self.starts + self.calls + with_vectors


def storing(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure storing one memory at a time, each durable before the next."""
    prose, table = Prose(1), BareTable(place / "bare.db")
    texts = [prose.text(number) for number in range(rounds.stores)]
    with open_store(place / "store.db") as hold:
        doers = {"bare": timer(table.insert), "ours": timer(lambda text: store(hold, text))}
        found = in_turns(doers, texts, meter.start_phase("storing one at a time"))
    table.close()
    bare, ours = found["bare"], found["ours"]
    return [
        times("store, one at a time", "insert into a table with FTS5", bare.p50, ours.p50, at_most=3),
        times("store, one at a time, p95", "the same", bare.p95, ours.p95),
    ]


def store(hold: Holdfast, text: Text) -> None:
    hold.call("store", {"title": text[0], "content": text[1], "tier": "long"})


def storing_in_bulk(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure storing a thousand memories in one transaction."""
    prose, table = Prose(2), BareTable(place / "bare.db")
    batches = [[prose.memory(batch * BATCH + n) for n in range(BATCH)] for batch in range(rounds.batches)]

    def insert(memories: list[dict[str, str]]) -> None:
        table.insert_all((memory["title"], memory["content"]) for memory in memories)

    with open_store(place / "store.db") as hold:
        doers = {"bare": timer(insert), "ours": timer(lambda memories: hold.call("bulk_store", {"memories": memories}))}
        found = in_turns(doers, batches, meter.start_phase("storing in bulk"))
    table.close()
    return [rate("stores in one transaction", "the same inserts", BATCH / found["bare"].p50, BATCH / found["ours"].p50)]


def storing_together(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure eight processes on one file."""
    step = meter.start_phase("storing with eight processes")
    bare = run_crowd("bare", place / "bare.db", rounds.each)
    step()
    ours = run_crowd("ours", place / "store.db", rounds.each)
    step()
    return [
        times(f"store, {PROCESSES} processes on one file, p99", "the same inserts", bare.each.p99, ours.each.p99),
        rate(f"stores of {PROCESSES} processes together", "the same inserts", bare.per_second, ours.per_second),
    ]


def fill(path: Path, size: int, step: Callable[[], None]) -> None:
    """Fill a store through the library, a thousand memories per transaction."""
    prose = Prose(size)
    with open_store(path) as hold:
        for begin in range(0, size, BATCH):
            memories = [prose.memory(number) for number in range(begin, min(begin + BATCH, size))]
            hold.call("bulk_store", {"memories": memories})
            step()


def starting(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure cold starts of the command line, which a hook pays on every event."""
    path = place / "start.db"
    fill(path, 100, lambda: None)
    recall = holdfast_command("recall", "what was it about", "--json", "--db", str(path))
    doers = {
        "bare": timer(lambda _: cold.run(cold.IMPORT_CLICK)),
        "ours": timer(lambda _: cold.run(recall, HOLDFAST_EMBEDDER="none")),
    }
    for start in doers.values():
        start(0)
    found = in_turns(doers, range(rounds.starts), meter.start_phase("starting the command line"))
    bare, ours = found["bare"].best, found["ours"].best
    return [times("`holdfast recall` by words, cold, best", "`python -c 'import click'`", bare, ours, at_most=3)]


def connecting(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure cold starts of the MCP server."""
    ours = holdfast_command("mcp", "--db", str(place / "connect.db"))
    doers: dict[str, Doer] = {
        "bare": lambda _: cold.until_initialized(cold.BARE_SERVER),
        "ours": lambda _: cold.until_initialized(ours),
    }
    for start in doers.values():
        start(0)
    found = in_turns(doers, range(rounds.starts), meter.start_phase("starting MCP servers"))
    bare, own = found["bare"].best, found["ours"].best
    return [
        times_better("MCP over stdio, cold to `initialize`, best", "the SDK's low-level server", bare, own, at_least=5)
    ]


def calling(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure sequential MCP calls: reading a memory, relative to a tool that does nothing."""
    path = place / "call.db"
    with open_store(path) as hold:
        id = hold.call("store", {"title": "Deploy day", "content": "We deploy on Tuesdays."}).id
    with cold.Server(cold.BARE_SERVER) as bare, cold.Server(holdfast_command("mcp", "--db", str(path))) as ours:
        for server in (bare, ours):
            server.initialize()
        doers = {
            "bare": timer(lambda _: bare.call("nothing", {})),
            "ours": timer(lambda _: ours.call("memory_get", {"id": id})),
        }
        found = in_turns(doers, range(rounds.calls), meter.start_phase("calling over MCP"))
    per_second = {name: 1 / spread.p50 for name, spread in found.items()}
    return [
        rate("MCP calls over stdio (memory_get)", "the SDK with an empty tool", per_second["bare"], per_second["ours"])
    ]


def open_store(address: Path | str, embedder: str = "none") -> Holdfast:
    """Open a store, by default without embeddings."""
    return app.open(settings=load({"db": str(address), "agent_id": "ai:bench@here", "embedder": embedder}))

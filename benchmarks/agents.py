"""Measure task claims and reply contexts: `python -m benchmarks.agents [--tasks N] [--messages N] [--postgres URL]`.

A claim of 50 tasks is compared with a bare SQL statement on both engines. The context for a reply is built among many
messages and measured in CPU seconds, which vary least on a busy machine.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from benchmarks.database import database
from benchmarks.report import Row, times
from benchmarks.speed import open_store
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.timing import in_turns, timer
from holdfast.app import Holdfast
from holdfast.features.recall.quality.timing import Spread, measure_spread
from holdfast.types import TurnInput

TASKS = 10_000
MESSAGES = 100_000
BATCH = 50
ROUNDS = 40
QUESTIONS = 200
TURNS = 200
"""Turns stored at once."""
EACH = 1000
"""Turns per conversation."""

BARE = """
update task set state = 'running', owner = 'bare', token = token + 1, claimed_at = :now, attempts = attempts + 1,
  ready_at = :until, updated_at = :now
where id in (select id from task where ready_at <= :now order by ready_at, id limit :limit) returning *
"""


def measure_claims(hold: Holdfast, tasks: int, rounds: int) -> dict[str, Spread]:
    """Measure batches of claims, by the operation and by the bare statement in turns."""
    plan(hold, tasks)

    def ours(_: int) -> None:
        assert hold.task_claim(limit=BATCH, seconds=3600).count == BATCH

    def bare(_: int) -> None:
        with hold.ctx.store.transaction() as session:
            now = hold.ctx.now()
            found = session.query_sql(BARE, {"now": now, "until": now + 3600 * 1_000_000, "limit": BATCH})
            assert len(found) == BATCH

    return in_turns({"ours": timer(ours), "bare": timer(bare)}, range(rounds), lambda: None)


def plan(hold: Holdfast, tasks: int, most_attempts: int = 50) -> list[str]:
    """Create due tasks in one transaction, since creating them is not measured; return their ids."""
    from holdfast.features.tasks import service as task_service
    from holdfast.features.tasks import store as task_store

    drafts = (task_service.TaskDraft(f"Task {n}", "2020-01-01", most_attempts=most_attempts) for n in range(tasks))
    drafted = [task_service.build_task(hold.ctx, draft) for draft in drafts]
    with hold.ctx.store.transaction() as session:
        for one in drafted:
            task_store.TASKS.put(session, one)
    return [one.id for one in drafted]


def measure_context(hold: Holdfast, messages: int, questions: int) -> Spread:
    """Measure building reply contexts among the messages of many conversations."""
    prose = Prose(8)
    said = [prose.content() for _ in range(messages)]
    for begin in range(0, messages, TURNS):
        part = said[begin : begin + TURNS]
        turns: list[TurnInput] = [
            {"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(part)
        ]
        hold.conversation_say(turns=turns, principal="ann", channel=f"cli-{begin // EACH}", namespace="shop")
    for n in range(20):
        hold.fact_set(key=f"key {n}", value=said[n], principal="ann")
    seconds = []
    for _ in range(questions):
        begun = process_time()
        hold.build_context(prose.question(), principal="ann", channel="cli-0", namespace="shop")
        seconds.append(process_time() - begun)
    return measure_spread(seconds)


def measure_agents(place: Path, arguments: argparse.Namespace) -> list[Row]:
    rows = []
    with database(arguments.postgres, place / "server") as server:
        stores = {"one file": str(place / "tasks.db")} | ({"PostgreSQL": server.store("ours")} if server else {})
        for name, address in stores.items():
            with open_store(address) as hold:
                found = measure_claims(hold, arguments.tasks, min(ROUNDS, arguments.tasks // BATCH // 2))
            what = f"claim of {BATCH} tasks on {name}"
            rows.append(times(what, "the bare statement", found["bare"].p50, found["ours"].p50, at_most=3))
    with open_store(str(place / "messages.db")) as hold:
        built = measure_context(hold, arguments.messages, QUESTIONS)
    what = f"build_context among {arguments.messages:,} messages, slowest 5 %"
    rows.append(times(what, "its median", built.p50, built.p95, most_ms=50))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the figures; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--postgres")
    with TemporaryDirectory() as folder:
        figures = measure_agents(Path(folder), parser.parse_args(arguments))
    for row in figures:
        print(f"{row.what}: {row.ours:,.4g} {row.unit}, {row.ratio:.2f}x of {row.floor_is} ({row.target})")
    return int(any(row.met is False for row in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Measure composing a skill over many reflections: `python -m benchmarks.compose [REFLECTIONS] [ADDRESS]`.

The reflections are in chains three deep, some used, some superseded, all with vectors. The whole operation is measured,
with and without a query.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any, NamedTuple

from msgspec.structs import replace

from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.timing import Doer, in_turns, timer
from holdfast.app import Holdfast
from holdfast.app import open as opened
from holdfast.features.graph import service as relate
from holdfast.features.recall.quality.timing import Spread
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.journal.kinds import LINK, MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.link import Link, Relation
from holdfast.kernel.records.validate import Draft, memory_from_draft
from holdfast.kernel.timestamps import DAY

REFLECTIONS = 10_000
TIMES = 100
BATCH = 500
CENTRES = 100
"""Texts with real vectors; other vectors are near them."""
NAMES = ("compose", "compose with a query", "compose, of a processor", "compose with a query, of a processor")
GOAL = 0.050
"""Target for the 95th percentile, in seconds."""
NAMESPACE = "team/lessons"
SKILL = f"""---
name: lessons
description: What we learned.
composes_with_reflections:
  - namespace: {NAMESPACE}
    min_depth: 1
---
# Lessons

Look at these first.
"""


class ComposeTimes(NamedTuple):
    plain: Spread
    asked: Spread
    plain_work: Spread
    """CPU time, which is not affected by other load."""
    asked_work: Spread


def fill(hold: Holdfast, reflections: int) -> None:
    """Store reflections of depth 1 to 3 over a year and a half: every fifth used, every fiftieth superseded."""
    prose, made = Prose(1), list[str]()
    for begun in range(0, reflections, BATCH):
        with hold.ctx.transaction() as write:
            for number in range(begun, min(begun + BATCH, reflections)):
                made.append(_reflection(hold, write, prose, number))
                if number % 3:
                    _link(write, made[-1], made[-2], "reflects_on")
                if number % 50 == 49:
                    _link(write, made[-1], made[-26], "supersedes")
    if hold.ctx.embedder is not None:
        _add_vectors(hold, hold.ctx.embedder)
    with hold.ctx.store.transaction() as session:
        session.many(
            "memory_access_add",
            (
                {"memory": id, "origin": "bench", "uses": 1 + number % 60, "used_at": hold.ctx.now()}
                for number, id in enumerate(made[::5])
            ),
        )


def _reflection(hold: Holdfast, write: Transaction, prose: Prose, number: int) -> str:
    title, content = prose.text(number)
    draft = Draft(title=title, content=content, namespace=NAMESPACE, tier="long", kind="reflection")
    at = write.now - (number % 550) * DAY
    memory = memory_from_draft(
        draft, id=hold.ctx.new_id(), agent="ai:bench@here", origin=write.origin, now=at, lifetimes=hold.ctx.lifetimes
    )
    return write.add(MEMORY, replace(memory, reflection_depth=1 + number % 3), "reflect").id


def _add_vectors(hold: Holdfast, embedder: Embedder) -> None:
    """Add derived vectors, so background embedding does not disturb the measurement."""
    from benchmarks.synthetic.synthetic_vectors import VectorCloud, add_next_vectors

    cloud, after = VectorCloud(embedder, [Prose(3).text(number)[1] for number in range(CENTRES)]), 0
    while (last := add_next_vectors(hold, cloud, after, BATCH)) is not None:
        after = last


def _link(write: Transaction, source: str, target: str, relation: Relation) -> None:
    at = write.now
    id = relate.link_id(source, target, relation)
    write.add(LINK, Link(id, source, target, relation, at, None, "ai:bench@here", at, at, write.origin, 1), "link")


def measure(hold: Holdfast, times: int = TIMES) -> ComposeTimes:
    """Measure the operation in turns."""
    hold.call("skill_register", {"inline_skill": SKILL, "namespace": "team"})
    prose = Prose(2)

    def compose(**more: str) -> None:
        hold.call("skill_compositional_context", {"skill_id": "team/lessons", **more})

    compose()
    compose(query=prose.question())
    doers: dict[str, Doer] = {
        "plain": timer(lambda _: compose()),
        "asked": timer(lambda query: compose(query=query)),
        "plain_work": time_processor(lambda _: compose()),
        "asked_work": time_processor(lambda query: compose(query=query)),
    }
    return ComposeTimes(**in_turns(doers, [prose.question() for _ in range(times)], lambda: None))


def time_processor(work: Callable[[Any], None]) -> Doer:
    """Time work in CPU seconds."""

    def time_item(item: Any) -> float:
        begun = thread_time()
        work(item)
        return thread_time() - begun

    return time_item


def main(words: list[str]) -> int:
    """Print the figures; return 1 if the goal is missed."""
    reflections = int(words[0]) if words else REFLECTIONS
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-compose-")))
        hold = stack.enter_context(
            opened(words[1] if words[1:] else str(place / "memory.db"), agent_id="ai:bench@here")
        )
        fill(hold, reflections)
        found = measure(hold)
    print(f"goal: p95 {GOAL * 1000:.0f} ms")
    for name, spread in zip(NAMES, found, strict=True):
        figures = ", ".join(f"{part} {getattr(spread, part) * 1000:.1f} ms" for part in ("p50", "p95", "p99"))
        print(f"{name} over {reflections} reflections: {figures}")
    return int(max(found.plain.p95, found.asked.p95) > GOAL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`holdfast bench quality`: how often the right memory is found, asked through the product itself."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from msgspec import Struct

from .. import settings
from ..domain.errors import HoldfastError, Invalid
from ..operations import REGISTRY
from .curves import svg
from .database import database
from .datasets import OWN, Cut, Item, Question, Scope, cut, session_of
from .doors import Door, Surface, opened, plain
from .measures import Figures, Judged, any_at, first_right, judged, mean
from .plain_text import PlainText
from .report import Machine, Times, figure
from .run import silent
from .timing import Meter, Progress, spread

BATCH = 500
BATCH_BYTES = 1_000_000
DEEPEST = 50
"""Memories asked for: as many as a recall gives."""
PLOTTED = 10
THROUGH = {"library": "the library", "http": "HTTP", "cli": "the command line"}


class Answer(Struct, frozen=True, kw_only=True):
    """What became of one question."""

    namespace: str
    question: str
    category: str
    first_right: int | None
    """The place of the first right memory, if any was found."""


class Quality(Struct, frozen=True, kw_only=True):
    file: str
    format: str
    set: str
    surface: str
    engine: str
    memories: int
    modes: dict[str, int]
    """How many answers were found in which way: by words alone, or with vectors too."""
    unasked: int
    """Questions of the file that name nothing that answers them, or are meant as traps."""
    overall: Figures
    categories: dict[str, Figures]
    plain_text: Figures
    """What FTS5 alone finds: porter stems, a stop list, its own ranking."""
    latency: Times
    machine: Machine
    answers: list[Answer]

    def text(self) -> str:
        return table(self)


class Reply(NamedTuple):
    """A question with what was found for it, by us and by FTS5."""

    namespace: str
    question: Question
    ranking: list[str]
    bare: list[str]
    mode: str
    seconds: float


def run(
    file: Path = OWN,
    set: str | None = None,
    surface: Surface = "library",
    progress: Progress = silent,
    *,
    questions: int | None = None,
    limit: int = DEEPEST,
    postgres: str | None = None,
    plot: Path | None = None,
) -> Quality:
    """Fill a store of its own with a file's memories, ask its questions, and judge the answers.

    The store is gone afterwards: a temporary file, or a schema of its own in the database that is given.
    """
    if plot and not plot.absolute().parent.is_dir():
        raise Invalid(f"There is no directory {plot.parent} for the plot: make it first.")
    asked = cut(file, set).sample(questions)
    meter = Meter(steps(asked), progress)
    with store_at(postgres) as db, opened(surface, db) as door:
        kept = [fill(door, scope, meter.stepping("storing")) for scope in asked.scopes]
        embed(door, meter.stepping("making vectors"))
        step = meter.stepping("asking")
        replies = [
            reply
            for scope, keys in zip(asked.scopes, kept, strict=True)
            for reply in ask(door, scope, keys, limit, step)
        ]
    if plot:
        plot.write_text(svg(f"{file.name}, {asked.set}", lines(replies)), "utf-8")
    return reported(file, asked, surface, "PostgreSQL" if postgres else "SQLite", replies)


def steps(asked: Cut) -> int:
    return 1 + sum(len(scope.questions) + sum(1 for _ in batches(scope.items)) for scope in asked.scopes)


@contextmanager
def store_at(postgres: str | None) -> Iterator[str]:
    """The address of a store that is not there yet; it is gone afterwards."""
    with TemporaryDirectory(prefix="holdfast-quality-") as place:
        if postgres is None:
            yield str(Path(place) / "store.db")
            return
        with database(postgres, Path(place)) as server:
            assert server is not None
            yield server.store("ours")


def batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    """As many at a time as one request may hold."""
    batch, size = list[Item](), 0
    for item in items:
        length = len(item.fields["content"].encode())
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def fill(door: Door, scope: Scope, step: Callable[[], None]) -> dict[str, str]:
    """Store what a scope holds; answers with the name of each memory by its id."""
    keys: dict[str, str] = {}
    for batch in batches(scope.items):
        memories = [item.fields | {"namespace": scope.namespace} for item in batch]
        stored = plain(door.call("bulk_store", {"memories": memories}))
        if stored["errors"]:
            raise HoldfastError(f"A memory was not taken: {stored['errors'][0]['error']}")
        keys |= zip(stored["ids"], (item.key for item in batch), strict=True)
        step()
    ids = {key: id for id, key in keys.items()}
    for newer, older in scope.supersedes:
        door.call("link", {"source_id": ids[newer], "target_id": ids[older], "relation": "supersedes"})
    return keys


def embed(door: Door, step: Callable[[], None]) -> None:
    """Have every memory's vectors made before anything is asked, unless there are to be none."""
    if settings.load().embedder != "none":
        door.call("reembed", {})
    step()


def ask(door: Door, scope: Scope, keys: dict[str, str], limit: int, step: Callable[[], None]) -> Iterator[Reply]:
    """Every question of a scope, in its namespace, as of its own time."""
    bare = PlainText(scope.items)
    for question in scope.questions:
        arguments = request(question, scope.namespace, limit)
        begun = perf_counter()
        answer = door.call("recall", arguments)
        seconds = perf_counter() - begun
        found = plain(answer)
        ranking = [keys[hit["id"]] for hit in found["memories"]]
        yield Reply(scope.namespace, question, ranking, bare.ask(question.text, limit), found["mode"], seconds)
        step()


def request(question: Question, namespace: str, limit: int) -> dict[str, Any]:
    asked = {"context": question.text, "namespace": namespace, "limit": limit}
    told = question.now and "now" in REGISTRY["recall"].request.__struct_fields__
    return asked | {"now": question.now} if told else asked


def reported(file: Path, asked: Cut, surface: str, engine: str, replies: list[Reply]) -> Quality:
    sessions = session_of if asked.set == "turns" else None
    found = [(reply, judged(reply.ranking, reply.question.right, sessions)) for reply in replies]
    taken = spread([reply.seconds for reply in replies])
    return Quality(
        file=file.name,
        format=asked.format,
        set=asked.set,
        surface=surface,
        engine=engine,
        memories=sum(len(scope.items) for scope in asked.scopes),
        modes=dict(Counter(reply.mode for reply in replies)),
        unasked=asked.unasked,
        overall=mean(one for _, one in found),
        categories=by_category(found),
        plain_text=mean(judged(reply.bare, reply.question.right, sessions) for reply in replies),
        latency=Times(taken.p50 * 1000, taken.p95 * 1000),
        machine=Machine(),
        answers=[answered(reply) for reply in replies],
    )


def by_category(found: list[tuple[Reply, Judged]]) -> dict[str, Figures]:
    ordered = sorted(found, key=lambda one: one[0].question.category)
    groups = groupby(ordered, key=lambda one: one[0].question.category)
    return {category: mean(one for _, one in group) for category, group in groups}


def answered(reply: Reply) -> Answer:
    question = reply.question
    return Answer(
        namespace=reply.namespace,
        question=question.text,
        category=question.category,
        first_right=first_right(reply.ranking, question.right),
    )


def lines(replies: list[Reply]) -> dict[str, list[float]]:
    """How many questions have a right memory among the first 1, 2, ...: of all, of each category, by FTS5 alone."""
    found = {"all": [(reply.ranking, reply.question.right) for reply in replies]}
    for reply in sorted(replies, key=lambda one: one.question.category):
        found.setdefault(reply.question.category, []).append((reply.ranking, reply.question.right))
    found["plain FTS5"] = [(reply.bare, reply.question.right) for reply in replies]
    return {name: [share(most, every) for most in range(1, PLOTTED + 1)] for name, every in found.items()}


def share(most: int, every: Sequence[tuple[list[str], frozenset[str]]]) -> float:
    return sum(any_at(most, list(dict.fromkeys(ranking)), right) for ranking, right in every) / len(every)


def table(found: Quality) -> str:
    """The figures as a person reads them."""
    modes = ", ".join(f"{count} {mode}" for mode, count in found.modes.items())
    return "\n".join(
        [
            f"# How well Holdfast recalls: {found.file}, {found.set}",
            "",
            f"{found.memories:,} memories on {found.engine}, {found.overall.questions:,} questions through "
            f"{THROUGH[found.surface]}: {modes}. A recall takes {figure(found.latency.p50)} ms (p50), "
            f"{figure(found.latency.p95)} ms (p95).{unasked(found.unasked)}",
            "",
            "| questions | number | any@1 | any@5 | any@10 | avg@5 | NDCG@10 | session any@10 |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
            row("all", found.overall),
            *(row(name, figures) for name, figures in found.categories.items()),
            row("all, by plain FTS5", found.plain_text),
        ]
    )


def unasked(number: int) -> str:
    return f" {number:,} more were not asked: nothing is named that answers them." if number else ""


def row(name: str, found: Figures) -> str:
    values = [getattr(found, field) for field in Judged.__struct_fields__]
    cells = ["" if value is None else f"{100 * value:.1f}" for value in values]
    return f"| {name} | {found.questions} | {' | '.join(cells)} |"

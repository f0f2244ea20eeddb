"""Store the memories of a file, ask its questions through a client, measure the rankings."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast import settings
from holdfast.features.recall.quality.full_text_baseline import PlainText
from holdfast.features.recall.quality.measures import Figures, Judged, any_at, first_right, judged, mean
from holdfast.features.recall.quality.question_files import Cut, Item, Question, Scope, session_of
from holdfast.features.recall.quality.report import Answer, Machine, QualityReport, Times
from holdfast.features.recall.quality.timing import Meter, spread
from holdfast.kernel.errors import HoldfastError

BATCH = 500
BATCH_BYTES = 1_000_000
DEEPEST = 50
"""Hits requested: the maximum of a recall."""
PLOTTED = 10


class Client(Protocol):
    """An open store, through any surface."""

    def call(self, operation: str, arguments: dict[str, Any]) -> Any:
        """Run an operation and return the answer of the surface unchanged."""


class Reply(NamedTuple):
    """A question with the rankings of recall and of plain FTS5."""

    namespace: str
    question: Question
    ranking: list[str]
    bare: list[str]
    mode: str
    seconds: float


def ask_all(client: Client, asked: Cut, limit: int, meter: Meter) -> list[Reply]:
    """Store everything, compute embeddings, then ask every question."""
    kept = [fill(client, scope, meter.stepping("storing")) for scope in asked.scopes]
    embed(client, meter.stepping("embedding"))
    step = meter.stepping("asking")
    return [
        reply for scope, keys in zip(asked.scopes, kept, strict=True) for reply in ask(client, scope, keys, limit, step)
    ]


def steps(asked: Cut) -> int:
    return 1 + sum(len(scope.questions) + sum(1 for _ in batches(scope.items)) for scope in asked.scopes)


def decode_answer(answer: Any) -> dict[str, Any]:
    """Decode an answer of any surface. Not included in the measured time."""
    found = msgspec.json.decode(answer) if isinstance(answer, bytes) else msgspec.to_builtins(answer)
    return dict(found)


def batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Split items into batches that fit one request."""
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


def fill(client: Client, scope: Scope, step: Callable[[], None]) -> dict[str, str]:
    """Store the items of a scope; return the key of each memory by id."""
    keys: dict[str, str] = {}
    for batch in batches(scope.items):
        memories = [item.fields | {"namespace": scope.namespace} for item in batch]
        stored = decode_answer(client.call("bulk_store", {"memories": memories}))
        if stored["errors"]:
            raise HoldfastError(f"A memory was not stored: {stored['errors'][0]['error']}")
        keys |= zip(stored["ids"], (item.key for item in batch), strict=True)
        step()
    ids = {key: id for id, key in keys.items()}
    for newer, older in scope.supersedes:
        client.call("link", {"source_id": ids[newer], "target_id": ids[older], "relation": "supersedes"})
    return keys


def embed(client: Client, step: Callable[[], None]) -> None:
    """Compute all embeddings before the first question, unless `embedder` is none."""
    if settings.load().embedder != "none":
        client.call("reembed", {})
    step()


def ask(client: Client, scope: Scope, keys: dict[str, str], limit: int, step: Callable[[], None]) -> Iterator[Reply]:
    """Ask every question of a scope, in its namespace, at its own time."""
    bare = PlainText(scope.items)
    for question in scope.questions:
        arguments = request(question, scope.namespace, limit)
        begun = perf_counter()
        answer = client.call("recall", arguments)
        seconds = perf_counter() - begun
        found = decode_answer(answer)
        ranking = [keys[hit["id"]] for hit in found["memories"]]
        yield Reply(scope.namespace, question, ranking, bare.ask(question.text, limit), found["mode"], seconds)
        step()


def request(question: Question, namespace: str, limit: int) -> dict[str, Any]:
    asked = {"context": question.text, "namespace": namespace, "limit": limit}
    return asked | {"now": question.now} if question.now else asked


def report_on(file: Path, asked: Cut, surface: str, engine: str, replies: list[Reply]) -> QualityReport:
    """Measure the replies, in total and by category."""
    sessions = session_of if asked.set == "turns" else None
    found = [(reply, judged(reply.ranking, reply.question.right, sessions)) for reply in replies]
    taken = spread([reply.seconds for reply in replies])
    return QualityReport(
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
    """Compute the share of questions with a right memory among the first 1, 2, ...: all, by category, plain FTS5."""
    found = {"all": [(reply.ranking, reply.question.right) for reply in replies]}
    for reply in sorted(replies, key=lambda one: one.question.category):
        found.setdefault(reply.question.category, []).append((reply.ranking, reply.question.right))
    found["plain FTS5"] = [(reply.bare, reply.question.right) for reply in replies]
    return {name: [share(most, every) for most in range(1, PLOTTED + 1)] for name, every in found.items()}


def share(most: int, every: Sequence[tuple[list[str], frozenset[str]]]) -> float:
    return sum(any_at(most, list(dict.fromkeys(ranking)), right) for ranking, right in every) / len(every)

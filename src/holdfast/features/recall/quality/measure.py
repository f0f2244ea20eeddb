"""Store the memories of a file, ask its questions through a client, measure the rankings."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast import settings
from holdfast.features.recall.quality.full_text_baseline import FullTextBaseline
from holdfast.features.recall.quality.measures import (
    Figures,
    Measures,
    average,
    find_first_right,
    has_right_at,
    measure_ranking,
)
from holdfast.features.recall.quality.question_files import Dataset, Item, Question, Scope, get_session_key
from holdfast.features.recall.quality.report import Answer, LatencyMs, Machine, QualityReport
from holdfast.features.recall.quality.timing import ProgressMeter, measure_spread
from holdfast.kernel.errors import HoldfastError

BATCH = 500
BATCH_BYTES = 1_000_000
MAX_HITS = 50
"""Hits requested: the maximum of a recall."""
PLOTTED_RANKS = 10


class Client(Protocol):
    """An open store, through any surface."""

    def call(self, operation: str, arguments: dict[str, Any]) -> Any:
        """Run an operation and return the answer of the surface unchanged."""


class Reply(NamedTuple):
    """A question with the rankings of recall and of plain FTS5."""

    namespace: str
    question: Question
    ranking: list[str]
    baseline: list[str]
    mode: str
    seconds: float


def ask_all_questions(client: Client, dataset: Dataset, limit: int, meter: ProgressMeter) -> list[Reply]:
    """Store everything, compute embeddings, then ask every question."""
    keys_by_scope = [store_items(client, scope, meter.start_phase("storing")) for scope in dataset.scopes]
    compute_embeddings(client, meter.start_phase("embedding"))
    step = meter.start_phase("asking")
    return [
        reply
        for scope, keys in zip(dataset.scopes, keys_by_scope, strict=True)
        for reply in ask_questions(client, scope, keys, limit, step)
    ]


def count_steps(dataset: Dataset) -> int:
    return 1 + sum(len(scope.questions) + sum(1 for _ in split_batches(scope.items)) for scope in dataset.scopes)


def decode_answer(answer: Any) -> dict[str, Any]:
    """Decode an answer of any surface. Not included in the measured time."""
    found = msgspec.json.decode(answer) if isinstance(answer, bytes) else msgspec.to_builtins(answer)
    return dict(found)


def split_batches(items: Sequence[Item]) -> Iterator[list[Item]]:
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


def store_items(client: Client, scope: Scope, step: Callable[[], None]) -> dict[str, str]:
    """Store the items of a scope; return the key of each memory by id."""
    keys: dict[str, str] = {}
    for batch in split_batches(scope.items):
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


def compute_embeddings(client: Client, step: Callable[[], None]) -> None:
    """Compute all embeddings before the first question, unless `embedder` is none."""
    if settings.load().embedder != "none":
        client.call("reembed", {})
    step()


def ask_questions(
    client: Client, scope: Scope, keys: dict[str, str], limit: int, step: Callable[[], None]
) -> Iterator[Reply]:
    """Ask every question of a scope, in its namespace, at its own time."""
    bare = FullTextBaseline(scope.items)
    for question in scope.questions:
        arguments = build_request(question, scope.namespace, limit)
        start = perf_counter()
        answer = client.call("recall", arguments)
        seconds = perf_counter() - start
        found = decode_answer(answer)
        ranking = [keys[hit["id"]] for hit in found["memories"]]
        yield Reply(scope.namespace, question, ranking, bare.search(question.text, limit), found["mode"], seconds)
        step()


def build_request(question: Question, namespace: str, limit: int) -> dict[str, Any]:
    arguments = {"context": question.text, "namespace": namespace, "limit": limit}
    return arguments | {"now": question.now} if question.now else arguments


def build_report(file: Path, dataset: Dataset, surface: str, engine: str, replies: list[Reply]) -> QualityReport:
    """Measure the replies, in total and by category."""
    sessions = get_session_key if dataset.set == "turns" else None
    found = [(reply, measure_ranking(reply.ranking, reply.question.right, sessions)) for reply in replies]
    durations = measure_spread([reply.seconds for reply in replies])
    return QualityReport(
        file=file.name,
        format=dataset.format,
        set=dataset.set,
        surface=surface,
        engine=engine,
        memories=sum(len(scope.items) for scope in dataset.scopes),
        modes=dict(Counter(reply.mode for reply in replies)),
        unasked=dataset.unasked,
        overall=average(one for _, one in found),
        categories=group_by_category(found),
        plain_text=average(measure_ranking(reply.baseline, reply.question.right, sessions) for reply in replies),
        latency=LatencyMs(durations.p50 * 1000, durations.p95 * 1000),
        machine=Machine(),
        answers=[build_answer(reply) for reply in replies],
    )


def group_by_category(found: list[tuple[Reply, Measures]]) -> dict[str, Figures]:
    ordered = sorted(found, key=lambda one: one[0].question.category)
    groups = groupby(ordered, key=lambda one: one[0].question.category)
    return {category: average(one for _, one in group) for category, group in groups}


def build_answer(reply: Reply) -> Answer:
    question = reply.question
    return Answer(
        namespace=reply.namespace,
        question=question.text,
        category=question.category,
        first_right=find_first_right(reply.ranking, question.right),
    )


def compute_hit_rates(replies: list[Reply]) -> dict[str, list[float]]:
    """Compute the share of questions with a right memory among the first 1, 2, ...: all, by category, plain FTS5."""
    found = {"all": [(reply.ranking, reply.question.right) for reply in replies]}
    for reply in sorted(replies, key=lambda one: one.question.category):
        found.setdefault(reply.question.category, []).append((reply.ranking, reply.question.right))
    found["plain FTS5"] = [(reply.baseline, reply.question.right) for reply in replies]
    return {
        name: [compute_hit_rate(most, every) for most in range(1, PLOTTED_RANKS + 1)] for name, every in found.items()
    }


def compute_hit_rate(depth: int, answers: Sequence[tuple[list[str], frozenset[str]]]) -> float:
    return sum(has_right_at(depth, list(dict.fromkeys(ranking)), right) for ranking, right in answers) / len(answers)

"""Fit the recall weights (features/recall/ranking.py, Weights) to questions with known answers.

    python tools/fit_weights.py locomo.json:turns longmemeval.json:sessions
    holdfast recalls --json > recalls.json && python tools/fit_weights.py --recalls recalls.json

Every question is asked through the product with `explain`, so the fit uses the real score parts of the first 50 hits
and which of them are right (or had useful feedback). Weights are changed one at a time while the mean of any@5, any@10,
avg@5 and NDCG@10 improves. Each conversation, or a fifth of the questions if each has its own store, is held out in
turn and scored with the weights fitted to the others; only these figures are meaningful. Nothing is written; adopt
rounded numbers, and only if they are better on held-out data.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from holdfast.features.recall.quality.measure import build_request, compute_embeddings, decode_answer, store_items
from holdfast.features.recall.quality.measures import measure_ranking
from holdfast.features.recall.quality.question_files import load_dataset
from holdfast.features.recall.ranking import WEIGHTS, Weights
from holdfast.surfaces.bench.clients import open_client
from holdfast.surfaces.bench.quality import temporary_store

MAX_HITS = 50
STEPS = (0.7, 0.85, 1.2, 1.45)
ROUNDS = 3
FOLDS = 5


class Hit(NamedTuple):
    """A hit: memory key, score parts, and the adjustment of their sum."""

    key: str
    parts: tuple[float, ...]
    adjustment: float


class Case(NamedTuple):
    """A question with its hits and the right answers."""

    fold: str
    hits: list[Hit]
    right: frozenset[str]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("files", nargs="*", metavar="FILE:SET")
    given.add_argument("--recalls", type=Path, help="Output of `holdfast recalls --json`.")
    chosen = given.parse_args()
    cases = [case for name in chosen.files for case in read_cases(*name.rsplit(":", 1))]
    if chosen.recalls:
        cases += read_logged_cases(json.loads(chosen.recalls.read_text()))
    if not cases:
        given.error("give a file with questions, or recalls with feedback")
    print(f"{len(cases)} questions, current weights: {format_figures(mean(cases, WEIGHTS))}")
    print(f"fitted on other folds (held out): {format_figures(average(out_of_fold(cases)))}")
    best = fit_weights(cases)
    print(f"fitted to all (training score): {format_figures(mean(cases, best))}")
    for name, now, then in zip(Weights._fields, WEIGHTS, best, strict=True):
        print(f"  {name:14} {now:6.3f} -> {then:6.3f}")


def out_of_fold(cases: Sequence[Case]) -> list[tuple[float, ...]]:
    """Score each question with the weights fitted to the other folds."""
    found = []
    for fold in sorted({case.fold for case in cases}):
        weights = fit_weights([case for case in cases if case.fold != fold])
        found += [score_case(case, weights) for case in cases if case.fold == fold]
    return found


def read_cases(file: str, set: str) -> Iterable[Case]:
    """Ask the questions of a file on a store with its memories."""
    of_file = load_dataset(Path(file), set)
    by_scope = 1 < len(of_file.scopes) <= 2 * FOLDS
    with temporary_store(None) as db, open_client("library", db) as client:
        kept = [store_items(client, scope, lambda: None) for scope in of_file.scopes]
        compute_embeddings(client, lambda: None)
        for scope, keys in zip(of_file.scopes, kept, strict=True):
            for question in scope.questions:
                answer = decode_answer(
                    client.call("recall", build_request(question, scope.namespace, MAX_HITS) | {"explain": True})
                )
                part = scope.namespace if by_scope else str(crc32(question.text.encode()) % FOLDS)
                hits = [Hit(keys[hit["id"]], *read_parts(hit["why"])) for hit in answer["memories"]]
                yield Case(f"{file} {part}", hits, question.right)


def read_parts(why: dict[str, Any]) -> tuple[tuple[float, ...], float]:
    parts = why["parts"]
    return tuple(parts.get(name, {"value": 0.0})["value"] for name in Weights._fields), why["adjustment"]


def read_logged_cases(recalls: dict[str, Any]) -> Iterable[Case]:
    """Read logged recalls with feedback; a hit marked wrong by anyone does not count as used."""
    for one in recalls["recalls"]:
        said = {hit["id"]: set(hit["verdicts"].values()) for hit in one["hits"]}
        right = frozenset(id for id, verdicts in said.items() if "used" in verdicts and "wrong" not in verdicts)
        if right:
            hits = [Hit(hit["id"], logged_parts(hit["parts"]), hit["adjustment"]) for hit in one["hits"]]
            yield Case(f"recalls {crc32(one['recall_id'].encode()) % FOLDS}", hits, right)


def logged_parts(parts: dict[str, float]) -> tuple[float, ...]:
    """Return the score parts in a recall log."""
    return tuple(parts.get(name, 0.0) for name in Weights._fields)


def score_case(case: Case, weights: Weights) -> tuple[float, ...]:
    order = sorted(case.hits, key=lambda hit: -hit.adjustment * sum(map(float.__mul__, hit.parts, weights)))
    found = measure_ranking(list(dict.fromkeys(hit.key for hit in order)), case.right, None)
    return found.any_5, found.any_10, found.avg_5, found.ndcg_10


def average(many: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sum(column) / len(many) for column in zip(*many, strict=True))


def mean(cases: Sequence[Case], weights: Weights) -> tuple[float, ...]:
    return average([score_case(case, weights) for case in cases])


def format_figures(figures: tuple[float, ...]) -> str:
    names = ("any@5", "any@10", "avg@5", "NDCG@10")
    return "  ".join(f"{name} {100 * value:.1f}" for name, value in zip(names, figures, strict=True))


def fit_weights(cases: Sequence[Case]) -> Weights:
    """Change one weight at a time while the score improves."""
    best, score = WEIGHTS, sum(mean(cases, WEIGHTS))
    for _ in range(ROUNDS):
        before = best
        for name in Weights._fields:
            for step in STEPS:
                tried = best._replace(**{name: getattr(best, name) * step})
                if (found := sum(mean(cases, tried))) > score:
                    best, score = tried, found
        if best == before:
            break
    return best


if __name__ == "__main__":
    main()

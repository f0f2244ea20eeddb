"""Measures of a ranking."""

from collections.abc import Callable, Collection, Iterable, Sequence
from math import log2

from msgspec import Struct


class Measures(Struct, frozen=True):
    """Measures of one ranking."""

    any_1: float
    any_5: float
    any_10: float
    avg_5: float
    ndcg_10: float
    session_any_10: float | None = None


class Figures(Measures, frozen=True, kw_only=True):
    """Mean over questions."""

    questions: int


def measure_ranking(
    ranking: Sequence[str], right: Collection[str], session_of: Callable[[str], str] | None = None
) -> Measures:
    """Measure a ranking of keys, best first. A session ranks as its best turn."""
    ranked = list(dict.fromkeys(ranking))
    return Measures(
        any_1=has_right_at(1, ranked, right),
        any_5=has_right_at(5, ranked, right),
        any_10=has_right_at(10, ranked, right),
        avg_5=len({*ranked[:5]} & {*right}) / len({*right}),
        ndcg_10=ndcg(10, ranked, right),
        session_any_10=session_of
        and has_right_at(10, list(dict.fromkeys(map(session_of, ranked))), {*map(session_of, right)}),
    )


def has_right_at(depth: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """Return 1 if a right key is among the first, else 0."""
    return float(any(name in right for name in ranked[:depth]))


def ndcg(depth: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """Compute the normalised discounted cumulative gain."""
    gain = sum(1 / log2(place + 2) for place, name in enumerate(ranked[:depth]) if name in right)
    return gain / sum(1 / log2(place + 2) for place in range(min(depth, len(right))))


def find_first_right(ranking: Sequence[str], right: Collection[str]) -> int | None:
    """Return the rank of the first right key, from 1."""
    ranked = dict.fromkeys(ranking)
    return next((place for place, name in enumerate(ranked, 1) if name in right), None)


def average(found: Iterable[Measures]) -> Figures:
    every = list(found)

    def average_field(name: str) -> float | None:
        values = [value for one in every if (value := getattr(one, name)) is not None]
        return sum(values) / len(values) if values else None

    return Figures(questions=len(every), **{name: average_field(name) for name in Measures.__struct_fields__})  # type: ignore[arg-type]

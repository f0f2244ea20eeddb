"""How good a ranking is."""

from collections.abc import Callable, Collection, Iterable, Sequence
from math import log2

from msgspec import Struct


class Judged(Struct, frozen=True):
    """A ranking against what is right."""

    any_1: float
    any_5: float
    any_10: float
    avg_5: float
    ndcg_10: float
    session_any_10: float | None = None


class Figures(Judged, frozen=True, kw_only=True):
    """The mean over some questions."""

    questions: int


def judged(ranking: Sequence[str], right: Collection[str], session_of: Callable[[str], str] | None = None) -> Judged:
    """Names best first, some of which are right; a session is as good as the best of its turns."""
    ranked = list(dict.fromkeys(ranking))
    return Judged(
        any_1=any_at(1, ranked, right),
        any_5=any_at(5, ranked, right),
        any_10=any_at(10, ranked, right),
        avg_5=len({*ranked[:5]} & {*right}) / len({*right}),
        ndcg_10=ndcg(10, ranked, right),
        session_any_10=session_of
        and any_at(10, list(dict.fromkeys(map(session_of, ranked))), {*map(session_of, right)}),
    )


def any_at(most: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """1 if something right is among the first."""
    return float(any(name in right for name in ranked[:most]))


def ndcg(most: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """The gain of what is right, less the deeper it stands, as a share of the best that could be."""
    gain = sum(1 / log2(place + 2) for place, name in enumerate(ranked[:most]) if name in right)
    return gain / sum(1 / log2(place + 2) for place in range(min(most, len(right))))


def first_right(ranking: Sequence[str], right: Collection[str]) -> int | None:
    """The place of the first right one, from 1."""
    ranked = dict.fromkeys(ranking)
    return next((place for place, name in enumerate(ranked, 1) if name in right), None)


def mean(found: Iterable[Judged]) -> Figures:
    every = list(found)

    def over(name: str) -> float | None:
        values = [value for one in every if (value := getattr(one, name)) is not None]
        return sum(values) / len(values) if values else None

    return Figures(questions=len(every), **{name: over(name) for name in Judged.__struct_fields__})  # type: ignore[arg-type]

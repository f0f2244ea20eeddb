"""Measure the near-duplicate classifier: `python -m benchmarks.near_duplicates`.

The pairs are in sets/alike.txt. Variants in another form are generated from each note, and every note is paired with an
unrelated one. Every second note is held out, never used for tuning.
"""

import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from holdfast.kernel.storage.index_terms import lsh_bands
from holdfast.kernel.text.similarity import Relation, compare
from holdfast.kernel.text.terms import read_terms

Part = Literal["tuned", "held out"]
SET = Path(__file__).parent / "sets" / "alike.txt"
FORMS: dict[str, Callable[[str], str]] = {
    "case": str.upper,
    "blanks": lambda text: f"  {text.replace(' ', '  ')}\n",
    "marks": lambda text: f"- **{text.rstrip('.。')}**",
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
}
REPEATS: tuple[Relation, ...] = ("same", "near")


class Pair(NamedTuple):
    """Two notes, their relation, and the sort of change between them."""

    part: Part
    relation: Relation
    sort: str
    old: str
    new: str


class Figures(NamedTuple):
    """Results for a part of the set."""

    pairs: int
    precision: float
    recall: float
    found: float
    """Share of near-duplicates found by their LSH bands."""
    agreed: float
    """Share of pairs classified as labelled."""
    wrong: list[tuple[Pair, Relation]]


def pairs() -> list[Pair]:
    """Load and generate all pairs."""
    blocks = [block.splitlines() for block in SET.read_text("utf-8").split("\n\n")[1:]]
    made: list[Pair] = []
    for number, (note, *changed) in enumerate(blocks):
        part: Part = "held out" if number % 2 else "tuned"
        made += [Pair(part, _relation(told[0]), told[1], note, told[2]) for told in map(_split, changed)]
        made += [Pair(part, "same", sort, note, form(note)) for sort, form in FORMS.items()]
        made.append(Pair(part, "other", "another note", note, blocks[(number + 2) % len(blocks)][0]))
    return made


def _split(line: str) -> list[str]:
    return [part.strip() for part in line.split(" | ", 2)]


def _relation(name: str) -> Any:
    assert name in get_args(Relation), name
    return name


def measure_part(part: Part) -> Figures:
    """Measure precision and recall on a part of the set."""
    chosen = [pair for pair in pairs() if pair.part == part]
    told = [(pair, compare(pair.old, pair.new).relation) for pair in chosen]
    right = sum(pair.relation in REPEATS and relation in REPEATS for pair, relation in told)
    taken = sum(relation in REPEATS for _, relation in told)
    repeats = [pair for pair in chosen if pair.relation in REPEATS]
    return Figures(
        pairs=len(chosen),
        precision=right / taken,
        recall=right / len(repeats),
        found=sum(map(_share, repeats)) / len(repeats),
        agreed=sum(pair.relation == relation for pair, relation in told) / len(told),
        wrong=[(pair, relation) for pair, relation in told if pair.relation != relation],
    )


def _share(pair: Pair) -> bool:
    one, other = ({term.meaning for term in read_terms(text) if term.sort != "filler"} for text in (pair.old, pair.new))
    return lsh_bands(one)[0] in lsh_bands(other)


def lines(figures: Figures, part: Part) -> Iterator[str]:
    yield f"{part}: {figures.pairs} pairs, precision {figures.precision:.3f}, recall {figures.recall:.3f}, "
    yield f"  found by lookup {figures.found:.3f}, relation as labelled {figures.agreed:.3f}"
    missed = Counter((pair.relation, relation, pair.sort) for pair, relation in figures.wrong)
    yield from (f"  {many} x {was} classified as {got} ({sort})" for (was, got, sort), many in missed.most_common())


def main() -> None:
    for part in get_args(Part):
        print("\n".join(lines(measure_part(part), part)), file=sys.stdout)


if __name__ == "__main__":
    main()

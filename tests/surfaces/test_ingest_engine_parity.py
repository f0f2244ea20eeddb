"""Both engines compare a document with the same memories and report the same scores, to the last digit."""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from engine_pair import START, twins
from four_surfaces import normalize

from engines import Postgres
from holdfast.kernel.timestamps import SECOND

SHIPS = ("Anna", "Berta", "Clara", "Dora")
PORTS = ("Oslo", "Bergen", "Turku", "Riga", "Gdansk", "Kiel", "Malmo", "Tallinn")
GOODS = ("timber", "grain", "iron ore", "salt fish", "engines", "paper rolls", "cars", "coal")


def log(seed: int, lines: int = 20) -> str:
    """Similar paragraphs: more matches than are compared."""
    chance = Random(seed)
    return "\n\n".join(
        f"The ship {chance.choice(SHIPS)} left the port of {chance.choice(PORTS)} with {chance.choice(GOODS)} "
        f"for {chance.choice(PORTS)} in the evening of day {chance.randint(1, 300)}."
        for _ in range(lines)
    )


@pytest.mark.parametrize("by", ["words", "vectors"])
def test_both_engines_compare_a_document_with_the_same_memories_and_agree(
    postgres: Postgres, tmp_path: Path, request: pytest.FixtureRequest, by: str
) -> None:
    if by == "vectors":
        request.getfixturevalue("vectors_made")
        import numpy  # noqa: F401 - what is loaded is used: many texts are looked up at once by the signs of their vectors
    compared = 0
    with twins(postgres, tmp_path, count(START, SECOND).__next__) as engines:
        for seed in range(3):
            if by == "vectors":
                engines.ask("reembed", {})
            one, other = engines.ask("ingest", {"content": log(seed), "namespace": "port", "source_uri": f"doc:{seed}"})
            assert normalize(one.answer["segments"]) == normalize(other.answer["segments"])
            compared += sum(map(candidates, one.answer["segments"]))
    assert compared > 100


def candidates(segment: dict[str, Any]) -> int:
    return sum(helper["payload"].get("candidates_scored", 0) for helper in segment["helpers"])

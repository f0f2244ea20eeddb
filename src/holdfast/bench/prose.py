"""Synthetic text: made-up words, as often as words are in real text, the same for the same seed."""

from itertools import accumulate
from random import Random

from ..domain.words import STOP

VOCABULARY = 30_000
_ONSETS = "b c d f g h j k l m n p r s t v w z br cr dr fl gr pl pr st tr sh ch th".split()
_VOWELS = "a e i o u ai ea ou".split()
_ENDS = "n r l t s m ck nd rt st ng".split() + [""] * 6


class Prose:
    """A writer of memories and questions. Word frequencies follow Zipf's law, the stop words of English first."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - no secret depends on it
        self._words = vocabulary(VOCABULARY)
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def words(self, count: int) -> list[str]:
        return self._random.choices(self._words, cum_weights=self._weights, k=count)

    def title(self, number: int) -> str:
        return f"{' '.join(self.words(5))} {number}"

    def content(self) -> str:
        return " ".join(self.words(self._random.randint(20, 120))).capitalize() + "."

    def question(self) -> str:
        return " ".join(self.words(self._random.randint(4, 10))).capitalize() + "?"

    def memory(self, number: int) -> dict[str, str]:
        return {
            "title": self.title(number),
            "content": self.content(),
            "namespace": f"team/{number % 20}",
            "tier": "long",
        }


def vocabulary(size: int) -> list[str]:
    """Words by rank, the commonest first: English stop words, then words that nobody has said before."""
    random = Random(size)  # noqa: S311 - no secret depends on it
    words = dict.fromkeys(random.sample(sorted(STOP), len(STOP)))
    while len(words) < size:
        syllables = (random.choice(_ONSETS) + random.choice(_VOWELS) for _ in range(random.choice((2, 2, 3, 3, 4))))
        words["".join(syllables) + random.choice(_ENDS)] = None
    return list(words)

"""Synthetic text: random English words with natural frequencies, deterministic by seed."""

from functools import cache
from itertools import accumulate
from random import Random

from holdfast.features.embeddings.minilm import MODEL_FOLDER as MODEL

TURNS = 10
"""Turns per conversation."""
SPEAKERS = ("Ada", "Grace", "Edsger", "Barbara", "assistant")


class Prose:
    """Generates memories and questions. Word frequencies follow Zipf's law."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - no secret depends on it
        self._words = vocabulary()
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(self._words))))

    def words(self, count: int) -> list[str]:
        return self._random.choices(self._words, cum_weights=self._weights, k=count)

    def content(self) -> str:
        """Return a content; a third are too long for one passage."""
        return " ".join(self.words(self._random.randint(8, 44))).capitalize() + "."

    def text(self, number: int) -> tuple[str, str]:
        """Return a title with the first words of its content, and the content."""
        content = self.content()
        return f"{' '.join(content.split()[:5])} {number}", content

    def question(self) -> str:
        return " ".join(self.words(self._random.randint(6, 10))).capitalize() + "?"

    def memory(self, number: int) -> dict[str, str]:
        """Return a memory: alternately ten notes and ten turns of a conversation."""
        title, content = self.text(number)
        found = {"title": title, "content": content, "namespace": f"team/{number // 20 % 20}", "tier": "long"}
        if number // TURNS % 2:
            found |= {"thread": f"talk {number // TURNS}", "speaker": self._random.choice(SPEAKERS)}
        return found


@cache
def vocabulary() -> list[str]:
    """Return English words by rank, the most common first, from the bundled model's vocabulary."""
    pieces = (MODEL / "vocab.txt").read_text("utf-8").split("\n")
    return [piece for piece in pieces[pieces.index("the") :] if piece.isascii() and piece.isalpha()]

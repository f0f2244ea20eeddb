"""Inverse document frequency of words in a store."""

from collections.abc import Callable, Iterable
from math import log

from holdfast.kernel.storage.index_terms import stems
from holdfast.kernel.storage.port import Session

MAX_WORDS = 512


def word_weights(session: Session, words: Iterable[str]) -> Callable[[str], float]:
    """Return a weight function: 1 for a word that is in no memory, near 0 for one in every memory."""
    known = {word: stems(word) for word in list(dict.fromkeys(words))[:MAX_WORDS]}
    last = session.newest_row()
    held = session.document_frequencies([stem for many in known.values() for stem in many], last) if last else {}
    scale = log(last + 2)
    weights = {
        word: log((last + 2) / (1 + max((held.get(stem, 0) for stem in many), default=0))) / scale
        for word, many in known.items()
    }
    return lambda word: max(0.05, weights.get(word, 1.0))

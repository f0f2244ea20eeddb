"""Words of a text: query words and letter similarity."""

import re
import unicodedata
from collections import Counter

_RUN = re.compile(r"[^\W_]+", re.UNICODE)
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff]")
MAX_TERMS = 64

STOP = frozenset(
    """a about am an and any are as at be been being but by can could did do does doing for from had has have having he
    her hers him his how i if in into is it its just many me mine much my of on or our ours s she should so some such t
    than that the their them then there these they this those to too us was we were what when where which while who whom
    whose why will with would you your yours""".split()
)


def strip_invisible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def split_words(text: str) -> list[str]:
    """Return runs of letters and digits in lower case, without invisible characters."""
    return [run.lower() for run in _RUN.findall(strip_invisible(text))]


def query_words(text: str) -> list[str]:
    """Return the distinct significant words of a query; all words if it has only stop words."""
    words = list(dict.fromkeys(split_words(text)))
    return ([word for word in words if word not in STOP] or words)[:MAX_TERMS]


def fold_name(name: str) -> str:
    """Normalize a name: case, width and inner blanks are ignored."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def letter_triples(text: str) -> Counter[str]:
    """Count the letter trigrams of a text's words, with blanks between and around them."""
    spelled = f" {' '.join(split_words(text))} "
    return Counter(spelled[at : at + 3] for at in range(len(spelled) - 2))


def letter_similarity(a: str, b: str) -> float:
    """Return the similarity of two texts, 0 to 1: their share of common letter trigrams.

    Letters instead of words tolerate inflections and typos.
    """
    one, other = letter_triples(a), letter_triples(b)
    both = one.total() + other.total()
    return 2 * (one & other).total() / both if both else float(a == b)

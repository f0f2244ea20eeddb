"""Separate captured prompts from answers: agent hosts store each prompt, which then matches its own query best.

A prompt is a user's turn of a conversation. It repeats a query if the query contains all of its words and it states
nothing that could be the answer: "We deploy on Friday." stays for "Do we deploy on Friday?".
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from holdfast.features.memories.read_memories import Filter
from holdfast.features.recall.query import Query
from holdfast.features.recall.search_index import Row
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.index_terms import IndexTerms, ends_in_question_mark, parse_head, split_passages
from holdfast.kernel.text.terms import FILLER

USERS = ("user", "human")
MIN_HEAD = len("A: ")
"""Fewer characters before the first passage are only blanks."""


def _stems(words: str) -> frozenset[str]:
    return frozenset(index_terms.stems(words))


QUESTION_WORDS = _stems("how what when where which who whom whose why")
AUXILIARIES = _stems("am are can could did does had has is may might shall should was were will would")
AUXILIARIES_OR_ORDERS = _stems("do have")
"""These begin a question only before a pronoun: "do the deploy" is an order."""
PRONOUNS = _stems("he i it she they we you")
SUBJECTS = PRONOUNS | _stems("a an her his its my our that the their these this those your")
"""After a question word, these begin a clause: "when we deploy, nobody merges"."""
REQUESTS = _stems("remind show tell")
ASKERS = _stems("me us")
OPENINGS = _stems("also and but hello hey hi now ok okay please so then well")
SMALL_WORDS = OPENINGS | _stems(
    "a about an as at by for from in into my of on or our that the these this those to via with your"
)
"""Words an order may add to the query words. Pronouns and forms of "to be" would make it a statement."""
FRAME_STEMS = _stems(f"{' '.join(FILLER)} d know ll m must re thank ve") | AUXILIARIES | REQUESTS | OPENINGS
"""Words a question may add to the words of its topic."""


class QueryWords(NamedTuple):
    """The query words that prompts are compared with."""

    stems: frozenset[str]
    in_order: list[str]
    """Without the leading name."""
    head_stems: frozenset[str]
    head_length: int
    english: bool
    is_yes_or_no: bool


def find_repeated_prompts(query: Query, which: Filter, rows: Iterable[Row]) -> list[str]:
    """Return the ids of prompts that only repeat the query; none if the filter asks for turns or a source."""
    prompts = _select_prompts(which, rows)
    if not prompts:
        return []
    query_words = _read_query_words(query.text, english=query.english)
    return [row.id for row in prompts if _repeats_query(row.parsed, query_words)]


def find_asking_prompts(query: Query, which: Filter, rows: Iterable[Row]) -> list[str]:
    """Return the ids of prompts that ask something; none if the filter asks for turns or a source."""
    return [row.id for row in _select_prompts(which, rows) if _is_question(row.parsed, english=query.english)]


def _select_prompts(which: Filter, rows: Iterable[Row]) -> list[Row]:
    if "conversation" in which.kinds or which.source_uri is not None or which.source_uri_prefix is not None:
        return []
    return [row for row in rows if row.kind == "conversation" and row.speaker and row.speaker.lower() in USERS]


def _is_question(prompt: IndexTerms, *, english: bool) -> bool:
    return prompt.is_question or (
        english and bool(prompt.passages) and _begins_as_question(prompt.passages[0].stems.split())
    )


@lru_cache(maxsize=2)
def _read_query_words(text: str, *, english: bool) -> QueryWords:
    found = split_passages(text)
    in_order = [stem for one in found for stem in index_terms.index_tokens(text[one.start : one.end])]
    asks = ends_in_question_mark(text) or (english and _begins_as_question(in_order))
    return QueryWords(
        stems=frozenset(index_terms.index_tokens(text)),
        in_order=in_order,
        head_stems=frozenset(index_terms.index_tokens(parse_head(text).speaker or "")),
        head_length=found[0].start if found else 0,
        english=english,
        is_yes_or_no=asks and not (english and _first_two_stems(in_order)[0] in QUESTION_WORDS),
    )


def _repeats_query(prompt: IndexTerms, asked: QueryWords) -> bool:
    if not prompt.passages or not _may_share_head(asked, prompt):
        return False
    frame = FRAME_STEMS if asked.english else frozenset()
    prompt_stems: list[str] = []
    for line in prompt.passages:  # a long prompt nearly always differs in its first passage
        stems = line.stems.split()
        if any(stem not in asked.stems and stem not in frame for stem in stems):
            return False
        prompt_stems += stems
    if _is_question(prompt, english=asked.english):
        return True
    if asked.is_yes_or_no:
        return prompt_stems == asked.in_order
    return asked.stems.issuperset(stem for stem in prompt_stems if not asked.english or stem not in SMALL_WORDS)


def _may_share_head(asked: QueryWords, prompt: IndexTerms) -> bool:
    """Whether its passages have no leading names, or only the one that the query has too."""
    begins = prompt.passages[0].begins
    if any(line.speaker for line in prompt.passages):
        return False
    return begins < MIN_HEAD or (begins == asked.head_length and asked.head_stems.issubset(prompt.labels.split()))


def _begins_as_question(stems: Sequence[str]) -> bool:
    first, second = _first_two_stems(stems)
    return (
        first in AUXILIARIES
        or (first in QUESTION_WORDS and second not in SUBJECTS)
        or (first in AUXILIARIES_OR_ORDERS and second in PRONOUNS)
        or (first in REQUESTS and second in ASKERS)
    )


def _first_two_stems(stems: Sequence[str]) -> tuple[str, str]:
    """The first two words after "ok, so", "hey"."""
    words = (stem for stem in stems if stem not in OPENINGS)
    return next(words, ""), next(words, "")

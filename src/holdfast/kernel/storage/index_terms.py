"""Index terms: the passages of a memory and their stems, computed once when it is stored.

One line per passage. Stems are separated by two blanks, so that each has its own on both sides and can be counted as a
substring. The first line is for title and tags.
"""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from holdfast.kernel.storage import fts_tokens
from holdfast.kernel.text.passages import Passage, is_question, parse_head, split_passages


class PassageTerms(Struct, frozen=True, gc=False):
    """Index terms of a passage: its position, speaker and stems."""

    begins: int
    ends: int
    speaker: str | None
    stems: str


class IndexTerms(Struct, frozen=True, gc=False):
    text: str
    """The stored text."""
    is_question: bool
    length: int
    """Number of stems in all passages."""
    labels: str
    """Stems of the title (if not part of the content), of the tags and of a name at the head."""
    passages: list[PassageTerms]


EMPTY_TERMS = IndexTerms(text="", is_question=False, length=0, labels="", passages=[])


def pad(stem: str) -> str:
    return f" {stem} "


@lru_cache(maxsize=2)
def encode_terms(title: str, content: str, tags: str) -> str:
    """Compute the index terms of a memory. Recent ones are cached: deduplication needs them before the write."""
    length, lines, cut = 0, [], split_passages(content)
    for begins, ends, speaker in cut:
        stems = fts_tokens.index_tokens(content[begins:ends])
        length += len(stems)
        lines.append(f"{begins}\t{ends}\t{speaker or ''}\t{_join_stems(stems)}")
    return "\n".join(
        [f"{int(is_question(content))}\t{length}\t{_join_stems(_label_stems(title, content, tags, cut))}", *lines]
    )


def terms_of_line(content: str) -> IndexTerms:
    """Compute the terms of a text that is not part of the memory, so that it has no passage positions."""
    stems = fts_tokens.index_tokens(content)
    said = PassageTerms(0, 0, None, _join_stems(stems))
    return IndexTerms(text=said.stems, is_question=False, length=len(stems), labels="", passages=[said])


def _label_stems(title: str, content: str, tags: str, cut: Sequence[Passage]) -> list[str]:
    """Return the stems of title (if not in the content), tags, and a name at the head of the content.

    In a transcript, every passage has its own speaker, so the head is not a label.
    """
    name = parse_head(content).speaker if not any(passage.speaker for passage in cut[:1]) else None
    said = ["" if title in content else title, "" if tags == "[]" else tags, name or ""]
    return fts_tokens.index_tokens(" ".join(said)) if any(said) else []


def decode_terms(text: str) -> IndexTerms:
    """Decode stored index terms."""
    if not text:
        return EMPTY_TERMS
    first, *others = text.split("\n")
    asking, length, labels = first.split("\t")
    lines = []
    for other in others:
        begins, ends, speaker, stems = other.split("\t")
        lines.append(PassageTerms(int(begins), int(ends), speaker or None, stems))
    return IndexTerms(text, asking == "1", int(length), labels, lines)


def count_terms(text: str) -> int:
    """Return the number of stems, without decoding everything."""
    return int(text.split("\t", 2)[1]) if text else 0


def has_question(text: str) -> bool:
    """Whether the memory is a question, without decoding everything."""
    return text.startswith("1")


def _join_stems(stems: list[str]) -> str:
    return pad("  ".join(stems)) if stems else ""

"""Index terms of a memory, computed once when it is stored: passages, full-text tokens and stems, MinHash bands.

A passage is short enough for one embedding. Tokens come from FTS5's tokenizer without a store, so that every engine
indexes and queries the same words. Stems have one line per passage, separated by two blanks, so that each has its own
on both sides and can be counted as a substring; the first line is for title and tags. LSH bands of the stems find
near-duplicate memories of a namespace. How many memories contain a stem is counted by the engines and cached here.
"""

import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import combinations, islice, pairwise
from time import monotonic
from typing import NamedTuple, cast
from zlib import crc32

import apsw
from msgspec import Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import STOP, UNSEGMENTED, index_bigrams, may_lack_blanks, to_emoji
from holdfast.kernel.timestamps import SECOND, parse_timestamp

MAX_PASSAGE_WORDS = 32
"""Maximum number of words of a passage."""

MAX_QUESTION_WORDS = 60
"""Maximum number of words of a pure question."""

ROLES = frozenset("user assistant system human ai bot agent tool model developer function".split())
"""Speaker names that are roles, not people."""

_NAME = r"(?P<name>[A-Z][\w.'’-]{0,63}(?: [A-Z][\w.'’-]{0,63})?|user|assistant|system|human|ai|bot|agent|tool): "
_HEAD = re.compile(rf"\s*(?:\[(?P<time>[^\]\n]{{4,40}})\]\s*)?(?:{_NAME})?")
_SPOKEN_TIMES = ("%I:%M %p on %d %B, %Y", "%Y-%m-%d %H:%M", "%Y/%m/%d (%a) %H:%M", "%d %B %Y", "%d %B, %Y")
_LINE = re.compile(r"[^\n\r]+")
_SENTENCE_END = re.compile(r"(?<=[.!?…؟۔])[\"'”’»)\]]*\s+|(?<=[。！？｡।॥།။។])[」』”’）》】\s]*|[\n\r]+")
_WORD = re.compile(r"\S{1,64}")
"""Longer runs count as one word per 64 characters."""


class Passage(NamedTuple):
    """Start, end and, in a transcript, speaker of a passage."""

    start: int
    end: int
    speaker: str | None = None


class Head(NamedTuple):
    """The head of a text (time in brackets, name and colon), and where the text itself starts."""

    at: int | None
    speaker: str | None
    end: int


class _Line(NamedTuple):
    """A line of a text: speaker, if given, and start and end of its content."""

    speaker: str | None
    start: int
    end: int


def split_passages(text: str) -> list[Passage]:
    """Split a text into passages, in order, without the head.

    In a transcript, each line has its own passages and speaker. A non-blank text has at least one passage.
    """
    word = _word(text)
    if (short := _single_passage(text, word)) is not None:
        return short
    lines = _lines(text)
    names = [line.speaker for line in lines if line.speaker]
    if _are_turns(names, len(lines)):
        found = [piece for line in lines for piece in _pieces(text, line, word)]
    else:
        found = _pieces(text, _Line(None, parse_head(text).end if len(names) < 2 else 0, len(text)), word)
    return found or _pieces(text, _Line(None, 0, len(text)), word)


def _single_passage(text: str, word: re.Pattern[str]) -> list[Passage] | None:
    """Return the single passage of a short one-line text, else None."""
    if "\n" in text or "\r" in text or len(text) > 20 * MAX_PASSAGE_WORDS:
        return None
    start, end = _trim(text, parse_head(text).end, len(text))
    if start >= end or _count(word.finditer(text, start, end), MAX_PASSAGE_WORDS + 1) > MAX_PASSAGE_WORDS:
        return None
    return [Passage(start, end)]


def _are_turns(names: list[str], lines: int) -> bool:
    """Whether a text is a transcript: half of its lines start with a name, and a name recurs or is a role.

    Names that occur only once each are list items, not speakers.
    """
    recur = len(set(names)) < len(names) or any(name.lower() in ROLES for name in names)
    return lines > 1 and 2 * len(names) >= lines and recur


def is_question(text: str) -> bool:
    """Whether a text is a short text that ends with a question mark."""
    if not ends_in_question_mark(text):
        return False
    return _count(_word(text).finditer(text), MAX_QUESTION_WORDS + 1) <= MAX_QUESTION_WORDS


def ends_in_question_mark(text: str) -> bool:
    return text.rstrip().endswith(("?", "？", "؟"))


def parse_head(text: str) -> Head:
    """Parse time and speaker at the start of a text. Other bracketed words belong to the text."""
    found = _HEAD.match(text)
    at = parse_spoken_time(found["time"]) if found and found["time"] else None
    if not found or (at is None and found["name"] is None):
        return Head(None, None, 0)
    return Head(at, found["name"], found.end())


def parse_spoken_time(text: str) -> int | None:
    """Parse a time in the formats of transcripts; None if it is something else."""
    try:
        return parse_timestamp(text, "occurred_at")
    except Invalid:
        pass
    for form in _SPOKEN_TIMES:
        try:
            at = datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return int(at.timestamp()) * SECOND
    return None


def _word(text: str) -> re.Pattern[str]:
    """Return the pattern of a word for a text."""
    return _word_or_two_letters() if not text.isascii() and may_lack_blanks(text) else _WORD


@cache
def _word_or_two_letters() -> re.Pattern[str]:
    """Pattern that counts two characters of scripts without blanks as a word. Slow to compile and rarely needed."""
    return re.compile(rf"[{UNSEGMENTED}]{{1,2}}|[^\s{UNSEGMENTED}]{{1,64}}")


def _count(words: Iterator[re.Match[str]], limit: int) -> int:
    """Count words, up to a limit."""
    return sum(1 for _ in islice(words, limit))


def _lines(text: str) -> list[_Line]:
    found = []
    for line in _LINE.finditer(text):
        opening = _HEAD.match(text, *line.span())
        if opening and line[0].strip():
            found.append(_Line(opening["name"], opening.end() if opening["name"] else line.start(), line.end()))
    return found


def _pieces(text: str, line: _Line, word: re.Pattern[str]) -> list[Passage]:
    """Join whole sentences up to the maximum length; split longer sentences."""
    found: list[tuple[int, int]] = []
    opened, words = line.start, 0
    for first, last in _sentences(text, line.start, line.end):
        count = _count(word.finditer(text, first, last), MAX_PASSAGE_WORDS + 1)
        if words + count > MAX_PASSAGE_WORDS:
            found.append((opened, first))
            opened, words = first, 0
        if count > MAX_PASSAGE_WORDS:
            found += _cut([one.start() for one in word.finditer(text, first, last)], last)
            opened = last
        else:
            words += count
    spans = (_trim(text, start, end) for start, end in [*found, (opened, line.end)])
    return [Passage(start, end, line.speaker) for start, end in spans if start < end]


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start, end)]
    bounds = sorted({start, *ends, end})
    return list(pairwise(bounds))


def _cut(words: list[int], end: int) -> list[tuple[int, int]]:
    """Split a long sentence into even pieces, given the starts of its words."""
    pieces = -(-len(words) // MAX_PASSAGE_WORDS)
    return list(pairwise([*(words[number * len(words) // pieces] for number in range(pieces)), end]))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    said = text[start:end]
    start += len(said) - len(said.lstrip())
    return start, start + len(said.strip())


TOKENIZER = ("porter", ["unicode61"])
_local = threading.local()


def tokens(text: str, *, query: bool = False) -> list[str]:
    """Return the tokens of a text, in order."""
    why = apsw.FTS5_TOKENIZE_QUERY if query else apsw.FTS5_TOKENIZE_DOCUMENT
    found = _tokenizer()(text.encode(), why, None, include_offsets=False, include_colocated=False)
    return list(map(str, found))


def index_tokens(text: str) -> list[str]:
    """Return all index tokens of a text: its tokens, and bigrams of scripts without blanks."""
    return tokens(text) if text.isascii() else tokens(text) + tokens(index_bigrams(text))


def stems(text: str) -> list[str]:
    """Return the distinct tokens of a query."""
    return list(dict.fromkeys(tokens(text, query=True)))


@lru_cache(maxsize=10_000)
def stem_word(word: str) -> str:
    """Stem one word; return it unchanged if it is not one token."""
    found = tokens(word)
    return found[0] if len(found) == 1 else word


def matching_words(text: str, stems: Collection[str]) -> dict[str, list[str]]:
    """Return the words of a text that match each stem, as written, without case duplicates."""
    said = text.encode()
    found: dict[str, dict[str, str]] = {}
    for token in _tokenizer()(said, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False):
        begins, ends, stem = cast(tuple[int, int, str], token)
        if stem in stems:
            word = said[begins:ends].decode()
            found.setdefault(stem, {}).setdefault(word.casefold(), word)
    parts = () if text.isascii() else set(tokens(index_bigrams(text))).intersection(stems)
    return {stem: [to_emoji(stem)] for stem in parts} | {stem: list(words.values()) for stem, words in found.items()}


def _tokenizer() -> apsw.FTS5Tokenizer:
    if not hasattr(_local, "tokenizer"):
        _local.tokenizer = apsw.Connection(":memory:").fts5_tokenizer(*TOKENIZER)
    return _local.tokenizer  # type: ignore[no-any-return]


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
        stems = index_tokens(content[begins:ends])
        length += len(stems)
        lines.append(f"{begins}\t{ends}\t{speaker or ''}\t{_join_stems(stems)}")
    return "\n".join(
        [f"{int(is_question(content))}\t{length}\t{_join_stems(_label_stems(title, content, tags, cut))}", *lines]
    )


def terms_of_line(content: str) -> IndexTerms:
    """Compute the terms of a text that is not part of the memory, so that it has no passage positions."""
    stems = index_tokens(content)
    said = PassageTerms(0, 0, None, _join_stems(stems))
    return IndexTerms(text=said.stems, is_question=False, length=len(stems), labels="", passages=[said])


def _label_stems(title: str, content: str, tags: str, cut: Sequence[Passage]) -> list[str]:
    """Return the stems of title (if not in the content), tags, and a name at the head of the content.

    In a transcript, every passage has its own speaker, so the head is not a label.
    """
    name = parse_head(content).speaker if not any(passage.speaker for passage in cut[:1]) else None
    said = ["" if title in content else title, "" if tags == "[]" else tags, name or ""]
    return index_tokens(" ".join(said)) if any(said) else []


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


RECENT_SECONDS = 1.0


class DocumentFrequencies:
    """Document frequencies of common stems. Dropped when the store has grown by an eighth.

    Rare stems are counted each time: that is fast, and one more memory can change their frequency a lot.
    """

    def __init__(self, min_count: int) -> None:
        self.min_count = min_count
        self._at, self._counts = 0, dict[str, int]()
        self.average_length = 0.0
        """Average words per memory, if the engine needs it; 0: unknown."""
        self._row, self._row_at = 0, -RECENT_SECONDS

    def recent_row(self) -> int | None:
        """Return the newest row if it is recent enough for frequencies, else None."""
        return self._row if monotonic() - self._row_at < RECENT_SECONDS else None

    def note_row(self, row: int) -> None:
        self._row, self._row_at = row, monotonic()

    def expire_row(self) -> None:
        """Expire the newest row, because there may be a newer one."""
        self._row_at = -RECENT_SECONDS

    def current_counts(self, last_row: int) -> dict[str, int]:
        if 8 * abs(last_row - self._at) > self._at:
            self._at, self._counts, self.average_length = last_row, {}, 0.0
        return self._counts

    def update(self, counted: Mapping[str, int]) -> None:
        self._counts.update((stem, count) for stem, count in counted.items() if count >= self.min_count)


MIN_STEMS = 4
"""Minimum number of different stems for a meaningful hash."""
MAX_PER_BAND = 8
"""Newest matches to return per band."""
MAX_EXACT_SCANNED = 512
"""Newest matches to search for an identical text."""


def memory_hashes(memory: Memory, parsed: str) -> tuple[int, ...]:
    """Return the hashes of a memory: of the exact text, its own band, and further bands to query. Empty if not live.

    Conversation turns have none: repeating a sentence is a new event, not a duplicate.
    """
    if memory.state != "live" or memory.kind == "conversation":
        return ()
    return text_hashes(memory.namespace, parsed)


_MASK = (1 << 63) - 1


def lsh_bands(terms: Iterable[str]) -> tuple[int, ...]:
    """Return LSH bands: hashes of pairs among the four terms with the smallest hashes; the first is the text's own.

    A text is stored under its own band and queried by all: it is found despite one or two changed terms, with only one
    row per text.
    """
    least = sorted([crc32(term.encode("utf-8", "replace")) for term in terms])[:4]
    pairs = combinations(least, 2) if len(least) > 1 else [(one, one) for one in least]
    return tuple([(one * 0x9E3779B97F4A7C15 ^ other * 0xC2B2AE3D27D4EB4F) & _MASK for one, other in pairs])


def hash_text(text: str) -> int:
    """Hash a text to a 63-bit number."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big") >> 1


@lru_cache(maxsize=2)
def text_hashes(namespace: str, parsed: str) -> tuple[int, ...]:
    """Return the hashes of a text, given its index terms. Recent ones are cached for a following write."""
    said = [line.rpartition("\t")[2] for line in parsed.split("\n")[1:]]
    stems = set(" ".join(said).split()) - _stop_stems()
    if len(stems) < MIN_STEMS:
        return ()
    place = _namespace_hash(namespace)
    return (place ^ hash_text("\n".join(said)), *(place ^ band for band in lsh_bands(stems)))


@cache
def _stop_stems() -> frozenset[str]:
    """Return the stems of stop words."""
    return frozenset(tokens(" ".join(STOP)))


_namespace_hash = lru_cache(maxsize=1024)(hash_text)


def update_hashes(session: Session, memory: str, before: Sequence[int], after: Sequence[int]) -> None:
    """Replace the stored hashes of a memory."""
    if before == after:
        return
    if before:
        session.do("lsh_band_drop", bands=list(before[:2]), memory=memory)
    if after:
        session.do("lsh_band_add", band=after[1], memory=memory, exact=after[0])


class HashMatches(NamedTuple):
    """Memories that share hashes with a text, without access checks."""

    identical: list[str]
    """Newest memories with the identical text, oldest first."""
    near: list[str]
    """Others, most shared bands first."""

    @property
    def all(self) -> list[str]:
        return [*self.identical, *self.near]


def find_matches(session: Session, sought: Sequence[int]) -> HashMatches:
    """Find memories that share a hash; identical texts are found however many others match."""
    if not sought:
        return HashMatches([], [])
    asked = {f"band_{place}": band for place, band in enumerate(sought[1:])}
    rows = session.rows("lsh_band_matches", exact=sought[0], most=MAX_PER_BAND, depth=MAX_EXACT_SCANNED, **asked)
    same = sorted({row[0] for row in rows if row[1]})
    shared = Counter(row[0] for row in rows if row[0] not in same)
    return HashMatches(same, sorted(shared, key=lambda memory: (shared[memory], memory), reverse=True))

"""Parse a query: its words, language, speakers and dates. Embed it on a thread, because models are slow."""

import re
import unicodedata
from _thread import allocate_lock, start_new_thread
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import NamedTuple, Self

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.recall.dates import MAX_READ, Event, Period, compile_time_hint, find_events, find_periods
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.storage.index_terms import ROLES
from holdfast.kernel.text.words import STOP, emoji_words, strip_invisible, terms
from holdfast.kernel.vector import Embedding, Vector

MAX_WORDS = 64
_PART_OF_NAME = re.compile(r"[^\s_.,'’-]{2,}")

_CONTRACTION = re.compile(r"(?<=\w)['’](d|ll|m|re|ve)\b", re.IGNORECASE)
"""Endings of "I'd", "you'll", "I'm", "they're" and "we've", which count as common words."""

_ENGLISH = STOP - frozenset(
    "a am an as at be by do had has he her him i if in is it me on or so to us was we will".split()
)
"""Common English words that other languages rarely share."""

_OTHER_LANGUAGES = tuple(
    frozenset(words.split())
    for words in """
    aber auf bei das dem den der ein eine einen er es für hat haben hatte ich im ist kann mein meine mit nicht sie
    sind und von wann warum welche welcher welches wer wie wir wo zu /
    au aux avec ce ces combien dans de des du elle est et il je la le les mes mon nous où pas pourquoi qu quand que
    quel quelle qui sont sur une vous /
    al como con cuando cuál cuándo cuánto cómo de del donde dónde el es está esta fue ha hay la las los mi mis para
    por porque que quien quién qué se su un una y /
    ao aos como da das de dos e ela ele em eu foi meu minha na nas nos não o onde os para por porque quais qual
    quando que quem se sua um uma você /
    al che chi con cosa da dal dei della di dove e gli ha ho il io la le lo mia mio nel nella non perché quale
    quando quanto sono una è /
    aan dat de een en er heb heeft het hoe ik mijn naar niet op te van voor waar waarom wanneer wat welke wie zijn /
    att av det du en ett för har hur hvad hvem hvor hvordan hvorfor hvornår ikke inte jag jeg med mit när och og på
    som til till vad vem är /
    czy dlaczego gdzie jak jest kiedy kto na nie się w z że
    """.split("/")
)
"""Common words of German, French, Spanish, Portuguese, Italian, Dutch, the Nordic languages and Polish."""


_CHARACTER = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
"""In Chinese, a single character may be a word."""


_USER_ROLES, _ASSISTANT_ROLES = frozenset(("user", "human")), frozenset(("assistant", "ai", "bot", "agent", "model"))
"""Role names of the two sides of a conversation."""
_FIRST_PERSON_HINTS = frozenset("i me my mine myself any recommend suggest".split())


@cache
def _prior_answer_pattern() -> re.Pattern[str]:
    """Match references to what the assistant said before. Compiled on first use, like the next pattern."""
    verbs = "say|tell|suggest|recommend|mention|advise|propose|explain|describe|list|name|give|share|show|promise|write"
    past_forms = (
        "said|told|suggested|recommended|mentioned|advised|proposed|explained|described|listed|named|gave|given"
    )
    past_forms += "|shared|showed|shown|promised|wrote|written|replied|answered|referring|talking"
    then = r"(?:\s+(?:had|have|were|also|once|just|ever|\w+ly))*\s+"
    return re.compile(
        rf"\b(?:did|have|had)\s+you{then}(?:{verbs}|{past_forms})\b|\byou(?:['’](?:d|ve))?{then}(?:{past_forms})\b"
        r"|\byour\s+(?:\w+\s+)?(?:suggestion|recommendation|advice|answer|reply|tip|explanation|proposal)s?\b"
        r"|\bour\s+(?:previous|last|earlier|past)\s+(?:conversation|chat|discussion|talk)s?\b",
        re.IGNORECASE,
    )


@cache
def _first_person_pattern() -> re.Pattern[str]:
    """Match references to what the user said about themselves, and requests for personal advice."""
    return re.compile(
        r"(?<!\btell\s)(?<!\bgive\s)(?<!\bshow\s)(?<!\bremind\s)\bme\b|\b(?:I|my|mine|myself)\b"
        r"|\b(?:recommend|suggest)\b|\bany\s+(?:\w+\s+)?(?:ideas|tips|advice|suggestions|recommendations)\b",
        re.IGNORECASE,
    )


class RecallRequest(NamedTuple):
    """A query, its filters and options."""

    text: str
    filter: Filter = memories.EVERYTHING
    limit: int = 10
    excluded: Collection[str] = ()
    embedding: Embedding | None = None
    """Vector of the query, from the caller's own model."""
    now: int | None = None
    """Time of the query, for words such as yesterday. None: now."""
    utc_offset: int = 0
    """Offset of the caller's clock from UTC, in microseconds."""
    as_of: int | None = None
    """Search what was true at this time."""
    known_at: int | None = None
    """Search what this store knew at this time."""
    is_recorded: bool = True
    """Count the hits as used and log the query."""


class Query(NamedTuple):
    """A parsed query."""

    text: str
    words: tuple[str, ...]
    """Distinct, lower case; character pairs for scripts without spaces; emoji by name."""
    english: bool
    """Whether the rules for English apply: common words, first person."""
    dates: tuple[Period, ...]
    """By the caller's clock."""
    roles: frozenset[str] = frozenset()
    """Roles whose words the query asks for: the user's or the assistant's."""
    events: tuple[Event, ...] = ()
    """Events that the query uses as dates ("since the migration")."""
    utc_offset: int = 0
    """Offset of the caller's clock from UTC, in microseconds."""


def parse_query(text: str, now: int, utc_offset: int = 0) -> Query:
    """Parse a query. In English, common words are dropped unless there are no others."""
    plain = unicodedata.normalize("NFC", strip_invisible(text))
    found = list(dict.fromkeys((*terms(plain), *_CHARACTER.findall(plain), *emoji_words(plain))))
    english = is_english(found, all(map(str.isascii, found)))
    common = STOP.union(map(str.lower, _CONTRACTION.findall(plain))) if english else frozenset()
    words = [word for word in found if word not in common] or found
    may_name_time = compile_time_hint().search(text[:MAX_READ]) is not None
    return Query(
        text,
        tuple(words[:MAX_WORDS]),
        english,
        dates=find_periods(text, now + utc_offset) if may_name_time else (),
        roles=_find_roles(text[:MAX_READ], frozenset(found)) if english else frozenset(),
        events=find_events(text) if english and may_name_time else (),
        utc_offset=utc_offset,
    )


def _find_roles(text: str, words: frozenset[str]) -> frozenset[str]:
    """Return whose words a query asks for: "What did you suggest?" the assistant's, "What did I buy?" the user's."""
    if words & {"you", "your", "our"} and _prior_answer_pattern().search(text):
        return _ASSISTANT_ROLES
    return _USER_ROLES if words & _FIRST_PERSON_HINTS and _first_person_pattern().search(text) else frozenset()


def is_english(words: Collection[str], ascii_only: bool) -> bool:
    """Whether common English words outnumber those of other languages. A few plain ASCII words count as English."""
    known_words = frozenset(words)
    english, maybe = len(known_words & _ENGLISH), len(known_words & STOP - _ENGLISH)
    other = max(len(known_words & common) for common in _OTHER_LANGUAGES)
    return 2 * english + maybe >= 2 * other if english else ascii_only and not other


def find_named_speakers(words: Sequence[str], speakers: Iterable[str]) -> tuple[str, ...]:
    """List the speakers named among the words, wholly or in part, in word order. Role names do not count."""
    places = {word: place for place, word in reversed(list(enumerate(words)))}
    found = {speaker: _find_position(speaker, places) for speaker in speakers if speaker.lower() not in ROLES}
    return tuple(sorted((one for one in found if found[one] < len(words)), key=lambda one: (found[one], one)))


def find_asked_speakers(query: Query, speakers: Collection[str]) -> tuple[str, ...]:
    """List the speakers that a query names. If it names none, list those of the roles it asks about, provided that the
    other role speaks too."""
    named = find_named_speakers(query.words, [speaker for speaker in speakers if not _is_label(speaker, query.text)])
    if named or not {speaker.lower() for speaker in speakers} & ROLES - query.roles:
        return named
    return tuple(sorted(query.roles.union(speaker for speaker in speakers if speaker.lower() in query.roles)))


def _is_label(speaker: str, text: str) -> bool:
    """Whether a speaker in capitals, as in "TASK: ...", is only a label, because the query has it as a common word."""
    if not speaker.isupper() or text == text.lower():
        return False
    return not any(part in text or part.title() in text for part in _PART_OF_NAME.findall(speaker))


def _find_position(speaker: str, places: Mapping[str, int]) -> int:
    """Return the first position of a part of a name among the words; the number of words if there is none."""
    parts = [terms(part) for part in _PART_OF_NAME.findall(speaker)]
    return min((places[part[0]] for part in parts if part and places.keys() >= set(part)), default=len(places))


def rewrite_in_first_person(text: str, speakers: Sequence[str]) -> str:
    """Rewrite a query about a person in the first person, because memories are.

    The first speaker becomes "I", every other one "you".
    """
    calls = {call: not place for place, name in reversed(list(enumerate(speakers))) for call in _name_forms(name)}
    if not calls:
        return text
    longest_first = sorted(calls, key=lambda call: (-len(call), call))
    somebody = rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?:(['’]s|['’])(?=\W|$))?(?!\w)"
    return re.sub(somebody, lambda found: _PRONOUNS[calls[found[1]], found[2] is not None], text)


_PRONOUNS = {(True, False): "I", (True, True): "my", (False, False): "you", (False, True): "your"}


def _name_forms(name: str) -> set[str]:
    """List the forms of a name: whole name or first name, as written or capitalised."""
    parts = name.split() if name.lower() not in ROLES else []
    calls = {" ".join(parts), parts[0]} if parts else set()
    return {call for known in calls for call in (known, known.title()) if len(call) > 1}


class QueryEmbedding:
    """The embedding of a text, started early. If the text turns out to be another one, it is computed again.

    Leaving always waits for the thread: a process must not end while a model is loading. The thread is not one of
    `threading`, because starting such a thread waits until it runs, which takes long on a busy machine.
    """

    def __init__(self) -> None:
        self._running = allocate_lock()
        self._started_with: tuple[Embedder, str] | None = None
        self._computed: Vector | None = None
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._wait()

    def start(self, embedder: Embedder, text: str) -> None:
        """Start to embed a text and return at once."""
        self._started_with = embedder, text
        self._running.acquire()
        start_new_thread(self._compute, self._started_with)

    def _compute(self, embedder: Embedder, text: str) -> None:
        try:
            self._computed = embed_text(embedder, text)
        except Exception as error:  # noqa: BLE001 - raised by `get_vector`
            self._error = error
        finally:
            self._running.release()

    def get_vector(self, embedder: Embedder, text: str) -> Vector | None:
        """Return the embedding of a text; None if the model does not know its words."""
        self._wait()
        if self._started_with != (embedder, text):
            return embed_text(embedder, text)
        if self._error is not None:
            raise self._error
        return self._computed

    def _wait(self) -> None:
        with self._running:
            pass


def embed_text(embedder: Embedder, text: str) -> Vector | None:
    """Embed a text; None if the model does not know its words."""
    if not embedder.can_embed(text):
        return None
    (vector,) = embedder.embed([text])
    return vector

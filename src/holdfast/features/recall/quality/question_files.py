"""Read files of questions with known answers, as memories to store and questions to ask.

Three formats: LoCoMo (conversations of dated sessions, with or without `notes`), LongMemEval as published, and its
short form with one text per session.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate as admit

OWN = Path(__file__).with_name("own.json")
"""The questions bundled with Holdfast."""
MOST_BYTES = 60_000
"""Maximum of one memory. A longer session becomes several memories, each of which counts as right."""
LOCOMO, LONGMEMEVAL = "LoCoMo", "LongMemEval"
SETS = {LOCOMO: ("turns", "docs"), LONGMEMEVAL: ("sessions", "pool", "pool-turn")}
"""The sets of each format; the first is the default."""
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TIMES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d (%a) %H:%M")
_SESSION = re.compile(r"session_([0-9]+)")


Session = tuple[str, str, list[str]]
"""Id, time and turns."""


@contextmanager
def at(place: str) -> Iterator[None]:
    """Prefix errors with their place in the file."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{place}: {error.message}") from None
    except (msgspec.ValidationError, ValueError) as error:
        raise Invalid(f"{place}: {error}") from None


class Turn(Struct):
    """A turn of a conversation."""

    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None

    def told(self) -> str:
        return f"{self.text} [shares {self.blip_caption}]" if self.blip_caption else self.text


class Note(Struct):
    """A memory without a conversation."""

    id: str
    title: str
    content: str
    occurred_at: str | None = None
    supersedes: str | None = None


class Asked(Struct):
    """A question, and the turns or notes that answer it."""

    question: str
    category: int | str
    evidence: list[str] = []
    question_date: str | None = None


class Sample(Struct):
    """A conversation, notes or both, with questions about them."""

    sample_id: str
    qa: list[Asked]
    conversation: dict[str, Any] = {}
    notes: list[Note] = []

    def sessions(self) -> Iterator[tuple[str, str | None, list[Turn]]]:
        """Number, time and turns of each session, in order."""
        found = ((match[1], name) for name in self.conversation if (match := _SESSION.fullmatch(name)))
        for number, name in sorted(found, key=lambda one: int(one[0])):
            with at(self.place_of(number)):
                said_at = self.conversation.get(f"{name}_date_time")
                turns = msgspec.convert(self.conversation[name], list[Turn])
                yield number, said_at and moment(msgspec.convert(said_at, str)), turns

    def place_of(self, session: str) -> str:
        return f"conversation {self.sample_id}: session {session}"


class Said(Struct):
    role: str
    content: str


class ShortSession(Struct):
    id: str
    ts: str
    text: str


class Puzzle(Struct):
    """A LongMemEval question with the sessions that contain its answer."""

    question_id: str
    question_type: str
    question: str
    question_date: str
    answer_session_ids: list[str]
    haystack: list[ShortSession] = []
    haystack_session_ids: list[str] = []
    haystack_dates: list[str] = []
    haystack_sessions: list[list[Said]] = []

    def sessions(self) -> Iterator[Session]:
        """Iterate over the sessions of either form."""
        for short in self.haystack:
            yield self._session(short.id, short.ts, short.text.split("\n"))
        self._must_be_alike()
        for id, date, turns in zip(self.haystack_session_ids, self.haystack_dates, self.haystack_sessions, strict=True):
            yield self._session(id, date, [turn.content.strip() and f"{turn.role}: {turn.content}" for turn in turns])

    def _session(self, id: str, date: str, turns: Sequence[str]) -> Session:
        """Build a session without its empty turns."""
        with at(f"question {self.question_id}: session {id}"):
            for number, turn in enumerate(turns, 1):
                with at(f"turn {number}"):
                    admit.foreign("content", turn)
            return id, moment(date), [turn for turn in turns if turn.strip()]

    def _must_be_alike(self) -> None:
        """Raise unless every session has an id and a time."""
        lists = ("haystack_session_ids", "haystack_dates", "haystack_sessions")
        counts = {name: len(getattr(self, name)) for name in lists}
        if len({*counts.values()}) > 1:
            told = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise Invalid(f"question {self.question_id}: {told}. Each session needs one of each.")

    def user_turns(self) -> Iterator[Session]:
        """Iterate over the sessions with the user's turns only."""
        for id, date, lines in self.sessions():
            told = [line.removeprefix("user: ") for line in lines if self.haystack or line.startswith("user: ")]
            yield id, date, told


class Item(NamedTuple):
    """A memory to store: the fields of the operation, and the key that questions refer to."""

    key: str
    fields: dict[str, Any]


class Question(NamedTuple):
    text: str
    right: frozenset[str]
    category: str
    now: str | None = None


class Scope(NamedTuple):
    """The memories of one namespace and the questions asked there."""

    namespace: str
    items: list[Item]
    questions: list[Question]
    supersedes: Sequence[tuple[str, str]] = ()


class Cut(NamedTuple):
    """The scopes of a file."""

    format: str
    set: str
    scopes: list[Scope]
    unasked: int = 0
    """Questions of the file that have no answer or are traps."""

    def sample(self, most: int | None) -> "Cut":
        """Take at most `most` questions, spread over the file; drop scopes without any."""
        total = sum(len(scope.questions) for scope in self.scopes)
        if most is None or most >= total:
            return self
        chosen = {number * total // most for number in range(most)}
        numbers = iter(range(total))
        fewer = [
            scope._replace(questions=[one for one in scope.questions if next(numbers) in chosen])
            for scope in self.scopes
        ]
        return self._replace(scopes=[scope for scope in fewer if scope.questions])


def moment(text: str) -> str:
    """Convert a time of either format, or in ISO form, to the form that the store accepts."""
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).strftime("%Y-%m-%dT%H:%M:00Z")
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise Invalid(f"{text!r} is not a time; use a form such as 2025-03-14T09:30.") from None


def cut(file: Path, set: str | None = None) -> Cut:
    """Read a file of any format as one of its sets."""
    given = read(file)
    format = format_of(given, file)
    chosen = set or SETS[format][0]
    if chosen not in SETS[format]:
        raise Invalid(f"A {format} file has the sets {', '.join(SETS[format])}, not {chosen}.")
    with at(f"{file.name} looks like a {format} file, but"):
        scopes = list(_locomo(given, chosen) if format == LOCOMO else _longmemeval(given, chosen))
    asked = sum(len(scope.questions) for scope in scopes)
    if not asked:
        raise Invalid(f"{file.name} has no question with an answer.")
    held = sum(len(one["qa"]) for one in given) if format == LOCOMO else len(given)
    return Cut(format, chosen, scopes, held - asked)


def read(file: Path) -> list[Any]:
    try:
        given = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise Invalid(f"Cannot read {file}: {error.strerror or error}.") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"{file.name} is not valid JSON: {error}.") from None
    return given if isinstance(given, list) else [given]


def format_of(given: Sequence[Any], file: Path) -> str:
    """Detect the format from the first entry."""
    first = given[0] if given and isinstance(given[0], Mapping) else {}
    if "qa" in first and ("conversation" in first or "notes" in first):
        return LOCOMO
    if "question" in first and ("haystack" in first or "haystack_sessions" in first):
        return LONGMEMEVAL
    raise Invalid(
        f"{file.name} is neither a LoCoMo file (a list of objects with conversation and qa) "
        "nor a LongMemEval file (a list of objects with question and haystack_sessions)."
    )


def _locomo(given: list[Any], set: str) -> Iterator[Scope]:
    """Build one scope per sample. Traps, which nothing answers, are left out."""
    for count, sample in enumerate(msgspec.convert(given, list[Sample]), 1):
        items = [*(_turns(sample) if set == "turns" else _docs(sample)), *_notes(sample)]
        yield Scope(f"asked-{count}", items, list(_questions(sample, set)), _replaced(sample.notes))


def _turns(sample: Sample) -> Iterator[Item]:
    """Build one memory per turn, with speaker, time, thread and place."""
    for number, said_at, turns in sample.sessions():
        for place, turn in enumerate(turns):
            with at(f"{sample.place_of(number)}: turn {place + 1}"):
                fields = {"speaker": turn.speaker, "thread": f"{sample.sample_id} {number}", "place": place}
                yield _fit(Item(turn.dia_id, _fields(turn.dia_id, turn.told(), said_at) | fields))


def _docs(sample: Sample) -> Iterator[Item]:
    """Build one memory per session, as a transcript."""
    for number, said_at, turns in sample.sessions():
        transcript = "\n".join(f"{turn.speaker}: {turn.told()}" for turn in turns)
        with at(sample.place_of(number)):
            yield _fit(Item(f"D{number}", _fields(f"D{number}", transcript, said_at)))


def _notes(sample: Sample) -> Iterator[Item]:
    for note in sample.notes:
        with at(f"conversation {sample.sample_id}: note {note.id}"):
            said_at = note.occurred_at and moment(note.occurred_at)
            yield _fit(Item(note.id, _fields(note.title, note.content, said_at)))


def _fit(item: Item) -> Item:
    """Validate an item as the store does."""
    admit.title(item.fields["title"])
    admit.content(item.fields["content"])
    for name in item.fields.keys() & {"speaker", "thread"}:
        admit.label(name, item.fields[name])
    return item


def _replaced(notes: list[Note]) -> list[tuple[str, str]]:
    """List pairs of a note and the note that it supersedes."""
    known = {note.id for note in notes}
    if strange := [note.supersedes for note in notes if note.supersedes and note.supersedes not in known]:
        raise Invalid(f"supersedes: there is no note {strange[0]}.")
    return [(note.id, note.supersedes) for note in notes if note.supersedes]


def _questions(sample: Sample, set: str) -> Iterator[Question]:
    for number, one in enumerate(sample.qa, 1):
        if one.category != 5 and one.evidence:
            with at(f"conversation {sample.sample_id}: question {number}"):
                yield _question(one, set)


def _question(asked: Asked, set: str) -> Question:
    right = asked.evidence if set == "turns" else [session_of(key) for key in asked.evidence]
    category = (
        CATEGORIES.get(asked.category, str(asked.category)) if isinstance(asked.category, int) else asked.category
    )
    text = admit.content(asked.question, "question")
    return Question(text, frozenset(right), category, asked.question_date and moment(asked.question_date))


def session_of(key: str) -> str:
    """Return the session of a turn; a note is its own session."""
    return key.partition(":")[0]


def _longmemeval(given: list[Any], set: str) -> Iterator[Scope]:
    puzzles = msgspec.convert(given, list[Puzzle])
    answered = [puzzle for puzzle in puzzles if puzzle.answer_session_ids]
    if set == "sessions":
        for count, puzzle in enumerate(answered, 1):
            yield Scope(f"asked-{count}", _whole(puzzle.sessions()), [_puzzle(puzzle)])
        return
    # In a pool, another session may answer a question whose own sessions do not.
    questions = [_puzzle(puzzle) for puzzle in answered if not puzzle.question_id.endswith("_abs")]
    if set == "pool":
        yield Scope("pool", _whole(one for puzzle in puzzles for one in puzzle.sessions()), questions)
    else:
        yield Scope("pool", _by_turn(one for puzzle in puzzles for one in puzzle.user_turns()), questions)


def _puzzle(puzzle: Puzzle) -> Question:
    right = frozenset(puzzle.answer_session_ids)
    with at(f"question {puzzle.question_id}"):
        text = admit.content(puzzle.question, "question")
        return Question(text, right, puzzle.question_type, moment(puzzle.question_date))


def _whole(sessions: Iterable[Session]) -> list[Item]:
    """Build one memory per session."""
    return [
        Item(id, _fields(_title(number, place), text, said_at))
        for number, (id, said_at, lines) in enumerate(_once(sessions), 1)
        for place, text in enumerate(pieces("\n".join(lines)))
    ]


def _by_turn(sessions: Iterable[Session]) -> list[Item]:
    """Build one memory per user turn; finding any of them finds its session."""
    return [
        Item(
            id,
            _fields(_title(number, place), text, said_at)
            | {"speaker": "user", "thread": f"session {number}", "place": place},
        )
        for number, (id, said_at, lines) in enumerate(_once(sessions), 1)
        for place, text in enumerate(part for line in lines for part in pieces(line))
    ]


def _once(sessions: Iterable[Session]) -> Iterable[Session]:
    """Drop repeated sessions: several questions may share one."""
    found: dict[str, Session] = {}
    for session in sessions:
        found.setdefault(session[0], session)
    return found.values()


def _title(number: int, place: int) -> str:
    """Build a title without the session's id, which would reveal the right ones."""
    return f"session {number} part {place + 1}" if place else f"session {number}"


def pieces(text: str) -> list[str]:
    """Split a text into parts that the store accepts, at line ends if possible."""
    parts, rest = list[str](), text
    while len(rest.encode()) > MOST_BYTES:
        beginning = rest.encode()[:MOST_BYTES].decode(errors="ignore")
        end = beginning.rfind("\n") + 1 or len(beginning)
        parts.append(rest[:end])
        rest = rest[end:]
    return [part for part in (*parts, rest) if part.strip()]


def _fields(title: str, content: str, said_at: str | None) -> dict[str, Any]:
    fields = {"title": title, "content": content, "tier": "long"}
    return fields | {"occurred_at": said_at} if said_at else fields

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
from holdfast.kernel.records import validate

BUNDLED_QUESTIONS = Path(__file__).with_name("own.json")
"""The questions bundled with Holdfast."""
MAX_BYTES = 60_000
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
def locate_errors(place: str) -> Iterator[None]:
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

    def full_text(self) -> str:
        return f"{self.text} [shares {self.blip_caption}]" if self.blip_caption else self.text


class Note(Struct):
    """A memory without a conversation."""

    id: str
    title: str
    content: str
    occurred_at: str | None = None
    supersedes: str | None = None


class DatasetQuestion(Struct):
    """A question, and the turns or notes that answer it."""

    question: str
    category: int | str
    evidence: list[str] = []
    question_date: str | None = None


class Sample(Struct):
    """A conversation, notes or both, with questions about them."""

    sample_id: str
    qa: list[DatasetQuestion]
    conversation: dict[str, Any] = {}
    notes: list[Note] = []

    def sessions(self) -> Iterator[tuple[str, str | None, list[Turn]]]:
        """Number, time and turns of each session, in order."""
        found = ((match[1], name) for name in self.conversation if (match := _SESSION.fullmatch(name)))
        for number, name in sorted(found, key=lambda one: int(one[0])):
            with locate_errors(self.place_of(number)):
                said_at = self.conversation.get(f"{name}_date_time")
                turns = msgspec.convert(self.conversation[name], list[Turn])
                yield number, said_at and parse_time(msgspec.convert(said_at, str)), turns

    def place_of(self, session: str) -> str:
        return f"conversation {self.sample_id}: session {session}"


class ChatTurn(Struct):
    role: str
    content: str


class ShortSession(Struct):
    id: str
    ts: str
    text: str


class LongMemEvalQuestion(Struct):
    """A LongMemEval question with the sessions that contain its answer."""

    question_id: str
    question_type: str
    question: str
    question_date: str
    answer_session_ids: list[str]
    haystack: list[ShortSession] = []
    haystack_session_ids: list[str] = []
    haystack_dates: list[str] = []
    haystack_sessions: list[list[ChatTurn]] = []

    def sessions(self) -> Iterator[Session]:
        """Iterate over the sessions of either form."""
        for short in self.haystack:
            yield self._session(short.id, short.ts, short.text.split("\n"))
        self._check_lengths()
        for id, date, turns in zip(self.haystack_session_ids, self.haystack_dates, self.haystack_sessions, strict=True):
            yield self._session(id, date, [turn.content.strip() and f"{turn.role}: {turn.content}" for turn in turns])

    def _session(self, id: str, date: str, turns: Sequence[str]) -> Session:
        """Build a session without its empty turns."""
        with locate_errors(f"question {self.question_id}: session {id}"):
            for number, turn in enumerate(turns, 1):
                with locate_errors(f"turn {number}"):
                    validate.foreign_json("content", turn)
            return id, parse_time(date), [turn for turn in turns if turn.strip()]

    def _check_lengths(self) -> None:
        """Raise unless every session has an id and a time."""
        lists = ("haystack_session_ids", "haystack_dates", "haystack_sessions")
        counts = {name: len(getattr(self, name)) for name in lists}
        if len({*counts.values()}) > 1:
            summary = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise Invalid(f"question {self.question_id}: {summary}. Each session needs one of each.")

    def user_turns(self) -> Iterator[Session]:
        """Iterate over the sessions with the user's turns only."""
        for id, date, lines in self.sessions():
            user_lines = [line.removeprefix("user: ") for line in lines if self.haystack or line.startswith("user: ")]
            yield id, date, user_lines


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


class Dataset(NamedTuple):
    """The scopes of a file."""

    format: str
    set: str
    scopes: list[Scope]
    unasked: int = 0
    """Questions of the file that have no answer or are traps."""

    def take_sample(self, max_questions: int | None) -> "Dataset":
        """Take at most `max_questions` questions, spread over the file; drop scopes without any."""
        total = sum(len(scope.questions) for scope in self.scopes)
        if max_questions is None or max_questions >= total:
            return self
        chosen = {number * total // max_questions for number in range(max_questions)}
        numbers = iter(range(total))
        fewer = [
            scope._replace(questions=[one for one in scope.questions if next(numbers) in chosen])
            for scope in self.scopes
        ]
        return self._replace(scopes=[scope for scope in fewer if scope.questions])


def parse_time(text: str) -> str:
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


def load_dataset(file: Path, set: str | None = None) -> Dataset:
    """Read a file of any format as one of its sets."""
    given = read_json(file)
    format = detect_format(given, file)
    chosen = set or SETS[format][0]
    if chosen not in SETS[format]:
        raise Invalid(f"A {format} file has the sets {', '.join(SETS[format])}, not {chosen}.")
    with locate_errors(f"{file.name} looks like a {format} file, but"):
        scopes = list(_read_locomo(given, chosen) if format == LOCOMO else _read_longmemeval(given, chosen))
    question_count = sum(len(scope.questions) for scope in scopes)
    if not question_count:
        raise Invalid(f"{file.name} has no question with an answer.")
    total = sum(len(one["qa"]) for one in given) if format == LOCOMO else len(given)
    return Dataset(format, chosen, scopes, total - question_count)


def read_json(file: Path) -> list[Any]:
    try:
        given = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise Invalid(f"Cannot read {file}: {error.strerror or error}.") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"{file.name} is not valid JSON: {error}.") from None
    return given if isinstance(given, list) else [given]


def detect_format(given: Sequence[Any], file: Path) -> str:
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


def _read_locomo(given: list[Any], set: str) -> Iterator[Scope]:
    """Build one scope per sample. Traps, which nothing answers, are left out."""
    for count, sample in enumerate(msgspec.convert(given, list[Sample]), 1):
        items = [
            *(_build_turn_items(sample) if set == "turns" else _build_session_items(sample)),
            *_build_note_items(sample),
        ]
        yield Scope(f"asked-{count}", items, list(_build_questions(sample, set)), _list_supersedes(sample.notes))


def _build_turn_items(sample: Sample) -> Iterator[Item]:
    """Build one memory per turn, with speaker, time, thread and place."""
    for number, said_at, turns in sample.sessions():
        for place, turn in enumerate(turns):
            with locate_errors(f"{sample.place_of(number)}: turn {place + 1}"):
                fields = {"speaker": turn.speaker, "thread": f"{sample.sample_id} {number}", "place": place}
                yield _validate_item(Item(turn.dia_id, _build_fields(turn.dia_id, turn.full_text(), said_at) | fields))


def _build_session_items(sample: Sample) -> Iterator[Item]:
    """Build one memory per session, as a transcript."""
    for number, said_at, turns in sample.sessions():
        transcript = "\n".join(f"{turn.speaker}: {turn.full_text()}" for turn in turns)
        with locate_errors(sample.place_of(number)):
            yield _validate_item(Item(f"D{number}", _build_fields(f"D{number}", transcript, said_at)))


def _build_note_items(sample: Sample) -> Iterator[Item]:
    for note in sample.notes:
        with locate_errors(f"conversation {sample.sample_id}: note {note.id}"):
            said_at = note.occurred_at and parse_time(note.occurred_at)
            yield _validate_item(Item(note.id, _build_fields(note.title, note.content, said_at)))


def _validate_item(item: Item) -> Item:
    """Validate an item as the store does."""
    validate.title(item.fields["title"])
    validate.content(item.fields["content"])
    for name in item.fields.keys() & {"speaker", "thread"}:
        validate.label(name, item.fields[name])
    return item


def _list_supersedes(notes: list[Note]) -> list[tuple[str, str]]:
    """List pairs of a note and the note that it supersedes."""
    known = {note.id for note in notes}
    if strange := [note.supersedes for note in notes if note.supersedes and note.supersedes not in known]:
        raise Invalid(f"supersedes: there is no note {strange[0]}.")
    return [(note.id, note.supersedes) for note in notes if note.supersedes]


def _build_questions(sample: Sample, set: str) -> Iterator[Question]:
    for number, one in enumerate(sample.qa, 1):
        if one.category != 5 and one.evidence:
            with locate_errors(f"conversation {sample.sample_id}: question {number}"):
                yield _build_question(one, set)


def _build_question(question: DatasetQuestion, set: str) -> Question:
    right = question.evidence if set == "turns" else [get_session_key(key) for key in question.evidence]
    category = (
        CATEGORIES.get(question.category, str(question.category))
        if isinstance(question.category, int)
        else question.category
    )
    text = validate.content(question.question, "question")
    return Question(text, frozenset(right), category, question.question_date and parse_time(question.question_date))


def get_session_key(key: str) -> str:
    """Return the session of a turn; a note is its own session."""
    return key.partition(":")[0]


def _read_longmemeval(given: list[Any], set: str) -> Iterator[Scope]:
    puzzles = msgspec.convert(given, list[LongMemEvalQuestion])
    answered = [puzzle for puzzle in puzzles if puzzle.answer_session_ids]
    if set == "sessions":
        for count, puzzle in enumerate(answered, 1):
            yield Scope(f"asked-{count}", _items_per_session(puzzle.sessions()), [_build_longmemeval_question(puzzle)])
        return
    # In a pool, another session may answer a question whose own sessions do not.
    questions = [_build_longmemeval_question(puzzle) for puzzle in answered if not puzzle.question_id.endswith("_abs")]
    if set == "pool":
        yield Scope("pool", _items_per_session(one for puzzle in puzzles for one in puzzle.sessions()), questions)
    else:
        yield Scope("pool", _items_per_turn(one for puzzle in puzzles for one in puzzle.user_turns()), questions)


def _build_longmemeval_question(puzzle: LongMemEvalQuestion) -> Question:
    right = frozenset(puzzle.answer_session_ids)
    with locate_errors(f"question {puzzle.question_id}"):
        text = validate.content(puzzle.question, "question")
        return Question(text, right, puzzle.question_type, parse_time(puzzle.question_date))


def _items_per_session(sessions: Iterable[Session]) -> list[Item]:
    """Build one memory per session."""
    return [
        Item(id, _build_fields(_item_title(number, place), text, said_at))
        for number, (id, said_at, lines) in enumerate(_drop_repeated_sessions(sessions), 1)
        for place, text in enumerate(split_text("\n".join(lines)))
    ]


def _items_per_turn(sessions: Iterable[Session]) -> list[Item]:
    """Build one memory per user turn; finding any of them finds its session."""
    return [
        Item(
            id,
            _build_fields(_item_title(number, place), text, said_at)
            | {"speaker": "user", "thread": f"session {number}", "place": place},
        )
        for number, (id, said_at, lines) in enumerate(_drop_repeated_sessions(sessions), 1)
        for place, text in enumerate(part for line in lines for part in split_text(line))
    ]


def _drop_repeated_sessions(sessions: Iterable[Session]) -> Iterable[Session]:
    """Drop repeated sessions: several questions may share one."""
    found: dict[str, Session] = {}
    for session in sessions:
        found.setdefault(session[0], session)
    return found.values()


def _item_title(number: int, place: int) -> str:
    """Build a title without the session's id, which would reveal the right ones."""
    return f"session {number} part {place + 1}" if place else f"session {number}"


def split_text(text: str) -> list[str]:
    """Split a text into parts that the store accepts, at line ends if possible."""
    parts, rest = list[str](), text
    while len(rest.encode()) > MAX_BYTES:
        beginning = rest.encode()[:MAX_BYTES].decode(errors="ignore")
        end = beginning.rfind("\n") + 1 or len(beginning)
        parts.append(rest[:end])
        rest = rest[end:]
    return [part for part in (*parts, rest) if part.strip()]


def _build_fields(title: str, content: str, said_at: str | None) -> dict[str, Any]:
    fields = {"title": title, "content": content, "tier": "long"}
    return fields | {"occurred_at": said_at} if said_at else fields

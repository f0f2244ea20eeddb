"""Plan imports: turn records into memory drafts with the keys that identify them later."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from holdfast.features.importers import model as reading
from holdfast.features.importers.model import Note, Part, Problem, Sort, Turn
from holdfast.features.importers.store import Route
from holdfast.kernel.records.memory import Scope, Span, Tier
from holdfast.kernel.records.validate import MOST_TAGS, Draft
from holdfast.kernel.timestamps import to_text

UPDATED = "source_updated_at"
"""Metadata key: time of the last change at the source."""
ORIGINAL = "original"
"""Metadata key: original text, where the content was rendered for readers."""


class Options(Struct, frozen=True, kw_only=True):
    namespace: str
    tier: Tier = "long"
    scope: Scope = "collective"
    tags: tuple[str, ...] = ()
    include: tuple[Sort, ...] = ()
    min_messages: int = 1
    route: Route = "mine"
    dry_run: bool = False


class Planned(NamedTuple):
    """Draft of a memory with its keys and digests."""

    key: str
    said: str | None
    digest: str
    """Digest of the source record and the tier. The position is excluded, because it can differ between files."""
    draft: Draft
    where: str
    beyond: str | None
    """For the last part: key of the part that would follow."""
    updated: int | None
    """Last change at the source, if known."""


class Planner:
    """Plans memories for one namespace, and for one agent if they are private."""

    def __init__(self, options: Options, agent: str, now: Callable[[], int], tell: Callable[[Problem], None]) -> None:
        self._options = options
        self._circle = (options.namespace, agent if options.scope == "private" else "")
        self._now = now
        self._tell = tell

    def key(self, named: str) -> str:
        """Key in this store for a key of the source."""
        return reading.digest(*self._circle, named)

    def turn(self, turn: Turn) -> Iterator[Planned]:
        speaker = reading.line(turn.speaker) or "unknown"
        about = {
            "kind": "conversation",
            "speaker": speaker,
            "thread": reading.line(turn.thread, 500),
            "place": turn.place,
            "tags": self._options.tags or UNSET,
        }
        title = reading.titled(turn.name, turn.place, self.key(turn.key))
        return self._parts(turn, title, about, (turn.name, speaker), (*self._circle, turn.thread, speaker))

    def note(self, note: Note) -> Iterator[Planned]:
        tags = tuple(dict.fromkeys((*self._options.tags, *note.tags)))[:MOST_TAGS]
        about = {"kind": note.kind, "speaker": None, "thread": None, "place": None, "tags": tags or UNSET}
        title = reading.line(note.title) or "Note"
        return self._parts(note, title, about, (title, note.kind, *note.tags), None)

    def _parts(
        self,
        record: Turn | Note,
        title: str,
        about: dict[str, Any],
        stated: tuple[str, ...],
        circle: tuple[str, ...] | None,
    ) -> Iterator[Planned]:
        at, key, updated = self._moment(record), self.key(record.key), self._updated(record)
        pieces = list(reading.parts(record.content)) or [Part(0, 0, record.content)]
        several = len(pieces) > 1
        for number, part in enumerate(pieces):
            draft = Draft(
                title=f"{title} part {number + 1}" if several else title,
                content=part.text,
                occurred_at=at,
                source_uri=record.uri,
                source_span=Span(part.start, part.end) if several else None,
                metadata=record.metadata if updated is None else {**record.metadata, UPDATED: to_text(updated)},
                namespace=self._options.namespace,
                tier=self._options.tier,
                scope=self._options.scope,
                source="import",
                **about,
            )
            yield Planned(
                key=_numbered(key, number),
                said=None if circle is None else reading.said(*circle, str(number), text=part.text),
                digest=reading.digest(*stated, str(at), self._options.tier, part.text),
                draft=draft,
                where=record.where,
                beyond=_numbered(key, number + 1) if number + 1 == len(pieces) else None,
                updated=updated,
            )

    def _updated(self, record: Turn | Note) -> int | None:
        return reading.known_moment(record.updated, self._now())[0] if isinstance(record, Turn) else None

    def _moment(self, record: Turn | Note) -> int | None:
        at, wrong = reading.known_moment(record.at, self._now())
        if wrong:
            self._tell(Problem(where=record.where, what=wrong, rejected=False))
        return at


def _numbered(key: str, number: int) -> str:
    return f"{key}.{number}" if number else key

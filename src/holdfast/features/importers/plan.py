"""Plan imports: turn records into memory drafts with the keys that identify them later."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from holdfast.features.importers import model
from holdfast.features.importers.model import Note, Problem, TextPart, Turn, TurnKind
from holdfast.features.importers.store import Route
from holdfast.kernel.records.memory import Scope, Span, Tier
from holdfast.kernel.records.validate import MAX_TAGS, Draft
from holdfast.kernel.timestamps import format_timestamp

SOURCE_UPDATED_KEY = "source_updated_at"
"""Metadata key: time of the last change at the source."""
ORIGINAL_KEY = "original"
"""Metadata key: original text, where the content was rendered for readers."""


class Options(Struct, frozen=True, kw_only=True):
    namespace: str
    tier: Tier = "long"
    scope: Scope = "collective"
    tags: tuple[str, ...] = ()
    include: tuple[TurnKind, ...] = ()
    min_messages: int = 1
    route: Route = "mine"
    dry_run: bool = False


class PlannedMemory(NamedTuple):
    """Draft of a memory with its keys and digests."""

    key: str
    utterance_digest: str | None
    digest: str
    """Digest of the source record and the tier. The position is excluded, because it can differ between files."""
    draft: Draft
    where: str
    next_part_key: str | None
    """For the last part: key of the part that would follow."""
    source_updated_at: int | None
    """Last change at the source, if known."""


class Planner:
    """Plans memories for one namespace, and for one agent if they are private."""

    def __init__(
        self, options: Options, agent: str, now: Callable[[], int], report_problem: Callable[[Problem], None]
    ) -> None:
        self._options = options
        self._audience = (options.namespace, agent if options.scope == "private" else "")
        self._now = now
        self._report_problem = report_problem

    def make_key(self, source_key: str) -> str:
        """Key in this store for a key of the source."""
        return model.digest(*self._audience, source_key)

    def plan_turn(self, turn: Turn) -> Iterator[PlannedMemory]:
        speaker = model.to_one_line(turn.speaker) or "unknown"
        about = {
            "kind": "conversation",
            "speaker": speaker,
            "thread": model.to_one_line(turn.thread, 500),
            "place": turn.place,
            "tags": self._options.tags or UNSET,
        }
        title = model.make_title(turn.name, turn.place, self.make_key(turn.key))
        return self._plan_parts(turn, title, about, (turn.name, speaker), (*self._audience, turn.thread, speaker))

    def plan_note(self, note: Note) -> Iterator[PlannedMemory]:
        tags = tuple(dict.fromkeys((*self._options.tags, *note.tags)))[:MAX_TAGS]
        about = {"kind": note.kind, "speaker": None, "thread": None, "place": None, "tags": tags or UNSET}
        title = model.to_one_line(note.title) or "Note"
        return self._plan_parts(note, title, about, (title, note.kind, *note.tags), None)

    def _plan_parts(
        self,
        record: Turn | Note,
        title: str,
        about: dict[str, Any],
        stated: tuple[str, ...],
        utterance_scope: tuple[str, ...] | None,
    ) -> Iterator[PlannedMemory]:
        at, key, updated = self._occurred_at(record), self.make_key(record.key), self._source_updated_at(record)
        pieces = list(model.split_text(record.content)) or [TextPart(0, 0, record.content)]
        several = len(pieces) > 1
        for number, part in enumerate(pieces):
            draft = Draft(
                title=f"{title} part {number + 1}" if several else title,
                content=part.text,
                occurred_at=at,
                source_uri=record.uri,
                source_span=Span(part.start, part.end) if several else None,
                metadata=record.metadata
                if updated is None
                else {**record.metadata, SOURCE_UPDATED_KEY: format_timestamp(updated)},
                namespace=self._options.namespace,
                tier=self._options.tier,
                scope=self._options.scope,
                source="import",
                **about,
            )
            yield PlannedMemory(
                key=_part_key(key, number),
                utterance_digest=None
                if utterance_scope is None
                else model.digest_utterance(*utterance_scope, str(number), text=part.text),
                digest=model.digest(*stated, str(at), self._options.tier, part.text),
                draft=draft,
                where=record.where,
                next_part_key=_part_key(key, number + 1) if number + 1 == len(pieces) else None,
                source_updated_at=updated,
            )

    def _source_updated_at(self, record: Turn | Note) -> int | None:
        return model.check_timestamp(record.updated, self._now())[0] if isinstance(record, Turn) else None

    def _occurred_at(self, record: Turn | Note) -> int | None:
        at, wrong = model.check_timestamp(record.at, self._now())
        if wrong:
            self._report_problem(Problem(where=record.where, what=wrong, rejected=False))
        return at


def _part_key(key: str, number: int) -> str:
    return f"{key}.{number}" if number else key

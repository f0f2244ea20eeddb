"""Compare a document with its previous ingest: unchanged documents, and memories whose text is gone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence

from holdfast.features.ingest import ask_model
from holdfast.features.ingest import store as ingests
from holdfast.features.ingest.ingest_report import MissingMemory, Report, Source
from holdfast.features.ingest.pipeline import Pipeline
from holdfast.features.ingest.store import IngestRecord, Outcome
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Session


def report_unchanged(ctx: Context, source: Source, pipeline: Pipeline, id: str, dry_run: bool) -> Report | None:
    """Report on a document that was ingested before with this pipeline; None if it is new or changed."""
    with ctx.reading() as session:
        record = find_latest_record(ctx, session, source, id)
        if record is None:
            return None
        outcomes = ingests.list_outcomes(session, id)
        statuses = ingests.get_statuses(session, ctx.caller, list_memory_ids(outcomes), ctx.now())
    dead = [one for one in outcomes if one.memory and not (one.memory in statuses and statuses[one.memory].is_live)]
    missing = {
        one.memory: MissingMemory(one.memory, _find_title(statuses, one.memory), one.place)
        for one in dead
        if one.memory
    }
    notes = ["Unchanged since it was last ingested: nothing was done."]
    if missing:
        notes.append(f"{len(missing)} of its memories were deleted or archived since; --again stores them again.")
    return Report(
        source, pipeline, record.content_hash, True, dry_run, record.document, outcomes,
        map_titles(statuses, outcomes), [], [*missing.values()], record.stages, notes,
    )  # fmt: skip


def find_latest_record(ctx: Context, session: Session, source: Source, id: str) -> IngestRecord | None:
    """Find the record of a document, unless its source changed since."""
    record = ingests.INGESTS.get(session, id)
    last = ingests.list_previous(session, source.uri, source.namespace, ctx.caller.agent, limit=1)
    return record if record and last[0].content_hash == record.content_hash else None


def list_memory_ids(outcomes: Iterable[Outcome]) -> list[str]:
    return list(dict.fromkeys(one.memory for one in outcomes if one.memory))


def map_titles(kept: dict[str, ingests.MemoryStatus], outcomes: Iterable[Outcome]) -> dict[int, str]:
    """Map each segment to the title of the memory that holds its text."""
    return {one.place: kept[one.memory].title for one in outcomes if one.memory in kept}


def _find_title(kept: dict[str, ingests.MemoryStatus], memory: str) -> str | None:
    return kept[memory].title if memory in kept else None


def find_vanished(
    ctx: Context, write: Transaction, source: Source, previous: Sequence[Outcome], outcomes: Iterable[Outcome]
) -> list[MissingMemory]:
    """Find memories from the last ingest whose text is neither in the document nor replaced."""
    mentioned = {id for one in outcomes for id in (one.memory, one.other) if id}
    stored = [one for one in previous if one.memory and one.decision in (*ask_model.STORED_DECISIONS, "duplicate")]
    stays = _UnchangedSpans(previous, {one.digest for one in outcomes})
    candidates = [one for one in stored if one.kind != "claim" or not stays(one.begins, one.ends)]
    found = {one.memory: one for one in candidates if one.memory not in mentioned}
    there = memories.by_ids(write.session, ctx.caller, [id for id in found if id], write.now)
    own = {id: one for id, one in there.items() if one.source_uri == source.uri}
    return [MissingMemory(id, own[id].title, one.place) for id, one in found.items() if id in own]


class _UnchangedSpans:
    """Tell whether a document still contains every paragraph of a span of its earlier version.

    If so, the model's sentences about that span remain valid: it is not asked again about unchanged parts.
    """

    def __init__(self, before: Sequence[Outcome], digests: Container[str]) -> None:
        changed = [one.begins for one in before if one.kind != "claim" and one.digest not in digests]
        self._changed = sorted(changed)

    def __call__(self, begins: int, ends: int) -> bool:
        return bisect_left(self._changed, begins) == bisect_left(self._changed, ends)

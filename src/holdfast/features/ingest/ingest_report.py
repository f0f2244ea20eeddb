"""Report of an ingest: the decision about each segment, each stage, and what changed since the previous ingest."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.ingest import ask_model, helpers
from holdfast.features.ingest import store as ingests
from holdfast.features.ingest.pipeline import (
    CandidateStage,
    HelperStage,
    ModelStage,
    Pipeline,
    SegmentStage,
    stage_name,
)
from holdfast.features.ingest.plan import REASON_GONE, REASON_KNOWN, Judgement
from holdfast.features.ingest.store import IngestRecord, Outcome
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.fields import Named
from holdfast.kernel.records.memory import Scope
from holdfast.kernel.storage.port import Session


class Source(NamedTuple):
    """A document to ingest."""

    text: str
    namespace: str
    uri: str
    name: str | None = None
    """Title, if the document has none."""
    tags: tuple[str, ...] = ()
    scope: Scope | None = None


class MissingSegment(Struct, frozen=True):
    """A memory of this source that is no longer live, or whose text is no longer in the document."""

    memory: Annotated[str, Named("memory_id")]
    place: Annotated[int, Named("index")]
    title: str | None = None


class Report(NamedTuple):
    """Result of ingesting a document."""

    source: Source
    pipeline: Pipeline
    content_hash: str
    is_known: bool
    """The document was ingested before; nothing was done."""
    dry_run: bool
    document: str | None
    outcomes: Collection[Outcome]
    titles: Mapping[int, str]
    """Per segment: title of the memory that holds its text, or would."""
    vanished: list[MissingSegment]
    """Memories of this source whose text is no longer in the document."""
    gone: list[MissingSegment]
    """Memories of this document that were deleted or archived since."""
    stages: list[dict[str, Any]]
    notes: list[str]
    parts: int = 0
    """Number of parts a model was asked about."""
    helper_results: Mapping[int, Sequence[helpers.HelperOutput]] = {}
    """Helper results for the first segments; returned once and not stored."""
    is_cache_consistent: bool = True
    """Whether all prompts about a part share a prefix, so that a provider can cache it."""

    @property
    def current_outcomes(self) -> Iterable[Outcome]:
        """Decisions to report: for an unchanged document, stored segments are duplicates."""
        missing = {one.memory for one in self.gone}
        return (_as_duplicate(one, missing) for one in self.outcomes) if self.is_known else self.outcomes

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.decision for one in self.current_outcomes)

    @property
    def stored_ids(self) -> list[str]:
        """Ids of the memories made from the document."""
        return [one.memory for one in self.outcomes if one.memory and one.decision in ask_model.STORED_DECISIONS]


def _as_duplicate(one: Outcome, gone: Container[str]) -> Outcome:
    """Report a stored segment as a duplicate, because its document was ingested again."""
    if one.decision not in ask_model.STORED_DECISIONS:
        return one
    return replace(one, decision="duplicate", reason=REASON_GONE if one.memory in gone else REASON_KNOWN)


def build_stage_reports(
    pipeline: Pipeline, judged: Collection[Judgement], counts: Counter[str], parts: Sequence[ask_model.Part]
) -> list[dict[str, Any]]:
    """Build the report row of each stage."""
    found = []
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage, ModelStage):
            found.append(ask_model.build_stage_report(index, stage, parts))
            continue
        summary, payload = _summarise_stage(stage, judged, counts)
        found.append(
            {
                "index": index,
                "type": "helper" if isinstance(stage, HelperStage) else stage_name(stage),
                "name": stage_name(stage),
                "summary": summary,
                "method": "heuristic",
                "payload": payload,
            }
        )
    return found


def _summarise_stage(
    stage: SegmentStage | CandidateStage | HelperStage, judged: Collection[Judgement], counts: Counter[str]
) -> tuple[str, dict[str, Any]]:
    """Summarise a deterministic stage over all pieces."""
    match stage:
        case SegmentStage():
            return f"{len(judged)} segment{'s' * (len(judged) != 1)}", {"segments": len(judged)}
        case CandidateStage():
            like = sum(one.other is not None for one in judged)
            return f"{like} of {len(judged)} segments resemble a memory", {"segments": len(judged), "like": like}
        case HelperStage(kind="fts_classifier", params=params) if params.compat:
            kinds = Counter(helpers.classify_literally(one.piece.text) for one in judged)
            summary = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
            return summary, {"helper": stage.kind, "fact_kind": kinds.most_common(1)[0][0], "fact_kinds": kinds}
        case HelperStage(kind="fts_classifier"):
            kinds = Counter(one.piece.classified.fact_kind for one in judged)
            weak = sum(one.piece.classified.weak for one in judged)
            summary = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
            payload: dict[str, Any] = {
                "helper": stage.kind,
                "fact_kind": kinds.most_common(1)[0][0],
                "fact_kinds": kinds,
            }
            return f"{summary}; {weak} of them weak", payload | {"weak": weak}
        case HelperStage(kind="jaccard_overlap"):
            scored, above = counts["jaccard_scored"], counts["jaccard_above"]
            payload = {"helper": stage.kind, "candidates_scored": scored, "candidates_above": above}
            return f"{above} of {scored} candidates overlap by {helpers.MIN_OVERLAP:.2f}", payload
        case _:
            scored, passed = counts["cosine_scored"], counts["cosine_kept"]
            payload = {
                "helper": stage.kind,
                "threshold": stage.params.cosine_threshold,
                "candidates_scored": scored,
                "candidates_kept": passed,
                "candidates_without_score": counts["cosine_without"],
            }
            return f"{passed}/{scored} candidates kept at {stage.params.cosine_threshold:.2f}", payload


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
        one.memory: MissingSegment(
            one.memory, one.place, statuses[one.memory].title if one.memory in statuses else None
        )
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


def find_vanished(
    ctx: Context, write: Transaction, source: Source, previous: Sequence[Outcome], outcomes: Iterable[Outcome]
) -> list[MissingSegment]:
    """Find memories from the last ingest whose text is neither in the document nor replaced."""
    mentioned = {id for one in outcomes for id in (one.memory, one.other) if id}
    stored = [one for one in previous if one.memory and one.decision in (*ask_model.STORED_DECISIONS, "duplicate")]
    stays = _UnchangedSpans(previous, {one.digest for one in outcomes})
    candidates = [one for one in stored if one.kind != "claim" or not stays(one.begins, one.ends)]
    found = {one.memory: one for one in candidates if one.memory not in mentioned}
    there = memories.by_ids(write.session, ctx.caller, [id for id in found if id], write.now)
    own = {id: one for id, one in there.items() if one.source_uri == source.uri}
    return [MissingSegment(id, one.place, own[id].title) for id, one in found.items() if id in own]


class _UnchangedSpans:
    """Tell whether a document still contains every paragraph of a span of its earlier version.

    If so, the model's sentences about that span remain valid: it is not asked again about unchanged parts.
    """

    def __init__(self, before: Sequence[Outcome], digests: Container[str]) -> None:
        changed = [one.begins for one in before if one.kind != "claim" and one.digest not in digests]
        self._changed = sorted(changed)

    def __call__(self, begins: int, ends: int) -> bool:
        return bisect_left(self._changed, begins) == bisect_left(self._changed, ends)

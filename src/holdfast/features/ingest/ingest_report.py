"""Result of an ingest: the source, the decision about each segment, and a report of each stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.ingest import ask_model, helpers
from holdfast.features.ingest.pipeline import (
    CandidateStage,
    HelperStage,
    ModelStage,
    Pipeline,
    SegmentStage,
    stage_name,
)
from holdfast.features.ingest.plan import REASON_GONE, REASON_KNOWN, Judgement
from holdfast.features.ingest.store import Outcome
from holdfast.kernel.records.memory import Scope


class Source(NamedTuple):
    """A document to ingest."""

    text: str
    namespace: str
    uri: str
    name: str | None = None
    """Title, if the document has none."""
    tags: tuple[str, ...] = ()
    scope: Scope | None = None


class MissingMemory(NamedTuple):
    """A memory of this source that is no longer live, or whose text is no longer in the document."""

    memory: str
    title: str | None
    place: int


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
    vanished: list[MissingMemory]
    """Memories of this source whose text is no longer in the document."""
    gone: list[MissingMemory]
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

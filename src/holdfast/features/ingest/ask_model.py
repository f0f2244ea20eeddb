"""Model stages of a pipeline: ask about a document part by part, and apply the answers.

Each stage sees the results of earlier stages. Answers are validated and can only add: titles, tags, kinds, and
sentences, which are then deduplicated like any other segment.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.features.ingest import helpers
from holdfast.features.ingest.helpers import FactKind, HelperOutput
from holdfast.features.ingest.pipeline import HelperStage, ModelStage, Pipeline, stage_answer_type
from holdfast.features.ingest.plan import Judgement, PlanFindings
from holdfast.features.ingest.split_document import Piece, extract_lead, hash_text
from holdfast.features.llm.client import Material, ModelAnswer, NoAnswer, Task, ask_model
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate
from holdfast.kernel.text.similarity import compare

PART_LENGTH = 6000
"""Characters of a document per model call."""
STORED_DECISIONS = ("new", "update", "conflict")
"""Decisions that store a segment. Models are asked only about parts that contain one."""

Answer = dict[str, Any]


class ModelReply(NamedTuple):
    """The answer of one stage about one part."""

    answer: Answer | None
    model: str | None
    cached: bool
    reason: str | None
    """Why there is no answer."""


class Part(NamedTuple):
    """Consecutive pieces, and the answer of each stage about them."""

    pieces: list[Judgement]
    replies: dict[int, ModelReply]
    keys: set[str]
    """Digests of the prompt prefixes; a single one means that the provider's prompt cache can be used."""


def ask_stages(
    ctx: Context, pipeline: Pipeline, judgements: Collection[Judgement], findings: PlanFindings
) -> list[Part]:
    """Ask every model stage about every part that contains something to store."""
    if not pipeline.asks_model:
        return []
    parts = [part for part in _split_parts(judgements) if any(one.decision in STORED_DECISIONS for one in part)]
    found = []
    for number, pieces in enumerate(parts):
        ctx.progress(number, len(parts), "asking a model")
        found.append(_ask_about_part(ctx, pipeline, pieces, findings))
    return found


def _split_parts(judgements: Iterable[Judgement]) -> Iterator[list[Judgement]]:
    part: list[Judgement] = []
    size = 0
    for one in judgements:
        if part and size + len(one.piece.text) > PART_LENGTH:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one.piece.text)
    if part:
        yield part


def _ask_about_part(ctx: Context, pipeline: Pipeline, pieces: list[Judgement], findings: PlanFindings) -> Part:
    part = Part(pieces, {}, set())
    document = Material("document", "\n\n".join(one.piece.text for one in pieces))
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage, ModelStage):
            part.keys.add(sha256(document.text.encode("utf-8", "replace")).hexdigest())
            part.replies[index] = _ask_stage(
                ctx, pipeline, index, stage, [document, *_list_earlier_results(pipeline, index, part, findings)]
            )
    return part


def _ask_stage(
    ctx: Context, pipeline: Pipeline, index: int, stage: ModelStage, material: Sequence[Material]
) -> ModelReply:
    instructions = f"{pipeline.system_prompt}\n\n{stage.prompt_template}".strip()
    task = Task(f"ingest {stage.label}", instructions, stage_answer_type(stage, f"stages[{index}]"))
    match ask_model(ctx, task, material):
        case ModelAnswer(answer, model, cached):
            return ModelReply(msgspec.to_builtins(answer), model, cached, None)
        case NoAnswer(reason):
            return ModelReply(None, None, False, reason)


def _list_earlier_results(pipeline: Pipeline, index: int, part: Part, findings: PlanFindings) -> Iterator[Material]:
    """List results of earlier stages: our own as trusted material, a model's as untrusted."""
    for one in pipeline.list_inputs(index):
        stage = pipeline.stages[one.stage_index]
        if isinstance(stage, HelperStage):
            yield Material(one.label, _encode_json(_list_helper_results(stage, part, findings)), trusted=True)
        elif (reply := part.replies.get(one.stage_index)) and reply.answer is not None:
            yield Material(one.label, _encode_json(reply.answer))


def _list_helper_results(stage: HelperStage, part: Part, findings: PlanFindings) -> list[Answer]:
    """List a helper's results for each piece without any quoted text, which would be untrusted."""
    found = []
    for number, one in enumerate(part.pieces):
        payload = run_helper(stage, one.piece, findings).payload
        rows = payload.get("top_candidates") or payload.get("candidates") or ()
        for row in rows:
            row.pop("preview", None)
        payload.pop("evidence", None)
        found.append({"paragraph": number + 1, **payload})
    return found


def run_helper(stage: HelperStage, piece: Piece, findings: PlanFindings) -> HelperOutput:
    """Run a helper on a piece."""
    compat = stage.params.compat
    match stage.kind:
        case "fts_classifier":
            return helpers.fts_classifier(piece.text, namespace=findings.namespace, compat=compat)
        case "jaccard_overlap":
            return helpers.jaccard_overlap(piece.text, findings.candidates.get(piece.place, []), compat=compat)
        case _:
            scored = findings.cosines.get(piece.place, [])
            return helpers.build_pre_filter(scored, threshold=stage.params.cosine_threshold, compat=compat)


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# Apply the answers


class ModelAdditions(NamedTuple):
    """What the model's answers add to a document."""

    judgements: Collection[Judgement]
    """The pieces, with tags and kinds from the model."""
    new_pieces: list[Piece]
    """Sentences written by the model, to be judged like any piece."""
    repetitions: list[Judgement]
    """Sentences that only repeat a piece."""
    title: str | None
    summary: str | None
    model: str | None


def apply_answers(judgements: Collection[Judgement], parts: Sequence[Part]) -> ModelAdditions:
    """Apply the model's answers to the pieces, and collect its title, summary and new sentences."""
    if not parts:
        return ModelAdditions(judgements, [], [], None, None, None)
    by_place = {one.piece.place: one for one in judgements}
    further: list[Piece] = []
    repetitions: list[Judgement] = []
    titles: list[str] = []
    summaries: list[str] = []
    models: list[str] = []
    place = len(judgements)
    for part in parts:
        model = next((one.model for one in part.replies.values() if one.model), None)
        if model is None:
            continue
        models.append(model)
        answers = [one.answer for one in part.replies.values() if one.answer is not None]
        tags, kind = _collect_tags(answers), _find_fact_kind(answers)
        for one in part.pieces:
            by_place[one.piece.place] = one._replace(piece=_enrich_piece(one.piece, tags, kind, model))
        titles += _collect_texts(answers, "title")
        summaries += _collect_texts(answers, "summary")
        for text in dict.fromkeys([*_collect_lists(answers, "atoms"), *_collect_lists(answers, "claims")]):
            piece = _build_claim(place, text, part, tags, model)
            if piece is not None:
                place += 1
                again = _find_repetition(piece, part)
                repetitions += [again] if again else []
                further += [] if again else [piece]
    title, summary = next(iter(titles), None), "\n".join(summaries) or None
    return ModelAdditions(list(by_place.values()), further, repetitions, title, summary, next(iter(models), None))


def _enrich_piece(piece: Piece, tags: tuple[str, ...], kind: FactKind | None, model: str) -> Piece:
    """Add tags and a kind to a piece. Without either, the piece stays marked as heuristic."""
    if not tags and kind is None:
        return piece
    classified = piece.classified if kind is None else replace(piece.classified, fact_kind=kind, weak=False)
    return piece._replace(tags=tags, classified=classified, method="llm", model=model)


def _build_claim(place: int, text: str, part: Part, tags: tuple[str, ...], model: str) -> Piece | None:
    """Build a piece from a sentence that the model wrote; its span is the part it came from."""
    try:
        text = validate.content(text.strip())
    except Invalid:
        return None
    first, last = part.pieces[0].piece, part.pieces[-1].piece
    title = extract_lead(text) or f"claim, line {first.line}"
    classification = helpers.classified(text)
    return Piece(
        place,
        title,
        text,
        hash_text(text),
        "claim",
        (),
        first.line,
        first.begins,
        last.ends,
        classification,
        "llm",
        model,
        tags,
    )


def _find_repetition(piece: Piece, part: Part) -> Judgement | None:
    for one in part.pieces:
        relation = compare(one.piece.text, piece.text).relation
        if relation in ("same", "near"):
            decision = "duplicate" if relation == "same" else "near-duplicate"
            return Judgement(piece, decision, "repeats a paragraph of the document", repeats=one.piece.place)  # type: ignore[arg-type]
    return None


def _collect_tags(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Collect valid tags; invalid ones are dropped."""
    found: list[str] = []
    for tag in _collect_lists(answers, "tags"):
        try:
            found += validate.tags([tag.strip().lower()])
        except Invalid:
            continue
    return tuple(dict.fromkeys(found))[:8]


def _find_fact_kind(answers: Sequence[Answer]) -> FactKind | None:
    known = ("procedural", "episodic", "declarative")
    return next((one["fact_kind"] for one in answers if one.get("fact_kind") in known), None)


def _collect_texts(answers: Sequence[Answer], name: str) -> list[str]:
    return [one[name] for one in answers if isinstance(one.get(name), str) and one[name].strip()]


def _collect_lists(answers: Sequence[Answer], name: str) -> list[str]:
    return [text for one in answers for text in one.get(name) or () if isinstance(text, str) and text.strip()]


# Report


def build_stage_report(index: int, stage: ModelStage, parts: Sequence[Part]) -> dict[str, Any]:
    """Build the report row of a model stage."""
    replies = [part.replies[index] for part in parts]
    answers = [one.answer for one in replies if one.answer is not None]
    cached = sum(one.cached for one in replies)
    reasons = list(dict.fromkeys(one.reason for one in replies if one.reason))
    summary = f"{len(answers)} of {len(replies)} parts answered, {cached} from cache"
    row: dict[str, Any] = {
        "index": index,
        "type": "llm_call",
        "name": stage.label,
        "summary": summary,
        "method": "llm" if answers else "heuristic",
        "payload": answers[0] if len(answers) == 1 else {"parts": answers},
    }
    if model := next((one.model for one in replies if one.model), None):
        row["model"] = model
    if reasons:
        row["reason"] = "; ".join(reasons)
    return row

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
from holdfast.features.ingest.pipeline import Asking, Helping, Pipeline, answer_of
from holdfast.features.ingest.plan import Judged, Piece, Seen, digest, lead_of
from holdfast.features.llm.client import Consulted, Material, Task, Unhelped, consult
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate as door
from holdfast.kernel.text.similarity import compare

PART = 6000
"""Characters of a document per model call."""
KEPT = ("new", "update", "conflict")
"""Decisions that store a segment. Models are asked only about parts that contain one."""

Answer = dict[str, Any]


class Said(NamedTuple):
    """The answer of one stage about one part."""

    answer: Answer | None
    model: str | None
    cached: bool
    reason: str | None
    """Why there is no answer."""


class Part(NamedTuple):
    """Consecutive pieces, and the answer of each stage about them."""

    pieces: list[Judged]
    said: dict[int, Said]
    keys: set[str]
    """Digests of the prompt prefixes; a single one means that the provider's prompt cache can be used."""


def asked(hold: Hold, pipeline: Pipeline, judged: Collection[Judged], seen: Seen) -> list[Part]:
    """Ask every model stage about every part that contains something to store."""
    if not pipeline.asking:
        return []
    parts = [part for part in _parts(judged) if any(one.decision in KEPT for one in part)]
    found = []
    for number, pieces in enumerate(parts):
        hold.progress(number, len(parts), "asking a model")
        found.append(_asked(hold, pipeline, pieces, seen))
    return found


def _parts(judged: Iterable[Judged]) -> Iterator[list[Judged]]:
    part: list[Judged] = []
    size = 0
    for one in judged:
        if part and size + len(one.piece.text) > PART:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one.piece.text)
    if part:
        yield part


def _asked(hold: Hold, pipeline: Pipeline, pieces: list[Judged], seen: Seen) -> Part:
    part = Part(pieces, {}, set())
    document = Material("document", "\n\n".join(one.piece.text for one in pieces))
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage, Asking):
            part.keys.add(sha256(document.text.encode("utf-8", "replace")).hexdigest())
            part.said[index] = _said(hold, pipeline, index, stage, [document, *_shown(pipeline, index, part, seen)])
    return part


def _said(hold: Hold, pipeline: Pipeline, index: int, stage: Asking, material: Sequence[Material]) -> Said:
    instructions = f"{pipeline.system_prompt}\n\n{stage.prompt_template}".strip()
    task = Task(f"ingest {stage.label}", instructions, answer_of(stage, f"stages[{index}]"))
    match consult(hold, task, material):
        case Consulted(answer, model, cached):
            return Said(msgspec.to_builtins(answer), model, cached, None)
        case Unhelped(reason):
            return Said(None, None, False, reason)


def _shown(pipeline: Pipeline, index: int, part: Part, seen: Seen) -> Iterator[Material]:
    """List results of earlier stages: our own as trusted material, a model's as untrusted."""
    for one in pipeline.shown_to(index):
        stage = pipeline.stages[one.stage_index]
        if isinstance(stage, Helping):
            yield Material(one.label, _json(_computed(stage, part, seen)), trusted=True)
        elif (reply := part.said.get(one.stage_index)) and reply.answer is not None:
            yield Material(one.label, _json(reply.answer))


def _computed(stage: Helping, part: Part, seen: Seen) -> list[Answer]:
    """List a helper's results for each piece without any quoted text, which would be untrusted."""
    found = []
    for number, one in enumerate(part.pieces):
        payload = helped(stage, one.piece, seen).payload
        rows = payload.get("top_candidates") or payload.get("candidates") or ()
        for row in rows:
            row.pop("preview", None)
        payload.pop("evidence", None)
        found.append({"paragraph": number + 1, **payload})
    return found


def helped(stage: Helping, piece: Piece, seen: Seen) -> HelperOutput:
    """Run a helper on a piece."""
    compat = stage.params.compat
    match stage.kind:
        case "fts_classifier":
            return helpers.fts_classifier(piece.text, namespace=seen.namespace, compat=compat)
        case "jaccard_overlap":
            return helpers.jaccard_overlap(piece.text, seen.near.get(piece.place, []), compat=compat)
        case _:
            scored = seen.cosines.get(piece.place, [])
            return helpers.pre_filtered(scored, threshold=stage.params.cosine_threshold, compat=compat)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# Apply the answers


class Added(NamedTuple):
    """What the model's answers add to a document."""

    judged: Collection[Judged]
    """The pieces, with tags and kinds from the model."""
    further: list[Piece]
    """Sentences written by the model, to be judged like any piece."""
    repeated: list[Judged]
    """Sentences that only repeat a piece."""
    title: str | None
    summary: str | None
    model: str | None


def added(judged: Collection[Judged], parts: Sequence[Part]) -> Added:
    """Apply the model's answers to the pieces, and collect its title, summary and new sentences."""
    if not parts:
        return Added(judged, [], [], None, None, None)
    by_place = {one.piece.place: one for one in judged}
    further: list[Piece] = []
    repetitions: list[Judged] = []
    titles: list[str] = []
    summaries: list[str] = []
    models: list[str] = []
    place = len(judged)
    for part in parts:
        model = next((one.model for one in part.said.values() if one.model), None)
        if model is None:
            continue
        models.append(model)
        answers = [one.answer for one in part.said.values() if one.answer is not None]
        tags, kind = _tags(answers), _fact_kind(answers)
        for one in part.pieces:
            by_place[one.piece.place] = one._replace(piece=_enriched(one.piece, tags, kind, model))
        titles += _texts(answers, "title")
        summaries += _texts(answers, "summary")
        for text in dict.fromkeys([*_lists(answers, "atoms"), *_lists(answers, "claims")]):
            piece = _sentence(place, text, part, tags, model)
            if piece is not None:
                place += 1
                again = _says_again(piece, part)
                repetitions += [again] if again else []
                further += [] if again else [piece]
    title, summary = next(iter(titles), None), "\n".join(summaries) or None
    return Added(list(by_place.values()), further, repetitions, title, summary, next(iter(models), None))


def _enriched(piece: Piece, tags: tuple[str, ...], kind: FactKind | None, model: str) -> Piece:
    """Add tags and a kind to a piece. Without either, the piece stays marked as heuristic."""
    if not tags and kind is None:
        return piece
    classified = piece.classified if kind is None else replace(piece.classified, fact_kind=kind, weak=False)
    return piece._replace(tags=tags, classified=classified, method="llm", model=model)


def _sentence(place: int, text: str, part: Part, tags: tuple[str, ...], model: str) -> Piece | None:
    """Build a piece from a sentence that the model wrote; its span is the part it came from."""
    try:
        text = door.content(text.strip())
    except Invalid:
        return None
    first, last = part.pieces[0].piece, part.pieces[-1].piece
    title = lead_of(text) or f"claim, line {first.line}"
    classification = helpers.classified(text)
    return Piece(
        place,
        title,
        text,
        digest(text),
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


def _says_again(piece: Piece, part: Part) -> Judged | None:
    for one in part.pieces:
        relation = compare(one.piece.text, piece.text).relation
        if relation in ("same", "near"):
            decision = "duplicate" if relation == "same" else "near-duplicate"
            return Judged(piece, decision, "repeats a paragraph of the document", repeats=one.piece.place)  # type: ignore[arg-type]
    return None


def _tags(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Collect valid tags; invalid ones are dropped."""
    found: list[str] = []
    for tag in _lists(answers, "tags"):
        try:
            found += door.tags([tag.strip().lower()])
        except Invalid:
            continue
    return tuple(dict.fromkeys(found))[:8]


def _fact_kind(answers: Sequence[Answer]) -> FactKind | None:
    known = ("procedural", "episodic", "declarative")
    return next((one["fact_kind"] for one in answers if one.get("fact_kind") in known), None)


def _texts(answers: Sequence[Answer], name: str) -> list[str]:
    return [one[name] for one in answers if isinstance(one.get(name), str) and one[name].strip()]


def _lists(answers: Sequence[Answer], name: str) -> list[str]:
    return [text for one in answers for text in one.get(name) or () if isinstance(text, str) and text.strip()]


# Report


def stage_of(index: int, stage: Asking, parts: Sequence[Part]) -> dict[str, Any]:
    """Build the report row of a model stage."""
    replies = [part.said[index] for part in parts]
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

"""What a model adds to a document: asked part by part, stage after stage, each stage shown what those before it found.

Whatever it answers is checked before it comes here, and only adds: titles, tags, kinds, and sentences that must still
prove to be new.
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
"""Characters of a document that a model is asked about together."""
KEPT = ("new", "update", "conflict")
"""What is asked about: of a text that is kept already a model need not be paid for."""

Answer = dict[str, Any]


class Said(NamedTuple):
    """What a stage came to for one part."""

    answer: Answer | None
    model: str | None
    cached: bool
    reason: str | None
    """Why there is no answer."""


class Part(NamedTuple):
    """Pieces that stand one after another, and what each stage said of them."""

    pieces: list[Judged]
    said: dict[int, Said]
    keys: set[str]
    """Digests of what the questions about it begin with: one, if a provider can keep it between them."""


def asked(hold: Hold, pipeline: Pipeline, judged: Collection[Judged], seen: Seen) -> list[Part]:
    """Ask every stage about every part in which something is to be kept."""
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
    """What earlier stages found: what we computed as such, what a model said as something that others wrote."""
    for one in pipeline.shown_to(index):
        stage = pipeline.stages[one.stage_index]
        if isinstance(stage, Helping):
            yield Material(one.label, _json(_computed(stage, part, seen)), trusted=True)
        elif (said := part.said.get(one.stage_index)) and said.answer is not None:
            yield Material(one.label, _json(said.answer))


def _computed(stage: Helping, part: Part, seen: Seen) -> list[Answer]:
    """A helper's results for each piece, without a word of any text: those words are not ours."""
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
    """What a helper says of a piece."""
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


# What the answers are used for


class Added(NamedTuple):
    """What a model's answers come to."""

    judged: Collection[Judged]
    """The pieces, with tags and kinds that it gave."""
    further: list[Piece]
    """Sentences of its own, to be judged like any piece."""
    repeated: list[Judged]
    """Sentences that only say again what a piece says."""
    title: str | None
    summary: str | None
    model: str | None


def added(judged: Collection[Judged], parts: Sequence[Part]) -> Added:
    """The pieces with what the model said of them, and what it said besides."""
    if not parts:
        return Added(judged, [], [], None, None, None)
    by_place = {one.piece.place: one for one in judged}
    further: list[Piece] = []
    repeated: list[Judged] = []
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
                repeated += [again] if again else []
                further += [] if again else [piece]
    title, summary = next(iter(titles), None), "\n".join(summaries) or None
    return Added(list(by_place.values()), further, repeated, title, summary, next(iter(models), None))


def _enriched(piece: Piece, tags: tuple[str, ...], kind: FactKind | None, model: str) -> Piece:
    """A piece with tags and a kind; one to which a model added nothing is still nobody's but ours."""
    if not tags and kind is None:
        return piece
    classified = piece.classified if kind is None else replace(piece.classified, fact_kind=kind, weak=False)
    return piece._replace(tags=tags, classified=classified, method="llm", model=model)


def _sentence(place: int, text: str, part: Part, tags: tuple[str, ...], model: str) -> Piece | None:
    """A sentence that the model wrote, as a piece; its span is the part that it was written from."""
    try:
        text = door.content(text.strip())
    except Invalid:
        return None
    first, last = part.pieces[0].piece, part.pieces[-1].piece
    title = lead_of(text) or f"claim, line {first.line}"
    said = helpers.classified(text)
    return Piece(
        place, title, text, digest(text), "claim", (), first.line, first.begins, last.ends, said, "llm", model, tags
    )


def _says_again(piece: Piece, part: Part) -> Judged | None:
    for one in part.pieces:
        relation = compare(one.piece.text, piece.text).relation
        if relation in ("same", "near"):
            decision = "duplicate" if relation == "same" else "near-duplicate"
            return Judged(piece, decision, "a paragraph of the document says it", repeats=one.piece.place)  # type: ignore[arg-type]
    return None


def _tags(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Tags that can be kept; a model's slips are left out."""
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


# What is reported


def stage_of(index: int, stage: Asking, parts: Sequence[Part]) -> dict[str, Any]:
    """What became of a stage, for the report."""
    said = [part.said[index] for part in parts]
    answers = [one.answer for one in said if one.answer is not None]
    cached = sum(one.cached for one in said)
    reasons = list(dict.fromkeys(one.reason for one in said if one.reason))
    summary = f"{len(answers)} of {len(said)} parts answered, {cached} from before"
    row: dict[str, Any] = {
        "index": index,
        "type": "llm_call",
        "name": stage.label,
        "summary": summary,
        "method": "llm" if answers else "heuristic",
        "payload": answers[0] if len(answers) == 1 else {"parts": answers},
    }
    if model := next((one.model for one in said if one.model), None):
        row["model"] = model
    if reasons:
        row["reason"] = "; ".join(reasons)
    return row

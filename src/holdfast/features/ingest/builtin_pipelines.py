"""The built-in pipelines."""

from functools import cache
from typing import Any

from holdfast.features.ingest.answer_schema import MAX_TEXT_LENGTH
from holdfast.features.ingest.pipeline import CandidateStage, HelperStage, ModelStage, Pipeline, SegmentStage, Stage


def _text_schema(most: int = MAX_TEXT_LENGTH) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def _list_schema(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most}


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


_TAGS = _list_schema(_text_schema(64), 8)
_ATOMS = _list_schema(_text_schema(1000), 24)
_SYSTEM = "You prepare parts of a document for a memory. Use only what the document says. Write in its language."
_BASE_STAGES: list[Stage] = [
    SegmentStage(),
    CandidateStage(),
    HelperStage(kind="fts_classifier"),
    HelperStage(kind="jaccard_overlap"),
    HelperStage(kind="cosine_pre_filter"),
]


@cache
def list_builtin_pipelines() -> dict[str, Pipeline]:
    """Return the built-in pipelines by name, the default first."""
    synthesise = ModelStage(
        label="synthesise",
        prompt_template=(
            "Give a title for this part of the document, a summary of it in one to three sentences, and up to eight "
            "tags. As atoms, give each fact that no single paragraph says in so many words, as one sentence that can "
            "be understood by itself; leave the list empty if there is none."
        ),
        output_schema=_object_schema(
            {"title": _text_schema(200), "summary": _text_schema(1000), "tags": _TAGS, "atoms": _ATOMS}
        ),
    )
    classify = ModelStage(
        label="classify",
        prompt_template="Say what kind of knowledge this part of the document mostly is, and how sure you are.",
        output_schema=_object_schema(
            {
                "fact_kind": {"enum": ["procedural", "episodic", "declarative"]},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            }
        ),
    )
    enrich = ModelStage(
        label="enrich",
        prompt_template=(
            "Name the people, places, things and projects in this part of the document; state its claims, each as one "
            "sentence that can be understood by itself; and say which of the named have to do with which, and how."
        ),
        output_schema=_object_schema(
            {
                "entities": _list_schema(_text_schema(200), 32),
                "claims": _ATOMS,
                "relations": _list_schema(
                    _object_schema(
                        {"subject": _text_schema(200), "relation": _text_schema(200), "object": _text_schema(200)}
                    ),
                    32,
                ),
            }
        ),
    )
    emit = ModelStage(
        label="emit",
        prompt_template=(
            "With what the stages before found, give a title for this part of the document, a summary of it in one to "
            "three sentences, up to eight tags, and the ids of the candidates that it should be linked to."
        ),
        output_schema=_object_schema(
            {
                "title": _text_schema(200),
                "summary": _text_schema(1000),
                "tags": _TAGS,
                "proposed_links": _list_schema(_text_schema(64), 10),
            }
        ),
    )
    return {
        one.name: one
        for one in (
            Pipeline(name="plain", stages=_BASE_STAGES, description="No model: deterministic."),
            Pipeline(
                name="two_phase",
                stages=[*_BASE_STAGES, synthesise],
                description="Adds one model call: title, summary, tags, and facts that span paragraphs.",
                system_prompt=_SYSTEM,
            ),
            Pipeline(
                name="four_step",
                stages=[*_BASE_STAGES, classify, enrich, emit],
                description="Adds three model calls: classify, extract entities and claims, then summarise.",
                system_prompt=_SYSTEM,
            ),
        )
    }

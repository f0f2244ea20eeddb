"""Ingest pipelines as data: the stages a document goes through before it is stored.

Deterministic stages always run. Model stages see the results of earlier stages and can only add; without a model the
other stages still run.
"""

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.features.ingest.helpers import MIN_COSINE
from holdfast.features.ingest.split_document import DEFAULT_LENGTH
from holdfast.kernel.errors import Invalid

MAX_ITEMS = 64
MAX_TEXT_LENGTH = 4000
MAX_PATTERN_LENGTH = 1000
MAX_DEPTH = 4

_types: dict[bytes, type[Struct]] = {}


def build_answer_type(schema: Any, where: str) -> type[Struct]:
    """Build the type of a schema. Raises an error that names the place in it.

    Cached per schema, because msgspec never frees a type once used.
    """
    type_ = _build_object(schema, where, 0)
    return _types.setdefault(msgspec.json.encode(schema, order="sorted"), type_)


def schema_error(where: str, what: str) -> Invalid:
    return Invalid(f"{where}: {what}", fields=[where])


def _build_type_name(where: str) -> str:
    """Name a type after its place, so that the types of one schema have distinct names."""
    return (
        "".join(part.capitalize() for part in re.findall(r"[A-Za-z0-9]+", where.partition("output_schema")[2]))
        or "Answer"
    )


def _build_object(schema: Any, where: str, depth: int) -> type[Struct]:
    if depth == MAX_DEPTH:
        raise schema_error(where, f"must be at most {MAX_DEPTH} levels deep")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties or schema.get("type", "object") != "object":
        raise schema_error(where, "must be a JSON Schema of an object with properties")
    if len(properties) > MAX_ITEMS:
        raise schema_error(where, f"must have at most {MAX_ITEMS} properties (got {len(properties)})")
    required = schema.get("required", [])
    if not isinstance(required, list) or not set(map(str, required)) <= set(properties):
        raise schema_error(f"{where}.required", "must be a list of property names")
    fields: list[Any] = []
    for name, property_schema in properties.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name):
            raise schema_error(
                f"{where}.properties.{name}", "the name must start with a letter and contain only letters, digits and _"
            )
        type_ = _build_type(property_schema, f"{where}.properties.{name}", depth + 1)
        fields.append((name, type_) if name in required else (name, type_ | None, None))
    return msgspec.defstruct(_build_type_name(where), fields, kw_only=True, frozen=True, omit_defaults=True)


def _build_type(schema: Any, where: str, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        raise schema_error(where, "must be a JSON Schema")
    if "enum" in schema:
        values = schema["enum"]
        if not isinstance(values, list) or not values or not all(isinstance(one, str) for one in values):
            raise schema_error(f"{where}.enum", "must be a non-empty list of strings")
        return Literal[tuple(values)]
    match schema.get("type"):
        case "string":
            _check_pattern(schema.get("pattern", ""), f"{where}.pattern")
            return Annotated[str, Meta(max_length=_read_limit(schema, "maxLength", MAX_TEXT_LENGTH, where))]
        case "number":
            return Annotated[float, _read_bounds(schema, where)]
        case "integer":
            return Annotated[int, _read_bounds(schema, where)]
        case "boolean":
            return bool
        case "array":
            most = _read_limit(schema, "maxItems", MAX_ITEMS, where)
            item = _build_type(schema.get("items"), f"{where}.items", depth)
            return Annotated[GenericAlias(list, (item,)), Meta(max_length=most)]
        case "object":
            return _build_object(schema, where, depth)
        case other:
            raise schema_error(
                f"{where}.type", f"must be string, number, integer, boolean, array or object (got {other!r})"
            )


def _check_pattern(pattern: Any, where: str) -> None:
    """Raise unless it is a regular expression. Answers are not matched with it: a pattern could backtrack forever."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_LENGTH:
        raise schema_error(where, f"must be a regular expression of at most {MAX_PATTERN_LENGTH} characters")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise schema_error(where, f"not a valid regular expression: {error}") from None


def _read_limit(schema: Mapping[str, Any], name: str, maximum: int, where: str) -> int:
    value = schema.get(name, maximum)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= maximum:
        raise schema_error(f"{where}.{name}", f"must be an integer from 1 to {maximum} (got {value!r})")
    return value


def _read_bounds(schema: Mapping[str, Any], where: str) -> Meta:
    given = {mark: schema[name] for name, mark in (("minimum", "ge"), ("maximum", "le")) if name in schema}
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in given.values()):
        raise schema_error(where, "minimum and maximum must be numbers")
    return Meta(**given)


RULES_VERSION = 1
"""Increase when the same pipeline would split or judge a document differently than before."""
MAX_BYTES = 262_144
MAX_STAGES = 16

Words = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_LENGTH)]
Label = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\w][\w .-]*$")]


class _Stage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    pass


class SegmentStage(_Stage, frozen=True, kw_only=True, tag="segment"):
    """Split the document into segments of at most `longest` characters; code blocks are kept whole."""

    longest: Annotated[int, Meta(ge=200, le=8000)] = DEFAULT_LENGTH


class CandidateStage(_Stage, frozen=True, kw_only=True, tag="candidates"):
    """Search the store for memories that a segment may repeat, by keywords and by embedding."""

    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    vectors: bool = True


class HelperParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    cosine_threshold: Annotated[float, Meta(ge=-1, le=1)] = MIN_COSINE
    compat: bool = False
    """Report exactly what ai-memory would. Does not affect what is stored."""


class HelperStage(_Stage, frozen=True, kw_only=True, tag="helper"):
    """Run a deterministic helper on each segment."""

    kind: Literal["fts_classifier", "jaccard_overlap", "cosine_pre_filter"]
    params: HelperParams = HelperParams()


class StageInput(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage whose result is passed to a later one, and its label there."""

    stage_index: Annotated[int, Meta(ge=0)]
    label: Label


class ModelStage(_Stage, frozen=True, kw_only=True, tag="llm_call"):
    """Ask a model about consecutive segments."""

    label: Label
    prompt_template: Words
    output_schema: dict[str, Any]
    trust_inputs: Annotated[list[StageInput], Meta(max_length=MAX_STAGES)] | None = None
    """Earlier stages whose results are passed on (default: all)."""


Stage = SegmentStage | CandidateStage | HelperStage | ModelStage


class Pipeline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An ordered list of stages."""

    name: Label
    stages: Annotated[list[Stage], Meta(min_length=1, max_length=MAX_STAGES)]
    description: Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)] = ""
    system_prompt: Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)] = ""
    """Instructions that precede every model prompt."""

    @property
    def version(self) -> str:
        """Return a digest of everything the result depends on; name and description do not count."""
        encoded = msgspec.json.encode([RULES_VERSION, self.stages, self.system_prompt], order="deterministic")
        return sha256(encoded).hexdigest()[:16]

    @property
    def segment_stage(self) -> SegmentStage:
        return next((one for one in self.stages if isinstance(one, SegmentStage)), SegmentStage())

    @property
    def candidate_stage(self) -> CandidateStage:
        return next((one for one in self.stages if isinstance(one, CandidateStage)), CandidateStage())

    @property
    def asks_model(self) -> bool:
        return any(isinstance(one, ModelStage) for one in self.stages)

    def list_inputs(self, index: int) -> list[StageInput]:
        """List the earlier stages whose results a model stage sees."""
        stage = self.stages[index]
        assert isinstance(stage, ModelStage)
        if stage.trust_inputs is not None:
            return stage.trust_inputs
        before = enumerate(self.stages[:index])
        return [
            StageInput(number, stage_name(one)) for number, one in before if isinstance(one, HelperStage | ModelStage)
        ]


def stage_name(stage: Stage) -> str:
    """Return the name of a stage."""
    match stage:
        case SegmentStage():
            return "segment"
        case CandidateStage():
            return "candidates"
        case HelperStage(kind=kind):
            return kind
        case ModelStage(label=label):
            return label


_PATH = re.compile(r" - at `\$\.?([^`]*)`$")


def parse_pipeline(data: Any, name: str | None = None) -> Pipeline:
    """Build a pipeline from parsed TOML or JSON. Errors name the stage and the field."""
    if not isinstance(data, dict):
        raise Invalid("pipeline: must be an object with stages", fields=["pipeline"])
    values = dict(data)
    if variant := values.pop("variant", None):
        values.setdefault("name", variant)
    values.setdefault("name", name or "own")
    try:
        found = msgspec.convert(values, Pipeline, strict=True)
    except RecursionError:
        raise Invalid("pipeline: nested too deeply", fields=["pipeline"]) from None
    except msgspec.ValidationError as error:
        where = _PATH.search(str(error))
        what = _PATH.sub("", str(error))
        raise schema_error(where[1] if where and where[1] else "pipeline", what) from None
    _check_stages(found)
    return found


def parse_pipeline_text(text: str, name: str | None = None) -> Pipeline:
    """Parse a pipeline file: JSON if it starts with a brace, else TOML."""
    if len(text.encode()) > MAX_BYTES:
        raise Invalid(f"pipeline must be at most {MAX_BYTES} bytes", fields=["pipeline"])
    try:
        if text.lstrip().startswith("{"):
            return parse_pipeline(msgspec.json.decode(text), name)
        return parse_pipeline(msgspec.toml.decode(text), name)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"pipeline: not valid TOML or JSON: {error}", fields=["pipeline"]) from None


def _check_stages(pipeline: Pipeline) -> None:
    """Check what the types cannot: unique stages, and inputs only from earlier stages."""
    for kind in (SegmentStage, CandidateStage):
        if sum(isinstance(one, kind) for one in pipeline.stages) > 1:
            raise schema_error("stages", f"must contain at most one stage of type {kind.__struct_config__.tag}")
    names: set[str] = set()
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage, HelperStage | ModelStage):
            if stage_name(stage) in names:
                raise schema_error(f"stages[{index}]", f"duplicate stage name {stage_name(stage)!r}")
            names.add(stage_name(stage))
        if isinstance(stage, ModelStage):
            _check_model_stage(pipeline, index, stage)


def _check_model_stage(pipeline: Pipeline, index: int, stage: ModelStage) -> None:
    where = f"stages[{index}]"
    for number, input_stage in enumerate(stage.trust_inputs or ()):
        if input_stage.stage_index >= index:
            what = f"must be an earlier stage than this one, {index} (got {input_stage.stage_index})"
            raise schema_error(f"{where}.trust_inputs[{number}].stage_index", what)
        if not isinstance(pipeline.stages[input_stage.stage_index], HelperStage | ModelStage):
            what = f"stage {input_stage.stage_index} has no result to pass on"
            raise schema_error(f"{where}.trust_inputs[{number}].stage_index", what)
    stage_answer_type(stage, where)


def stage_answer_type(stage: ModelStage, where: str = "stage") -> type[Struct]:
    """Build the type that the answer of a model stage must match."""
    return build_answer_type(stage.output_schema, f"{where}.output_schema")


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

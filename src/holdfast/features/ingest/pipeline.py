"""Ingest pipelines as data: the stages a document goes through before it is stored.

Deterministic stages always run. Model stages see the results of earlier stages and can only add; without a model the
other stages still run.
"""

import re
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.features.ingest.answer_schema import MAX_TEXT_LENGTH, build_answer_type, schema_error
from holdfast.features.ingest.helpers import MIN_COSINE
from holdfast.features.ingest.segment import DEFAULT_LENGTH
from holdfast.kernel.errors import Invalid

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

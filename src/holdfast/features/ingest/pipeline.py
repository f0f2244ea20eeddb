"""Ingest pipelines as data: the stages a document goes through before it is stored.

Deterministic stages always run. Model stages see the results of earlier stages and can only add; without a model the
other stages still run.
"""

import re
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.features.ingest.answer_schema import MOST_TEXT, answer_type, faulty
from holdfast.features.ingest.helpers import NEAR
from holdfast.features.ingest.segment import LONGEST
from holdfast.kernel.errors import Invalid

RULES = 1
"""Increase when the same pipeline would split or judge a document differently than before."""
MOST_BYTES = 262_144
MOST_STAGES = 16

Words = Annotated[str, Meta(min_length=1, max_length=MOST_TEXT)]
Label = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\w][\w .-]*$")]


class _Stage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    pass


class Segmenting(_Stage, frozen=True, kw_only=True, tag="segment"):
    """Split the document into segments of at most `longest` characters; code blocks are kept whole."""

    longest: Annotated[int, Meta(ge=200, le=8000)] = LONGEST


class Searching(_Stage, frozen=True, kw_only=True, tag="candidates"):
    """Search the store for memories that a segment may repeat, by keywords and by embedding."""

    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    vectors: bool = True


class HelperParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    cosine_threshold: Annotated[float, Meta(ge=-1, le=1)] = NEAR
    compat: bool = False
    """Report exactly what ai-memory would. Does not affect what is stored."""


class Helping(_Stage, frozen=True, kw_only=True, tag="helper"):
    """Run a deterministic helper on each segment."""

    kind: Literal["fts_classifier", "jaccard_overlap", "cosine_pre_filter"]
    params: HelperParams = HelperParams()


class Seen(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage whose result is passed to a later one, and its label there."""

    stage_index: Annotated[int, Meta(ge=0)]
    label: Label


class Asking(_Stage, frozen=True, kw_only=True, tag="llm_call"):
    """Ask a model about consecutive segments."""

    label: Label
    prompt_template: Words
    output_schema: dict[str, Any]
    trust_inputs: Annotated[list[Seen], Meta(max_length=MOST_STAGES)] | None = None
    """Earlier stages whose results are passed on (default: all)."""


Stage = Segmenting | Searching | Helping | Asking


class Pipeline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An ordered list of stages."""

    name: Label
    stages: Annotated[list[Stage], Meta(min_length=1, max_length=MOST_STAGES)]
    description: Annotated[str, Meta(max_length=MOST_TEXT)] = ""
    system_prompt: Annotated[str, Meta(max_length=MOST_TEXT)] = ""
    """Instructions that precede every model prompt."""

    @property
    def version(self) -> str:
        """Return a digest of everything the result depends on; name and description do not count."""
        encoded = msgspec.json.encode([RULES, self.stages, self.system_prompt], order="deterministic")
        return sha256(encoded).hexdigest()[:16]

    @property
    def segmenting(self) -> Segmenting:
        return next((one for one in self.stages if isinstance(one, Segmenting)), Segmenting())

    @property
    def searching(self) -> Searching:
        return next((one for one in self.stages if isinstance(one, Searching)), Searching())

    @property
    def asking(self) -> bool:
        return any(isinstance(one, Asking) for one in self.stages)

    def shown_to(self, index: int) -> list[Seen]:
        """List the earlier stages whose results a model stage sees."""
        stage = self.stages[index]
        assert isinstance(stage, Asking)
        if stage.trust_inputs is not None:
            return stage.trust_inputs
        before = enumerate(self.stages[:index])
        return [Seen(number, named(one)) for number, one in before if isinstance(one, Helping | Asking)]


def named(stage: Stage) -> str:
    """Return the name of a stage."""
    match stage:
        case Segmenting():
            return "segment"
        case Searching():
            return "candidates"
        case Helping(kind=kind):
            return kind
        case Asking(label=label):
            return label


_PATH = re.compile(r" - at `\$\.?([^`]*)`$")


def from_data(data: Any, name: str | None = None) -> Pipeline:
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
        raise faulty(where[1] if where and where[1] else "pipeline", what) from None
    _check(found)
    return found


def from_text(text: str, name: str | None = None) -> Pipeline:
    """Parse a pipeline file: JSON if it starts with a brace, else TOML."""
    if len(text.encode()) > MOST_BYTES:
        raise Invalid(f"pipeline must be at most {MOST_BYTES} bytes", fields=["pipeline"])
    try:
        if text.lstrip().startswith("{"):
            return from_data(msgspec.json.decode(text), name)
        import tomllib

        return from_data(tomllib.loads(text), name)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"pipeline: not valid TOML or JSON: {error}", fields=["pipeline"]) from None


def _check(pipeline: Pipeline) -> None:
    """Check what the types cannot: unique stages, and inputs only from earlier stages."""
    for kind in (Segmenting, Searching):
        if sum(isinstance(one, kind) for one in pipeline.stages) > 1:
            raise faulty("stages", f"must contain at most one stage of type {kind.__struct_config__.tag}")
    names: set[str] = set()
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage, Helping | Asking):
            if named(stage) in names:
                raise faulty(f"stages[{index}]", f"duplicate stage name {named(stage)!r}")
            names.add(named(stage))
        if isinstance(stage, Asking):
            _check_asking(pipeline, index, stage)


def _check_asking(pipeline: Pipeline, index: int, stage: Asking) -> None:
    where = f"stages[{index}]"
    for number, input_stage in enumerate(stage.trust_inputs or ()):
        if input_stage.stage_index >= index:
            what = f"must be an earlier stage than this one, {index} (got {input_stage.stage_index})"
            raise faulty(f"{where}.trust_inputs[{number}].stage_index", what)
        if not isinstance(pipeline.stages[input_stage.stage_index], Helping | Asking):
            what = f"stage {input_stage.stage_index} has no result to pass on"
            raise faulty(f"{where}.trust_inputs[{number}].stage_index", what)
    answer_of(stage, where)


def answer_of(stage: Asking, where: str = "stage") -> type[Struct]:
    """Build the type that the answer of a model stage must match."""
    return answer_type(stage.output_schema, f"{where}.output_schema")

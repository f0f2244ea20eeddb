"""A pipeline: what is done with a document before it is remembered, written down as data.

Deterministic stages always run. A stage that asks a model sees what the stages before it found, and only adds: without
a model the rest is done all the same.
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
"""Raised when the same pipeline would part or judge the same document differently than before."""
MOST_BYTES = 262_144
MOST_STAGES = 16

Words = Annotated[str, Meta(min_length=1, max_length=MOST_TEXT)]
Label = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\w][\w .-]*$")]


class _Stage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    pass


class Segmenting(_Stage, frozen=True, kw_only=True, tag="segment"):
    """Part the document; a segment has at most so many characters, but code is kept whole."""

    longest: Annotated[int, Meta(ge=200, le=8000)] = LONGEST


class Searching(_Stage, frozen=True, kw_only=True, tag="candidates"):
    """Look in the store for what a segment may repeat, by its words and by its vector."""

    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    vectors: bool = True


class HelperParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    cosine_threshold: Annotated[float, Meta(ge=-1, le=1)] = NEAR
    compat: bool = False
    """Tell the literal results of ai-memory; what is kept does not depend on it."""


class Helping(_Stage, frozen=True, kw_only=True, tag="helper"):
    """Compute something about a segment, the same every time."""

    kind: Literal["fts_classifier", "jaccard_overlap", "cosine_pre_filter"]
    params: HelperParams = HelperParams()


class Seen(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage whose result is shown to a later one, and under which name."""

    stage_index: Annotated[int, Meta(ge=0)]
    label: Label


class Asking(_Stage, frozen=True, kw_only=True, tag="llm_call"):
    """Ask a model about a few segments at a time."""

    label: Label
    prompt_template: Words
    output_schema: dict[str, Any]
    trust_inputs: Annotated[list[Seen], Meta(max_length=MOST_STAGES)] | None = None
    """Which stages before it are shown; if not said, all of them."""


Stage = Segmenting | Searching | Helping | Asking


class Pipeline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Stages in their order."""

    name: Label
    stages: Annotated[list[Stage], Meta(min_length=1, max_length=MOST_STAGES)]
    description: Annotated[str, Meta(max_length=MOST_TEXT)] = ""
    system_prompt: Annotated[str, Meta(max_length=MOST_TEXT)] = ""
    """What every stage that asks a model is told first."""

    @property
    def version(self) -> str:
        """Changes with anything that the outcome depends on; the name and the description do not count."""
        said = msgspec.json.encode([RULES, self.stages, self.system_prompt], order="deterministic")
        return sha256(said).hexdigest()[:16]

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
        """Which results of the stages before it a stage sees."""
        stage = self.stages[index]
        assert isinstance(stage, Asking)
        if stage.trust_inputs is not None:
            return stage.trust_inputs
        before = enumerate(self.stages[:index])
        return [Seen(number, named(one)) for number, one in before if isinstance(one, Helping | Asking)]


def named(stage: Stage) -> str:
    """How a stage is called."""
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
    """A pipeline from TOML's or JSON's values, or an error that names the stage and the field."""
    if not isinstance(data, dict):
        raise Invalid("pipeline: must be an object with stages", fields=["pipeline"])
    given = dict(data)
    if variant := given.pop("variant", None):
        given.setdefault("name", variant)
    given.setdefault("name", name or "own")
    try:
        found = msgspec.convert(given, Pipeline, strict=True)
    except RecursionError:
        raise Invalid("pipeline: nested too deeply", fields=["pipeline"]) from None
    except msgspec.ValidationError as error:
        where = _PATH.search(str(error))
        what = _PATH.sub("", str(error))
        raise faulty(where[1] if where and where[1] else "pipeline", what) from None
    _check(found)
    return found


def from_text(text: str, name: str | None = None) -> Pipeline:
    """A pipeline from a file's text: JSON if it begins with a brace, else TOML."""
    if len(text.encode()) > MOST_BYTES:
        raise Invalid(f"pipeline: at most {MOST_BYTES} bytes", fields=["pipeline"])
    try:
        if text.lstrip().startswith("{"):
            return from_data(msgspec.json.decode(text), name)
        import tomllib

        return from_data(tomllib.loads(text), name)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"pipeline: neither TOML nor JSON: {error}", fields=["pipeline"]) from None


def _check(pipeline: Pipeline) -> None:
    """What the types alone do not say: one of a kind, and nothing sees what comes later."""
    for kind in (Segmenting, Searching):
        if sum(isinstance(one, kind) for one in pipeline.stages) > 1:
            raise faulty("stages", f"at most one of the type {kind.__struct_config__.tag}")
    names: set[str] = set()
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage, Helping | Asking):
            if named(stage) in names:
                raise faulty(f"stages[{index}]", f"there is a stage {named(stage)!r} before it")
            names.add(named(stage))
        if isinstance(stage, Asking):
            _check_asking(pipeline, index, stage)


def _check_asking(pipeline: Pipeline, index: int, stage: Asking) -> None:
    where = f"stages[{index}]"
    for number, seen in enumerate(stage.trust_inputs or ()):
        if seen.stage_index >= index:
            what = f"{seen.stage_index} is not before this stage, which is {index}"
            raise faulty(f"{where}.trust_inputs[{number}].stage_index", what)
        if not isinstance(pipeline.stages[seen.stage_index], Helping | Asking):
            what = f"the stage {seen.stage_index} has no result to be shown"
            raise faulty(f"{where}.trust_inputs[{number}].stage_index", what)
    answer_of(stage, where)


def answer_of(stage: Asking, where: str = "stage") -> type[Struct]:
    """The type that a model's answer must fit."""
    return answer_type(stage.output_schema, f"{where}.output_schema")

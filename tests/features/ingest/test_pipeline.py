"""Pipelines as data: precise errors, and a version derived from the definition."""

from typing import Any

import msgspec
import pytest

from holdfast.features.ingest.pipeline import (
    HelperStage,
    ModelStage,
    list_builtin_pipelines,
    parse_pipeline,
    parse_pipeline_text,
    stage_answer_type,
)
from holdfast.kernel.errors import Invalid

SCHEMA = {
    "type": "object",
    "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["tags"],
}
ASK: dict[str, Any] = {"type": "llm_call", "label": "ask", "prompt_template": "Tag it.", "output_schema": SCHEMA}
CLASSIFY = {"type": "helper", "kind": "fts_classifier"}

TOML = """
name = "mine"
[[stages]]
type = "segment"
longest = 400
[[stages]]
type = "helper"
kind = "fts_classifier"
[[stages]]
type = "llm_call"
label = "ask"
prompt_template = "Tag it."
trust_inputs = [{stage_index = 1, label = "classification"}]
[stages.output_schema]
type = "object"
[stages.output_schema.properties.tags]
type = "array"
items = {type = "string"}
"""


def test_a_pipeline_is_read_from_toml_and_from_json() -> None:
    found = parse_pipeline_text(TOML)
    assert (found.name, found.segment_stage.longest, len(found.stages)) == ("mine", 400, 3)
    assert parse_pipeline_text(msgspec.json.encode(found).decode()) == found


def test_the_built_in_pipelines_are_valid() -> None:
    for name, one in list_builtin_pipelines().items():
        assert parse_pipeline(msgspec.to_builtins(one)) == one
        assert one.name == name
    assert list(list_builtin_pipelines()) == ["plain", "two_phase", "four_step"]
    assert not list_builtin_pipelines()["plain"].asks_model


def test_the_format_of_ai_memory_is_accepted() -> None:
    given = {"variant": "two_phase", "stages": [CLASSIFY, ASK | {"trust_inputs": [{"stage_index": 0, "label": "c"}]}]}
    found = parse_pipeline(given | {"system_prompt": "Be brief."})
    assert (found.name, found.system_prompt) == ("two_phase", "Be brief.")
    assert isinstance(found.stages[0], HelperStage)


def test_a_version_depends_on_the_definition_and_not_on_the_name() -> None:
    one = parse_pipeline({"name": "a", "stages": [CLASSIFY]})
    assert one.version == parse_pipeline({"name": "b", "description": "other", "stages": [CLASSIFY]}).version
    assert one.version != parse_pipeline({"name": "a", "stages": [CLASSIFY, ASK]}).version
    assert one.version != parse_pipeline({"name": "a", "stages": [CLASSIFY], "system_prompt": "x"}).version
    assert len({one.version for one in list_builtin_pipelines().values()}) == 3


def test_a_model_stage_sees_all_earlier_results_by_default() -> None:
    both = parse_pipeline({"stages": [CLASSIFY, ASK, ASK | {"label": "again"}]})
    assert [(one.stage_index, one.label) for one in both.list_inputs(2)] == [(0, "fts_classifier"), (1, "ask")]
    chosen = parse_pipeline({"stages": [CLASSIFY, ASK | {"trust_inputs": []}]})
    assert chosen.list_inputs(1) == []


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], "pipeline"),
        ({}, "pipeline"),
        ({"stages": []}, "stages"),
        ({"stages": [{"type": "magic"}]}, "stages[0].type"),
        ({"stages": [{"type": "helper", "kind": "sorcery"}]}, "stages[0].kind"),
        ({"stages": [CLASSIFY, {"type": "segment", "longest": 3}]}, "stages[1].longest"),
        ({"stages": [CLASSIFY | {"params": {"content": "mine"}}]}, "stages[0].params"),
        ({"stages": [CLASSIFY, CLASSIFY]}, "stages[1]"),
        ({"stages": [{"type": "segment"}, {"type": "segment"}]}, "stages"),
        (
            {"stages": [ASK | {"trust_inputs": [{"stage_index": 0, "label": "me"}]}]},
            "stages[0].trust_inputs[0].stage_index",
        ),
        (
            {"stages": [{"type": "segment"}, ASK | {"trust_inputs": [{"stage_index": 0, "label": "s"}]}]},
            "stages[1].trust_inputs[0].stage_index",
        ),
        ({"stages": [ASK | {"output_schema": {"type": "array"}}]}, "stages[0].output_schema"),
        (
            {"stages": [ASK | {"output_schema": {"properties": {"a": {"type": "date"}}}}]},
            "stages[0].output_schema.properties.a.type",
        ),
        (
            {"stages": [ASK | {"output_schema": {"properties": {"a": {"type": "string"}}, "required": ["b"]}}]},
            "stages[0].output_schema.required",
        ),
        ({"stages": [CLASSIFY], "more": 1}, "pipeline"),
    ],
    ids=range(15),
)
def test_errors_name_the_stage_and_the_field(data: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_pipeline(data)
    assert caught.value.details["fields"] == [field]


@pytest.mark.parametrize(
    "text", ["= 1", "{", '{"stages": ' + "[" * 5000, "x" * 300_000], ids=["toml", "json", "deep", "long"]
)
def test_an_invalid_pipeline_file_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_pipeline_text(text)


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(" * 990, 7, "x" * 1001])
def test_an_invalid_pattern_is_reported_by_stage_and_field(pattern: object) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string", "pattern": pattern}}}
    with pytest.raises(Invalid) as refused:
        parse_pipeline({"stages": [CLASSIFY, ASK | {"output_schema": schema}]})
    assert refused.value.details["fields"] == ["stages[1].output_schema.properties.title.pattern"]


def test_an_answer_must_match_its_schema() -> None:
    (stage,) = [one for one in list_builtin_pipelines()["two_phase"].stages if isinstance(one, ModelStage)]
    answer = stage_answer_type(stage)
    whole = {"title": "t", "summary": "s", "tags": ["a"], "atoms": []}
    assert msgspec.to_builtins(msgspec.convert(whole, answer)) == whole
    for wrong in ({}, whole | {"tags": "a"}, whole | {"title": None}, whole | {"atoms": ["x"] * 25}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, answer)

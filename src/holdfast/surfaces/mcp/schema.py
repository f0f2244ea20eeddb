"""Tool schemas that cost few tokens: what a model needs to write a call. The operation validates the rest."""

from typing import Any

import msgspec

from holdfast.features.memories.views import MemoryView
from holdfast.kernel.registry.encoding import wire_type
from holdfast.kernel.registry.words import order_enums
from holdfast.operations import Operation

Schema = dict[str, Any]

_MEMORY_FIELDS = {"id", "namespace", "title", "content", "version"}
"""Fields listed in the output schema of a memory; the answer contains the others too."""
_DROPPED = {"title", "minLength", "maxLength", "minItems", "maxItems", "pattern"}
_HUGE = 1_000_000
"""A maximum that no call reaches by accident is left out."""


def input_schema(operation: Operation) -> Schema:
    """Return the input schema without lengths, patterns, nulls and empty defaults; nested records in outline."""
    fields, required, named = _declared_fields(operation.request)
    order_enums(fields, operation.request)
    unseen = hidden_fields(operation)
    lean = {name: _lean(field, named) for name, field in fields.items() if name not in unseen}
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": lean, **needed, "additionalProperties": False}


def hidden_fields(operation: Operation) -> set[str]:
    """Return the fields that are not available over MCP."""
    names = (field.encode_name for field in operation.fields)
    return {name for name in names if "mcp" in (operation.field_option(name, "not_on") or ())}


def output_schema(operation: Operation) -> Schema:
    """Return the answer's top-level fields that are always present; others may follow."""
    _, always, _ = _declared_fields(wire_type(operation.answer))
    is_memory = issubclass(operation.answer, MemoryView)
    unnamed = set(MemoryView.__struct_fields__) - _MEMORY_FIELDS if is_memory else set()
    return {"type": "object", "properties": {name: {} for name in always if name not in unnamed}}


def _declared_fields(record: type) -> tuple[dict[str, Schema], list[str], dict[str, Schema]]:
    """Return a record's fields, the required ones, and the records they refer to."""
    (root,), named = msgspec.json.schema_components([record], ref_template="{name}")
    whole = named[root["$ref"]]
    return whole["properties"], whole.get("required", []), named


def _lean(node: Schema, named: dict[str, Schema]) -> Schema:
    if "$ref" in node:
        whole = {**named[node["$ref"]], **node}
        return (
            _outline(whole) if "properties" in whole else _lean({k: v for k, v in whole.items() if k != "$ref"}, named)
        )
    lean = {key: _within(key, value, named) for key, value in node.items() if not _is_redundant(key, value)}
    if "enum" in lean and all(isinstance(value, str) for value in lean["enum"]):
        lean = {"type": "string", **lean}
    if not lean.get("default", True):
        nullable = lean.pop("default") is None
        return _without_null(lean) if nullable and "anyOf" in lean else lean
    return lean


def _outline(record: Schema) -> Schema:
    """Outline a nested record by its field names; optional ones end with `?`."""
    parts = [name if name in record.get("required", ()) else f"{name}?" for name in record["properties"]]
    return {"type": "object", "description": ", ".join(parts)}


def _is_redundant(key: str, value: Any) -> bool:
    return key in _DROPPED or (key == "minimum" and value in (0, 1)) or (key == "maximum" and value >= _HUGE)


def _within(key: str, value: Any, named: dict[str, Schema]) -> Any:
    match key, value:
        case (("items" | "additionalProperties"), dict()):
            return _lean(value, named)
        case "anyOf", list():
            return [_lean(one, named) for one in value]
    return value


def _without_null(lean: Schema) -> Schema:
    """Drop the null alternative: omitting the field means the same."""
    others = [one for one in lean.pop("anyOf") if one != {"type": "null"}]
    return {**others[0], **lean} if len(others) == 1 else {"anyOf": others, **lean}

"""Tool schemas that cost few tokens: what a model needs to write a call; the door checks the rest."""

from typing import Any

import msgspec

from holdfast.features.memories.views import MemoryView
from holdfast.kernel.registry.operation import order_enums
from holdfast.operations import Operation

Schema = dict[str, Any]

_OF_A_MEMORY = {"id", "namespace", "title", "content", "version"}
"""What the schema of an answer that is one memory names; the others are in the answer all the same."""
_DROPPED = {"title", "minLength", "maxLength", "minItems", "maxItems", "pattern"}
_HUGE = 1_000_000
"""A bound that no call comes near by accident."""


def input_schema(operation: Operation) -> Schema:
    """The whole input without lengths, patterns, null alternatives and empty defaults; records within it in outline."""
    fields, required, named = _declared(operation.request)
    order_enums(fields, operation.request)
    unseen = hidden(operation)
    lean = {name: _lean(field, named) for name, field in fields.items() if name not in unseen}
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": lean, **needed, "additionalProperties": False}


def hidden(operation: Operation) -> set[str]:
    """The fields that this surface does not take."""
    names = (field.encode_name for field in operation.fields)
    return {name for name in names if "mcp" in (operation.extra(name, "not_on") or ())}


def output_schema(operation: Operation) -> Schema:
    """The names of the answer's top level that are always there; more may come."""
    _, always, _ = _declared(operation.answer)
    is_memory = issubclass(operation.answer, MemoryView)
    unnamed = set(MemoryView.__struct_fields__) - _OF_A_MEMORY if is_memory else set()
    return {"type": "object", "properties": {name: {} for name in always if name not in unnamed}}


def _declared(record: type) -> tuple[dict[str, Schema], list[str], dict[str, Schema]]:
    """The fields of a record, those of them that are always there, and the records that they name."""
    (root,), named = msgspec.json.schema_components([record], ref_template="{name}")
    whole = named[root["$ref"]]
    return whole["properties"], whole.get("required", []), named


def _lean(node: Schema, named: dict[str, Schema]) -> Schema:
    if "$ref" in node:
        whole = {**named[node["$ref"]], **node}
        return (
            _outline(whole) if "properties" in whole else _lean({k: v for k, v in whole.items() if k != "$ref"}, named)
        )
    lean = {key: _within(key, value, named) for key, value in node.items() if not _says_nothing(key, value)}
    if "enum" in lean and all(isinstance(value, str) for value in lean["enum"]):
        lean = {"type": "string", **lean}
    if not lean.get("default", True):
        nullable = lean.pop("default") is None
        return _without_null(lean) if nullable and "anyOf" in lean else lean
    return lean


def _outline(record: Schema) -> Schema:
    """A record within a field by the names of its parts, those that may be left out with a `?`."""
    parts = [name if name in record.get("required", ()) else f"{name}?" for name in record["properties"]]
    return {"type": "object", "description": ", ".join(parts)}


def _says_nothing(key: str, value: Any) -> bool:
    return key in _DROPPED or (key == "minimum" and value in (0, 1)) or (key == "maximum" and value >= _HUGE)


def _within(key: str, value: Any, named: dict[str, Schema]) -> Any:
    match key, value:
        case (("items" | "additionalProperties"), dict()):
            return _lean(value, named)
        case "anyOf", list():
            return [_lean(one, named) for one in value]
    return value


def _without_null(lean: Schema) -> Schema:
    """Leaving a field out says the same as null."""
    others = [one for one in lean.pop("anyOf") if one != {"type": "null"}]
    return {**others[0], **lean} if len(others) == 1 else {"anyOf": others, **lean}

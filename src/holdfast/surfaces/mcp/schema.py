"""Tool schemas that cost few tokens: what a model needs to write a call; the door checks the rest."""

from typing import Any

import msgspec

from ...operations import Operation
from ...operations.views import MemoryView

Schema = dict[str, Any]

_OF_A_MEMORY = {"id", "namespace", "title", "content", "version"}
"""What the schema of an answer that is one memory names; the others are in the answer all the same."""
_DROPPED = {"$ref", "title", "minLength", "maxLength", "minItems", "maxItems", "pattern"}


def input_schema(operation: Operation) -> Schema:
    """The whole input, inlined: without lengths, patterns, null alternatives and empty defaults."""
    (root,), named = msgspec.json.schema_components([operation.request], ref_template="{name}")
    lean = _lean(root, named)
    unseen = hidden(operation)
    fields = {name: _outlined(field) for name, field in lean["properties"].items() if name not in unseen}
    required = {"required": lean["required"]} if lean.get("required") else {}
    return {"type": "object", "properties": fields, **required, "additionalProperties": False}


def hidden(operation: Operation) -> set[str]:
    """The fields that this surface does not take."""
    return {field.encode_name for field in operation.fields if operation.extra(field.encode_name, "not_on") == "mcp"}


def output_schema(operation: Operation) -> Schema:
    """The names and types of the answer's top level that are always there; more may come."""
    (root,), named = msgspec.json.schema_components([operation.answer], ref_template="{name}")
    whole = _lean(root, named)
    is_memory = issubclass(operation.answer, MemoryView)
    unnamed = set(MemoryView.__struct_fields__) - _OF_A_MEMORY if is_memory else set()
    always = [name for name in whole.get("required", []) if name not in unnamed]
    return {"type": "object", "properties": {name: _kind(whole["properties"][name]) for name in always}}


def _outlined(field: Schema) -> Schema:
    """A record inside a field by the names of its parts, those that may be left out with a `?`."""
    if "items" in field:
        return {**field, "items": _outlined(field["items"])}
    if "properties" not in field:
        return field
    parts = [name if name in field.get("required", ()) else f"{name}?" for name in field["properties"]]
    return {"type": "object", "description": ", ".join(parts)}


def _kind(field: Schema) -> Schema:
    return {"type": field["type"]} if "type" in field else {}


def _lean(node: Schema, named: dict[str, Schema]) -> Schema:
    whole = {**named[node["$ref"]], **node} if "$ref" in node else node
    lean = {key: _within(key, value, named) for key, value in whole.items() if not _says_nothing(key, value)}
    if "enum" in lean and all(isinstance(value, str) for value in lean["enum"]):
        lean = {"type": "string", **lean}
    if not lean.get("default", True):
        nullable = lean.pop("default") is None
        return _without_null(lean) if nullable and "anyOf" in lean else lean
    return lean


def _says_nothing(key: str, value: Any) -> bool:
    return key in _DROPPED or (key == "minimum" and value in (0, 1)) or (key == "maximum" and value > 1 << 31)


def _within(key: str, value: Any, named: dict[str, Schema]) -> Any:
    match key, value:
        case "properties", dict():
            return {name: _lean(field, named) for name, field in value.items()}
        case (("items" | "additionalProperties"), dict()):
            return _lean(value, named)
        case "anyOf", list():
            return [_lean(one, named) for one in value]
    return value


def _without_null(lean: Schema) -> Schema:
    """Leaving a field out says the same as null."""
    others = [one for one in lean.pop("anyOf") if one != {"type": "null"}]
    return {**others[0], **lean} if len(others) == 1 else {"anyOf": others, **lean}

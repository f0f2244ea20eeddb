"""Build msgspec types from the subset of JSON Schema that pipelines may use for model answers."""

import re
from collections.abc import Mapping
from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

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

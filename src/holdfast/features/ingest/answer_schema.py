"""Build msgspec types from the subset of JSON Schema that pipelines may use for model answers."""

import re
from collections.abc import Mapping
from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.kernel.errors import Invalid

MOST_ITEMS = 64
MOST_TEXT = 4000
MOST_PATTERN = 1000
DEEPEST = 4

_known: dict[bytes, type[Struct]] = {}


def answer_type(schema: Any, where: str) -> type[Struct]:
    """Build the type of a schema. Raises an error that names the place in it.

    Cached per schema, because msgspec never frees a type once used.
    """
    type_ = _object(schema, where, 0)
    return _known.setdefault(msgspec.json.encode(schema, order="sorted"), type_)


def faulty(where: str, what: str) -> Invalid:
    return Invalid(f"{where}: {what}", fields=[where])


def _name(where: str) -> str:
    """Name a type after its place, so that the types of one schema have distinct names."""
    return (
        "".join(part.capitalize() for part in re.findall(r"[A-Za-z0-9]+", where.partition("output_schema")[2]))
        or "Answer"
    )


def _object(schema: Any, where: str, depth: int) -> type[Struct]:
    if depth == DEEPEST:
        raise faulty(where, f"must be at most {DEEPEST} levels deep")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties or schema.get("type", "object") != "object":
        raise faulty(where, "must be a JSON Schema of an object with properties")
    if len(properties) > MOST_ITEMS:
        raise faulty(where, f"must have at most {MOST_ITEMS} properties (got {len(properties)})")
    required = schema.get("required", [])
    if not isinstance(required, list) or not set(map(str, required)) <= set(properties):
        raise faulty(f"{where}.required", "must be a list of property names")
    fields: list[Any] = []
    for name, property_schema in properties.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name):
            raise faulty(
                f"{where}.properties.{name}", "the name must start with a letter and contain only letters, digits and _"
            )
        type_ = _type(property_schema, f"{where}.properties.{name}", depth + 1)
        fields.append((name, type_) if name in required else (name, type_ | None, None))
    return msgspec.defstruct(_name(where), fields, kw_only=True, frozen=True, omit_defaults=True)


def _type(schema: Any, where: str, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        raise faulty(where, "must be a JSON Schema")
    if "enum" in schema:
        values = schema["enum"]
        if not isinstance(values, list) or not values or not all(isinstance(one, str) for one in values):
            raise faulty(f"{where}.enum", "must be a non-empty list of strings")
        return Literal[tuple(values)]
    match schema.get("type"):
        case "string":
            _must_be_pattern(schema.get("pattern", ""), f"{where}.pattern")
            return Annotated[str, Meta(max_length=_whole(schema, "maxLength", MOST_TEXT, where))]
        case "number":
            return Annotated[float, _bounds(schema, where)]
        case "integer":
            return Annotated[int, _bounds(schema, where)]
        case "boolean":
            return bool
        case "array":
            most = _whole(schema, "maxItems", MOST_ITEMS, where)
            item = _type(schema.get("items"), f"{where}.items", depth)
            return Annotated[GenericAlias(list, (item,)), Meta(max_length=most)]
        case "object":
            return _object(schema, where, depth)
        case other:
            raise faulty(f"{where}.type", f"must be string, number, integer, boolean, array or object (got {other!r})")


def _must_be_pattern(pattern: Any, where: str) -> None:
    """Raise unless it is a regular expression. Answers are not matched with it: a pattern could backtrack forever."""
    if not isinstance(pattern, str) or len(pattern) > MOST_PATTERN:
        raise faulty(where, f"must be a regular expression of at most {MOST_PATTERN} characters")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise faulty(where, f"not a valid regular expression: {error}") from None


def _whole(schema: Mapping[str, Any], name: str, most: int, where: str) -> int:
    value = schema.get(name, most)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise faulty(f"{where}.{name}", f"must be an integer from 1 to {most} (got {value!r})")
    return value


def _bounds(schema: Mapping[str, Any], where: str) -> Meta:
    given = {mark: schema[name] for name, mark in (("minimum", "ge"), ("maximum", "le")) if name in schema}
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in given.values()):
        raise faulty(where, "minimum and maximum must be numbers")
    return Meta(**given)

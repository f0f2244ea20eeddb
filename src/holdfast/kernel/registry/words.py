"""Arguments given as words of text, on the command line and in query strings; the alternatives of a field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.operation import Operation, bare_type, explain_unknown_field, field_types

_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def parse_words(operation: Operation, words: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Parse arguments from text. A `str` field is never converted; a scalar given twice is an error."""
    known = field_types(operation.request)
    arguments: dict[str, Any] = {}
    for name, given in words.items():
        if name not in known:
            raise Invalid(explain_unknown_field(name, known), fields=[name])
        arguments[name] = _parse_words(name, known[name], list(given))
    return arguments


def _parse_words(name: str, info: msgspec.inspect.Type, given: list[str]) -> Any:
    match info:
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            if not isinstance(bare_type(info.item_type), msgspec.inspect.StrType | msgspec.inspect.LiteralType):
                return [_json(name, text) for text in given] if len(given) > 1 else _as_list(_json(name, given[0]))
            return [part.strip() for text in given for part in text.split(",")]
        case msgspec.inspect.DictType():
            if len(given) == 1 and given[0].lstrip().startswith("{"):
                return _json(name, given[0])
            pairs = [text.partition("=") for text in given]
            if any(not sign for _, sign, _ in pairs):
                raise Invalid(f"{name}: must be JSON or key=value", fields=[name])
            return {key: value for key, _, value in pairs}
    if len(given) > 1:
        raise Invalid(f"{name}: given more than once", fields=[name])
    text = given[0]
    match info:
        case msgspec.inspect.StrType() | msgspec.inspect.LiteralType():
            return text
        case msgspec.inspect.BoolType():
            if text.lower() in _BOOLEANS:
                return _BOOLEANS[text.lower()]
            raise Invalid(f"{name}: must be true or false", fields=[name])
        case msgspec.inspect.IntType():
            if re.fullmatch(r"[+-]?[0-9]{1,30}", text):
                return int(text)
            raise Invalid(f"{name}: must be an integer", fields=[name])
        case msgspec.inspect.FloatType():
            try:
                return msgspec.json.decode(text.encode(), type=float)
            except msgspec.DecodeError:
                raise Invalid(f"{name}: must be a number", fields=[name]) from None
        case _:
            return _json(name, text)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise Invalid(f"{name}: must be valid JSON", fields=[name]) from None


def enum_values(type_: Any) -> tuple[str, ...]:
    """Return the values of a Literal type, in order of declaration."""
    if get_origin(type_) is Literal:
        return get_args(type_)
    return next((found for inner in get_args(type_) if (found := enum_values(inner))), ())


def order_enums(properties: dict[str, Any], record: type[Struct]) -> None:
    """Restore the declared order of enum values in a JSON Schema; msgspec sorts them."""
    for field in msgspec.structs.fields(record):
        words = enum_values(field.type)
        for node in _enum_nodes(properties[field.encode_name]):
            if set(node["enum"]) == set(words):
                node["enum"] = list(words)


def _enum_nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the enum nodes of a field's schema: itself, its items or its alternatives."""
    if "enum" in node:
        yield node
    for inner in (node.get("items"), *node.get("anyOf", ())):
        if isinstance(inner, dict):
            yield from _enum_nodes(inner)

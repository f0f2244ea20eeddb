"""Methods of the library: an operation as a Python function with its signature, its documentation and its result."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any, NotRequired, Protocol, Required, TypedDict, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct

from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import Invalid, StoreClosed
from holdfast.kernel.registry.encoding import TYPES_MODULE, ResultList, get_converter, is_time, join_types, library_type
from holdfast.kernel.registry.operation import Operation, Registry, explain_unknown_field, find_near_name, python_name
from holdfast.kernel.timestamps import format_datetime

Method = Callable[..., Any]


class OpenStore(Protocol):
    """What the methods of an open store need of it."""

    ctx: Context
    is_closed: bool


class AsyncStore(Protocol):
    """What the methods of a store that is used from asyncio need of it."""

    async def run(self, work: Callable[[OpenStore, Progress], Any]) -> Any:
        """Run work in a thread."""


def add_method(owner: type, registry: Registry, name: str, build: Callable[[Operation], Method]) -> None:
    """Add the method of an operation to a class. Raises AttributeError that names the operation which was meant."""
    names = {python_name(known): known for known in registry.entries}
    known = names.get(name, name)
    if known not in registry:
        near = find_near_name(name, names)
        raise AttributeError(
            f"There is no operation {name!r}." + (f" Did you mean {near!r}?" if near else ""), name=name
        )
    method = build(registry[known])
    method.__qualname__ = f"{owner.__name__}.{method.__name__}"
    setattr(owner, method.__name__, method)


def build_method(operation: Operation) -> Method:
    """Build the method of an operation, for an open store."""
    run = _build_call(operation)

    def method(self: OpenStore, /, *positional: Any, **named: Any) -> Any:
        return run(positional, named, self, self.ctx.progress)

    return _describe(method, operation)


def build_async_method(operation: Operation) -> Method:
    """Build the method of an operation, for a store that is used from asyncio."""
    run = _build_call(operation)

    async def method(self: AsyncStore, /, *positional: Any, **named: Any) -> Any:
        return await self.run(partial(run, positional, named))

    return _describe(method, operation)


def _build_call(operation: Operation) -> Callable[[Sequence[Any], Mapping[str, Any], OpenStore, Progress], Any]:
    to_result = get_converter(operation.answer, "library")
    positions = [name for name, parameter in build_parameters(operation).items() if parameter.kind is _POSITIONAL]
    wire_names = {python_name(field.encode_name): field.encode_name for field in operation.fields}
    known = frozenset(wire_names.values())

    def run(positional: Sequence[Any], named: Mapping[str, Any], store: OpenStore, progress: Progress) -> Any:
        if store.is_closed:
            raise StoreClosed
        if len(positional) > len(positions):
            raise Invalid(f"{operation.name} takes {len(positions)} positional arguments, got {len(positional)}.")
        placed = dict(zip(positions, positional, strict=False))
        if twice := sorted(placed.keys() & named.keys()):
            raise Invalid(f"{twice[0]}: given both by position and by name", fields=twice)
        arguments = {
            wire_names.get(name, name): _to_json(name, value)
            for name, value in {**placed, **named}.items()
            if value is not UNSET
        }
        if not known.issuperset(arguments):
            name = next(name for name in arguments if name not in known)
            raise Invalid(explain_unknown_field(name, wire_names), fields=[name])
        return to_result(operation.call(store.ctx, store.ctx.caller, arguments, progress))

    return run


def _to_json(name: str, value: Any) -> Any:
    """Return an argument as JSON has it: times as text, results and structs as objects, tuples as lists."""
    match value:
        case datetime():
            if value.tzinfo is None:
                raise Invalid(f"{name}: a datetime needs a time zone, such as datetime.now(UTC)", fields=[name])
            return format_datetime(value)
        case Struct():
            return msgspec.to_builtins(value)
        case dict():
            return {key: _to_json(name, item) for key, item in value.items()}
        case list() | tuple() if value and not isinstance(value[0], str | int | float):
            return [_to_json(name, item) for item in value]
        case tuple():
            return list(value)
        case _:
            return value


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _describe(method: Method, operation: Operation) -> Method:
    method.__name__ = python_name(operation.name)
    method.__module__ = "holdfast"
    method.__doc__ = build_docstring(operation)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = build_parameters(operation)
    returns = library_type(operation.answer)
    method.__signature__ = inspect.Signature([own, *parameters.values()], return_annotation=returns)  # type: ignore[attr-defined]
    method.__annotations__ = {name: one.annotation for name, one in parameters.items()} | {"return": returns}
    return method


def build_parameters(operation: Operation) -> dict[str, inspect.Parameter]:
    """Return the parameters of an operation in the order of the command line: its arguments, then what is required.

    All others, and those that follow an optional one though they are required, have to be named.
    """
    arguments = [field for field in operation.fields if operation.field_option(field.encode_name, "argument")]
    required = [field for field in operation.fields if field.required and field not in arguments]
    placed = [*arguments, *required]
    others = [field for field in operation.fields if field not in placed]
    parameters, has_default = {}, False
    for field in (*placed, *others):
        name, default = python_name(field.encode_name), _default_of(field)
        has_default = has_default or default is not inspect.Parameter.empty
        is_named = field in others or (has_default and default is inspect.Parameter.empty)
        kind = inspect.Parameter.KEYWORD_ONLY if is_named else _POSITIONAL
        parameters[name] = inspect.Parameter(name, kind, default=default, annotation=argument_type(field.type))
    return dict(sorted(parameters.items(), key=lambda item: item[1].kind))


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is NODEFAULT else field.default


@cache
def argument_type(annotation: Any) -> Any:
    """Return the type that an argument has in Python: a time may be a datetime, a struct is a dictionary."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return datetime | str if is_time(annotation) else argument_type(arguments[0])
    if origin in (Union, types.UnionType):
        return join_types(map(argument_type, arguments))
    if origin in (list, dict):
        return origin[tuple(map(argument_type, arguments))]
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _dictionary_type(annotation)
    return annotation


def _dictionary_type(struct: type[Struct]) -> Any:
    keys = {
        field.encode_name: (Required if field.required else NotRequired)[argument_type(field.type)]
        for field in msgspec.structs.fields(struct)
    }
    make: Any = TypedDict
    made = make(struct.__name__, keys)
    made.__module__, made.__doc__, made._source = TYPES_MODULE, struct.__doc__, struct
    return made


def build_docstring(operation: Operation) -> str:
    """Return the description of an operation with its arguments and what it returns."""
    described = [
        (python_name(field.encode_name), _describe_field(field.type))
        for name in build_parameters(operation)
        for field in operation.fields
        if python_name(field.encode_name) == name
    ]
    parts = [operation.description]
    if any(text for _, text in described):
        parts.append("\n".join(["Args:", *(f"    {name}: {text}" for name, text in described if text)]))
    returns = library_type(operation.answer)
    if isinstance(returns, type) and issubclass(returns, ResultList):
        parts.append(f"Returns:\n    {returns.__name__}: iterate over it for its `{returns._list_field}`.")
    return "\n\n".join(parts)


def _describe_field(annotation: Any) -> str:
    """Return the description of a field and its bounds."""
    texts = {key: value for meta in _all_meta(annotation) for key, value in _meta_texts(meta).items()}
    text, low, high = (texts.get(key, "") for key in ("description", "low", "high"))
    bounds = f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}" if high else ""
    if not bounds or any(bound in text for bound in (low, high) if bound):
        return text
    return f"{text.removesuffix('.')} ({bounds})." if text else f"{bounds[0].upper()}{bounds[1:]}."


def _meta_texts(meta: Meta) -> dict[str, str]:
    texts = {"description": meta.description, "low": meta.ge, "high": meta.le}
    return {
        key: f"{value:,}" if key != "description" else str(value) for key, value in texts.items() if value is not None
    }


def _all_meta(annotation: Any) -> list[Meta]:
    """Return the metadata of a field, the outermost last."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return [*_all_meta(inner), *(one for one in metadata if isinstance(one, Meta))]
    if get_origin(annotation) in (Union, types.UnionType):
        return [one for member in get_args(annotation) for one in _all_meta(member)]
    return []

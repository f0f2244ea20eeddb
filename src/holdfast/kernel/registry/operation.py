"""Operations: CLI commands, HTTP routes, MCP tools and the reference are all derived from one definition."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from holdfast.kernel.context import SILENT, Caller, Context, Interceptor, Progress, Right
from holdfast.kernel.errors import FilterRequired, Forbidden, Invalid
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.registry.stages import Stage, StageEffects

Surface = Literal["library", "cli", "http", "mcp"]
SURFACES: tuple[Surface, ...] = ("library", "cli", "http", "mcp")


class Effect(Enum):
    READ = "read"
    WRITE = "write"
    DESTROY = "destroy"
    """Removes something, even if `undo` or the archive can restore it."""


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of requests. Unknown fields are errors, never ignored."""


class EmptyRequest(Request, frozen=True):
    """No parameters."""


class Example(Struct, frozen=True):
    """Example call, executed by the parity test on every surface."""

    arguments: dict[str, Any]
    error: str | None = None
    """Expected error code."""
    prepared: bool = False
    """It needs the records and files of the tests' example store; help prints it."""


class Operation(Struct, frozen=True):
    """Definition of one operation."""

    name: str
    effect: Effect
    method: str
    path: str
    summary: str
    description: str
    request: type[Request]
    answer: type
    run: Callable[..., Any]
    admin: bool = False
    surfaces: frozenset[Surface] = frozenset(SURFACES)
    cli: tuple[str, ...] = ()
    """The words of its command."""
    aliases: tuple[str, ...] = ()
    """Former and other names of its command, which still work but are not listed."""
    status: int = 200
    bulk: str | None = None
    """Field that receives a bare JSON array."""
    whole: str | None = None
    """Field that receives the whole JSON object if it is not a key in it; other fields keep their names."""
    at_least_one: tuple[str, ...] = ()
    irreversible: bool = False
    """The CLI asks for confirmation."""
    opens_nothing: bool = False
    """The CLI opens the store only when needed and never creates one."""
    makes_store: bool = False
    """The CLI creates a missing store, though the operation only reads: it shows the store's identity."""
    feed: bool = False
    """Its pages are chained by `after` and `next`, so it can be streamed live."""
    repeats: bool = False
    """It can run repeatedly: the CLI offers --daemon."""
    reports: bool = False
    """It takes a Progress as its third parameter."""
    asks: bool = False
    """It may call the language model, which can take long."""
    most_bytes: int | None = None
    """Size limit of an HTTP request, instead of the setting; request and response may then be compressed."""
    stage: Stage | None = None
    """Stage for lifecycle hooks."""
    stages: tuple[Stage, ...] = ()
    """Possible stages, if the request decides."""
    parts: Callable[[Context, Any], StageEffects] | None = None
    """Returns a request's effects by stage; hooks can then allow or deny it, but not change it."""
    waits: bool = False
    """Its answer may be that the request waits for approval."""
    human: str | None = None
    """Function that renders its answer for people, as `module:function`."""
    examples: tuple[Example, ...] = ()

    @property
    def family(self) -> str:
        """The feature that declares it."""
        return feature_of(self.run.__module__)

    @property
    def fields(self) -> tuple[msgspec.structs.FieldInfo, ...]:
        """Fields of its request. Computed on first use: a command needs those of one operation only."""
        return _fields(self.request)

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        return self.stages if self.stage is None else (self.stage,)

    @property
    def right(self) -> Right:
        """The right that a key needs for it."""
        if self.admin:
            return "admin"
        return "read" if self.effect is Effect.READ else "write"

    def has_hooks(self, ctx: Context) -> bool:
        """Whether an interceptor may block the call."""
        return any(one.waits and one.applies(self) for one in ctx.interceptors)

    def call(self, ctx: Context, caller: Caller, arguments: Mapping[str, Any], progress: Progress = SILENT) -> Any:
        """Authorize, validate and run a call, through the interceptors of the context."""
        return self._call_through(ctx.interceptors, ctx, caller, arguments, progress)

    def _call_through(
        self,
        interceptors: Sequence[Interceptor],
        ctx: Context,
        caller: Caller,
        arguments: Mapping[str, Any],
        progress: Progress,
    ) -> Any:
        for place, interceptor in enumerate(interceptors, 1):
            if interceptor.applies(self):
                proceed = partial(self._call_through, interceptors[place:], ctx, caller, arguments, progress)
                return interceptor.call(self, ctx, caller, arguments, progress, proceed)
        self.require_right(caller)
        caller, request = self.authorize(caller, arguments)
        return self.perform(ctx.for_caller(caller, progress), request)

    def require_right(self, caller: Caller) -> None:
        """Raise Forbidden unless the caller has the required right."""
        if not caller.has_right(self.right):
            raise Forbidden(f"{self.name} requires the {self.right} right; this key has {caller.right}.")

    def authorize(self, caller: Caller, arguments: Mapping[str, Any]) -> tuple[Caller, Request]:
        """Parse the request and resolve the caller; raises Forbidden if an agent or namespace is not theirs."""
        request = self.parse_request(arguments)
        for name in self.fields_with_role("actor"):
            if (agent := getattr(request, name)) is not None:
                caller = caller.act_as(agent)
        for name in self.fields_with_role("namespace"):
            if (value := getattr(request, name)) is not None:
                for namespace in [value] if isinstance(value, str) else value:
                    caller.require_access(namespace)
        return caller, request

    def perform(self, ctx: Context, request: Request) -> Any:
        """Run an authorized request."""
        answer = self.run(ctx, request, ctx.progress) if self.reports else self.run(ctx, request)
        ctx.wait_for_quorum()
        return answer

    def parse_request(self, arguments: Mapping[str, Any]) -> Request:
        """Parse arguments to the typed request; errors name the field."""
        if self.whole is not None and arguments and self.whole not in arguments:
            own = {field.encode_name for field in self.fields}
            told = {name: value for name, value in arguments.items() if name in own}
            arguments = {**told, self.whole: {name: arguments[name] for name in arguments if name not in own}}
        missing = [field.encode_name for field in self.fields if field.required and field.encode_name not in arguments]
        if missing:
            raise Invalid(f"{', '.join(missing)}: required", fields=missing)
        if self.at_least_one and all(arguments.get(name) in (None, "", [], ()) for name in self.at_least_one):
            raise FilterRequired(
                f"At least one of {', '.join(self.at_least_one)} is required.", fields=[*self.at_least_one]
            )
        for name, value in arguments.items():
            if _has_nul(value) and name not in self.fields_with_role("words"):
                raise Invalid(f"{name}: must not contain NUL", fields=[name])
        try:
            _json_encoder.encode(arguments)
            return _convert(dict(arguments), self.request)
        except RecursionError:
            raise Invalid("The request is nested too deeply.") from None
        except UnicodeEncodeError:
            raise Invalid("The request must be valid Unicode text (contains a lone surrogate).") from None
        except (TypeError, ValueError) as error:
            raise Invalid(f"The request is not JSON: {error}") from None

    def name_arguments(self, positional: Sequence[Any]) -> dict[str, Any]:
        """Name positional arguments: required fields first, then the CLI's positional ones."""
        if not positional:
            return {}
        names = [f.encode_name for f in self.fields if f.required or self.field_option(f.encode_name, "argument")]
        if len(positional) > len(names):
            raise Invalid(f"{self.name} takes {len(names)} positional arguments, got {len(positional)}.")
        return dict(zip(names, positional, strict=False))

    def fields_with_role(self, role: str) -> tuple[str, ...]:
        """Return the fields with a role: `namespace` (access is checked), `actor` (the agent to act as), `words`."""
        return _fields_with_role(self.request, role)

    def field_option(self, name: str, key: str, default: Any = None) -> Any:
        """Return an option of a field: `short`, `flag`, `stdin`, `argument`, `advanced`, `role`, `not_on`."""
        return _field_options(self.request).get(name, {}).get(key, default)


def _has_nul(value: Any) -> bool:
    """Whether a text contains NUL, which no store accepts. Nested values are validated later."""
    texts = value if isinstance(value, list) else [value]
    return any("\x00" in text for text in texts if isinstance(text, str))


_json_encoder = msgspec.json.Encoder()


@cache
def _fields(request: type[Request]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(request)


@cache
def _field_options(request: type[Request]) -> dict[str, dict[str, Any]]:
    return {f.encode_name: _options_of(msgspec.inspect.type_info(f.type)) for f in msgspec.structs.fields(request)}


def _options_of(info: msgspec.inspect.Type) -> dict[str, Any]:
    if isinstance(info, msgspec.inspect.Metadata):
        return {**_options_of(info.type), **(info.extra or {})}
    if isinstance(info, msgspec.inspect.UnionType):
        return {key: value for member in info.types for key, value in _options_of(member).items()}
    return {}


@cache
def _fields_with_role(request: type[Request], role: str) -> tuple[str, ...]:
    return tuple(name for name, extra in _field_options(request).items() if extra.get("role") == role)


_PATH = re.compile(r" - at (?:`key` in )?`\$(?:\.([^`]*))?`$")
_FLOAT = re.compile(r"^Expected `int(?: \| null)?`, got `float`")


def _convert(arguments: dict[str, Any], request: type[Request], tries: int = 32) -> Request:
    """Convert strictly, except that 5.0 is an integer, as in JSON Schema."""
    register_type(request)
    try:
        return msgspec.convert(arguments, request, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _PATH.search(text)
        where = found[1] if found and found[1] else ""
        if tries and _FLOAT.match(text):
            whole = _try_integer_at(arguments, re.findall(r"[^.\[\]]+", where))
            if whole is not arguments:
                return _convert(whole, request, tries - 1)
        unknown = re.search(r"unknown field `([^`]*)`", text)
        if unknown:
            name = f"{where}.{unknown[1]}" if where else unknown[1]
            raise Invalid(f"{name}: unknown field", fields=[name]) from None
        what = _PATH.sub("", text) + _choices(request, where)
        raise Invalid(f"{where}: {what}" if where else what, fields=[where] if where else []) from None


def _choices(request: type[Request], where: str) -> str:
    """List the allowed values of an enum field, as the end of an error message."""
    info = _field_types(request).get(where.partition("[")[0])
    if isinstance(info, msgspec.inspect.ListType):
        info = bare_type(info.item_type)
    return (
        f"; must be one of {', '.join(map(str, info.values))}" if isinstance(info, msgspec.inspect.LiteralType) else ""
    )


def _integer_at(value: Any, path: list[str]) -> Any:
    """Return a copy in which the integral float at a path is an integer; so are those at this path in list siblings.

    Raises ValueError if there is none.
    """
    if not path:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise ValueError
    step, *rest = path
    if isinstance(value, dict):
        return {**value, step: _integer_at(value[step], rest)}
    others = [_try_integer_at(item, rest) for item in value]
    return [*others[: int(step)], _integer_at(value[int(step)], rest), *others[int(step) + 1 :]]


def _try_integer_at(value: Any, path: list[str]) -> Any:
    try:
        return _integer_at(value, path)
    except (LookupError, TypeError, ValueError):
        return value


class Entry(NamedTuple):
    """Index entry of an operation, known before its module is imported."""

    name: str
    module: str
    cli: tuple[str, ...]
    summary: str
    surfaces: Collection[Surface]
    aliases: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The feature that declares it."""
        return feature_of(self.module)


def entry_of(op: Operation) -> Entry:
    return Entry(op.name, op.run.__module__, op.cli, op.summary, op.surfaces, op.aliases)


def feature_of(module: str) -> str:
    """Return the feature of a module: `recall` for `holdfast.features.recall.operations`."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 else parts[-1]


class Registry:
    """Operations by name, imported on first use. Iteration imports all, in the order of the index."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._declared: dict[str, Operation] = {}

    def add_index(self, entries: Iterable[Entry]) -> None:
        """Add index entries; their modules are imported on first use."""
        known = {entry.name: entry for entry in entries}
        self.entries = known | {name: entry for name, entry in self.entries.items() if name not in known}

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Operation]:
        return iter([self[name] for name in self.entries])

    def __getitem__(self, name: str) -> Operation:
        if name not in self._declared and name in self.entries:
            import_module(self.entries[name].module)
        return self._declared[name]

    def declared_in(self, module: str) -> list[Operation]:
        """Return the operations of an imported module."""
        return [op for op in self._declared.values() if op.run.__module__ == module]

    def add(self, operations: Iterable[Operation]) -> None:
        """Add operations that another registry declared."""
        for op in operations:
            self._declared[op.name] = op
            self.entries.setdefault(op.name, entry_of(op))

    def operation(
        self, effect: Effect, route: str, *, name: str | None = None, cli: Sequence[str] = (), **more: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare a function as an operation; request and answer types come from its annotations."""

        def declare(run: Callable[..., Any]) -> Callable[..., Any]:
            called = name or run.__name__
            _, request, *progress, answer = run.__annotations__.values()
            method, path = route.split()
            text = inspect.cleandoc(run.__doc__ or "")
            if called in self._declared:
                raise ValueError(f"{called} is declared twice")
            surfaces = frozenset(more.pop("surfaces", SURFACES))
            self._declared[called] = Operation(
                name=called,
                effect=effect,
                method=method,
                path=path,
                summary=text.split("\n", 1)[0],
                description=text,
                request=request,
                answer=answer,
                run=run,
                reports=bool(progress),
                cli=tuple(cli) or (called.replace("_", "-"),),
                surfaces=surfaces,
                **more,
            )
            self.entries.setdefault(called, entry_of(self._declared[called]))
            return run

        return declare


REGISTRY = Registry()
operation = REGISTRY.operation


_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def parse_words(operation: Operation, words: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Parse arguments from text. A `str` field is never converted; a scalar given twice is an error."""
    known = _field_types(operation.request)
    arguments: dict[str, Any] = {}
    for name, given in words.items():
        if name not in known:
            raise Invalid(f"{name}: unknown field", fields=[name])
        arguments[name] = _parse_words(name, known[name], list(given))
    return arguments


@cache
def _field_types(request: type[Request]) -> dict[str, msgspec.inspect.Type]:
    return {f.encode_name: bare_type(msgspec.inspect.type_info(f.type)) for f in msgspec.structs.fields(request)}


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


def bare_type(info: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """Return a field's type without metadata, null and unset."""
    if isinstance(info, msgspec.inspect.Metadata):
        return bare_type(info.type)
    if isinstance(info, msgspec.inspect.UnionType):
        kinds = [t for t in info.types if not isinstance(t, msgspec.inspect.NoneType)]
        if len(kinds) == 1:
            return bare_type(kinds[0])
        strings = [t for t in kinds if isinstance(bare_type(t), msgspec.inspect.StrType)]
        return bare_type(strings[0]) if strings else info
    return info


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


def value_or_unset(value: Any) -> Any:
    return UNSET if value is None else value

"""Operations: CLI commands, HTTP routes, MCP tools and the reference are all derived from one definition."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import cache, partial
from importlib import import_module
from keyword import iskeyword
from typing import Any, Literal, NamedTuple

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
    topic: str = ""
    """The feature that lists it, if not the one that declares it: `get` is listed with the memories."""
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
    columns: tuple[str, ...] = ()
    """Columns of the table in which the command line shows listed records, or the heading of one record.

    In a table, `id` is short; `id!` is whole, for operations that take no prefix of it.
    """
    empty: str = ""
    """What it prints instead of an empty table."""
    human: str | None = None
    """Function that renders its answer for people, as `module:function`."""
    examples: tuple[Example, ...] = ()

    @property
    def family(self) -> str:
        """The feature that lists it."""
        return self.topic or feature_of(self.run.__module__)

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
            own_fields = {name: value for name, value in arguments.items() if name in own}
            arguments = {**own_fields, self.whole: {name: arguments[name] for name in arguments if name not in own}}
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
            known = [] if where else [field.encode_name for field in _fields(request)]
            raise Invalid(explain_unknown_field(name, known), fields=[name]) from None
        what = _PATH.sub("", text) + _choices(request, where)
        raise Invalid(f"{where}: {what}" if where else what, fields=[where] if where else []) from None


def python_name(name: str) -> str:
    """Return a name as Python can write it: `import_` for `import`."""
    return f"{name}_" if iskeyword(name) else name


def find_near_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that a mistyped one resembles; empty if there is none."""
    return next(iter(get_close_matches(name, known, n=1)), "")


def explain_unknown_field(name: str, known: Iterable[str]) -> str:
    """Return the message about a field that does not exist, with the nearest name."""
    near = find_near_name(name, known)
    return f"{name}: unknown field" + (f"; did you mean {near}?" if near else "")


def _choices(request: type[Request], where: str) -> str:
    """List the allowed values of an enum field, as the end of an error message."""
    info = field_types(request).get(where.partition("[")[0])
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
    topic: str = ""
    has_records: bool = True
    """Whether its answer contains what is encoded in another form than it has."""

    @property
    def family(self) -> str:
        """The feature that lists it."""
        return self.topic or feature_of(self.module)


def entry_of(op: Operation) -> Entry:
    return Entry(op.name, op.run.__module__, op.cli, op.summary, op.surfaces, op.aliases, op.topic)


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


@cache
def field_types(request: type[Request]) -> dict[str, msgspec.inspect.Type]:
    return {f.encode_name: bare_type(msgspec.inspect.type_info(f.type)) for f in msgspec.structs.fields(request)}


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


def value_or_unset(value: Any) -> Any:
    return UNSET if value is None else value

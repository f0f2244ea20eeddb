"""One definition per operation: the CLI command, the HTTP route, the MCP tool and the reference derive from it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Struct

from holdfast.kernel.caller import Caller, Right
from holdfast.kernel.context import SILENT, Hold, Interceptor, Progress
from holdfast.kernel.errors import FilterRequired, Forbidden, Invalid
from holdfast.kernel.msgspec_lock import learn
from holdfast.kernel.registry.stages import Parts, Stage

Surface = Literal["library", "cli", "http", "mcp"]
SURFACES: tuple[Surface, ...] = ("library", "cli", "http", "mcp")
FAMILIES = ("core", "lifecycle", "graph", "governance", "power", "meta", "archive", "other")


class Effect(Enum):
    READ = "read"
    WRITE = "write"
    DESTROY = "destroy"
    """Takes something away, even if `undo` or the archive can bring it back."""


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operation is asked. An unknown field is an error, never ignored."""


class Nothing(Request, frozen=True):
    """No parameters."""


class Example(Struct, frozen=True):
    """A call that the parity test makes on every surface."""

    arguments: dict[str, Any]
    error: str | None = None
    """The code it is refused with."""


class Operation(Struct, frozen=True):
    """One thing that may be asked."""

    name: str
    effect: Effect
    method: str
    path: str
    family: str
    summary: str
    description: str
    request: type[Request]
    answer: type
    run: Callable[..., Any]
    admin: bool = False
    surfaces: frozenset[Surface] = frozenset(SURFACES)
    cli: tuple[str, ...] = ()
    status: int = 200
    bulk: str | None = None
    """The field that a bare JSON array fills."""
    whole: str | None = None
    """The field that a whole JSON object fills if it is not named in it; the other fields keep their names."""
    at_least_one: tuple[str, ...] = ()
    irreversible: bool = False
    """The CLI asks before it does this."""
    opens_nothing: bool = False
    """The command line opens a store for it only once it is needed, and makes none."""
    makes_store: bool = False
    """The command line makes a store for it if there is none, though it only reads: it shows who the store is."""
    feed: bool = False
    """Its pages follow one another by `after` and `next`: it can be streamed live."""
    repeats: bool = False
    """It is worth doing again and again: the command line has --daemon for it."""
    reports: bool = False
    """It takes a progress as its third parameter."""
    asks: bool = False
    """It asks the model that is set, if there is one, and may wait for it for long."""
    most_bytes: int | None = None
    """Of a request over HTTP, if others than the settings say; both it and the answer may come compressed then."""
    stage: Stage | None = None
    """Of which lifecycle hooks it is a part."""
    stages: tuple[Stage, ...] = ()
    """Instead of one: those of which it may be a part, by what a request says."""
    parts: Callable[[Hold, Any], Parts] | None = None
    """Of which of them a request is a part, and what it does there; hooks then agree or refuse, but change nothing."""
    waits: bool = False
    """It may answer that what was asked for is not done yet, but waits for somebody's consent."""
    human: str | None = None
    """Who prints its answer for a person, as `module:function`."""
    examples: tuple[Example, ...] = ()

    @property
    def fields(self) -> tuple[msgspec.structs.FieldInfo, ...]:
        """What it takes, read when it is first needed: a command needs those of one operation."""
        return _fields(self.request)

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        return self.stages if self.stage is None else (self.stage,)

    @property
    def right(self) -> Right:
        """What a key needs for it."""
        if self.admin:
            return "admin"
        return "read" if self.effect is Effect.READ else "write"

    def has_hooks(self, hold: Hold) -> bool:
        """Whether somebody may be asked about it first, and waited for."""
        return any(one.waits and one.applies(self) for one in hold.interceptors)

    def call(self, hold: Hold, caller: Caller, arguments: Mapping[str, Any], progress: Progress = SILENT) -> Any:
        """Authorise, validate and run, through the interceptors of the open store."""
        return self._call_through(hold.interceptors, hold, caller, arguments, progress)

    def _call_through(
        self,
        interceptors: Sequence[Interceptor],
        hold: Hold,
        caller: Caller,
        arguments: Mapping[str, Any],
        progress: Progress,
    ) -> Any:
        for place, interceptor in enumerate(interceptors, 1):
            if interceptor.applies(self):
                proceed = partial(self._call_through, interceptors[place:], hold, caller, arguments, progress)
                return interceptor.call(self, hold, caller, arguments, progress, proceed)
        self.require_right(caller)
        caller, request = self.admitted(caller, arguments)
        return self.perform(hold.seen_by(caller, progress), request)

    def require_right(self, caller: Caller) -> None:
        """Raise unless the caller has the right that this operation needs."""
        if not caller.may(self.right):
            raise Forbidden(f"{self.name} needs the {self.right} right; this key has {caller.right}.")

    def admitted(self, caller: Caller, arguments: Mapping[str, Any]) -> tuple[Caller, Request]:
        """As whom the request is made, and the request itself; raises if it is not theirs to make."""
        request = self.admit(arguments)
        for name in self.having("actor"):
            if (agent := getattr(request, name)) is not None:
                caller = caller.acting_as(agent)
        for name in self.having("namespace"):
            if (value := getattr(request, name)) is not None:
                for namespace in [value] if isinstance(value, str) else value:
                    caller.must_reach(namespace)
        return caller, request

    def perform(self, seen: Hold, request: Request) -> Any:
        """Do what was admitted."""
        answer = self.run(seen, request, seen.progress) if self.reports else self.run(seen, request)
        seen.agreed()
        return answer

    def admit(self, arguments: Mapping[str, Any]) -> Request:
        """The typed request, or an error that names the field."""
        if self.whole is not None and arguments and self.whole not in arguments:
            own = {field.encode_name for field in self.fields}
            told = {name: value for name, value in arguments.items() if name in own}
            arguments = {**told, self.whole: {name: arguments[name] for name in arguments if name not in own}}
        missing = [field.encode_name for field in self.fields if field.required and field.encode_name not in arguments]
        if missing:
            raise Invalid(f"{', '.join(missing)}: required", fields=missing)
        if self.at_least_one and all(arguments.get(name) in (None, "", [], ()) for name in self.at_least_one):
            raise FilterRequired(f"Name at least one of {', '.join(self.at_least_one)}.", fields=[*self.at_least_one])
        for name, value in arguments.items():
            if _holds_nul(value) and name not in self.having("words"):
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

    def named(self, positional: Sequence[Any]) -> dict[str, Any]:
        """Arguments given by place: the required fields first, then those that a command line takes by place."""
        if not positional:
            return {}
        names = [f.encode_name for f in self.fields if f.required or self.extra(f.encode_name, "argument")]
        if len(positional) > len(names):
            raise Invalid(f"{self.name} takes {len(names)} arguments by place, got {len(positional)}.")
        return dict(zip(names, positional, strict=False))

    def having(self, role: str) -> tuple[str, ...]:
        """The fields of a role: `namespace` (a key must reach it), `actor` (who the caller claims to be), `words`."""
        return _having(self.request, role)

    def extra(self, name: str, key: str, default: Any = None) -> Any:
        """What a field's declaration says for one surface: `short`, `stdin`, `argument`, `role`, `not_on`."""
        return _extras(self.request).get(name, {}).get(key, default)


def _holds_nul(value: Any) -> bool:
    """What no store looks up or keeps; the parts of larger things are looked at one by one, by `admit`."""
    texts = value if isinstance(value, list) else [value]
    return any("\x00" in text for text in texts if isinstance(text, str))


_json_encoder = msgspec.json.Encoder()


@cache
def _fields(request: type[Request]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(request)


@cache
def _extras(request: type[Request]) -> dict[str, dict[str, Any]]:
    return {f.encode_name: _extra_of(msgspec.inspect.type_info(f.type)) for f in msgspec.structs.fields(request)}


def _extra_of(info: msgspec.inspect.Type) -> dict[str, Any]:
    if isinstance(info, msgspec.inspect.Metadata):
        return {**_extra_of(info.type), **(info.extra or {})}
    if isinstance(info, msgspec.inspect.UnionType):
        return {key: value for member in info.types for key, value in _extra_of(member).items()}
    return {}


@cache
def _having(request: type[Request], role: str) -> tuple[str, ...]:
    return tuple(name for name, extra in _extras(request).items() if extra.get("role") == role)


_PATH = re.compile(r" - at (?:`key` in )?`\$(?:\.([^`]*))?`$")
_FLOAT = re.compile(r"^Expected `int(?: \| null)?`, got `float`")


def _convert(arguments: dict[str, Any], request: type[Request], tries: int = 32) -> Request:
    """Strictly; but 5.0 is an integer, as in JSON Schema."""
    learn(request)
    try:
        return msgspec.convert(arguments, request, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _PATH.search(text)
        where = found[1] if found and found[1] else ""
        if tries and _FLOAT.match(text):
            whole = _whole_if_any(arguments, re.findall(r"[^.\[\]]+", where))
            if whole is not arguments:
                return _convert(whole, request, tries - 1)
        unknown = re.search(r"unknown field `([^`]*)`", text)
        if unknown:
            name = f"{where}.{unknown[1]}" if where else unknown[1]
            raise Invalid(f"{name}: unknown field", fields=[name]) from None
        what = _PATH.sub("", text) + _choices(request, where)
        raise Invalid(f"{where}: {what}" if where else what, fields=[where] if where else []) from None


def _choices(request: type[Request], where: str) -> str:
    """Which values a field takes, if it takes only some; for the end of an error."""
    info = _types(request).get(where.partition("[")[0])
    if isinstance(info, msgspec.inspect.ListType):
        info = bare(info.item_type)
    return f"; choose among {', '.join(map(str, info.values))}" if isinstance(info, msgspec.inspect.LiteralType) else ""


def _whole_at(value: Any, path: list[str]) -> Any:
    """A copy in which the integral float at a path, and at the same place of its neighbours in a list, is an integer.

    Raises if there is none.
    """
    if not path:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise ValueError
    step, *rest = path
    if isinstance(value, dict):
        return {**value, step: _whole_at(value[step], rest)}
    others = [_whole_if_any(item, rest) for item in value]
    return [*others[: int(step)], _whole_at(value[int(step)], rest), *others[int(step) + 1 :]]


def _whole_if_any(value: Any, path: list[str]) -> Any:
    try:
        return _whole_at(value, path)
    except (LookupError, TypeError, ValueError):
        return value


class Entry(NamedTuple):
    """What is known of an operation before the module that declares it is imported."""

    name: str
    module: str
    cli: tuple[str, ...]
    family: str
    summary: str
    surfaces: Collection[Surface]


def entry_of(op: Operation) -> Entry:
    return Entry(op.name, op.run.__module__, op.cli, op.family, op.summary, op.surfaces)


class Registry:
    """Every operation by name, imported when it is first needed. Iterating imports them all, in the index's order."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._declared: dict[str, Operation] = {}

    def add_index(self, entries: Iterable[Entry]) -> None:
        """Make operations known whose modules are imported later."""
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
        """The operations of one imported module."""
        return [op for op in self._declared.values() if op.run.__module__ == module]

    def add(self, operations: Iterable[Operation]) -> None:
        """Add operations that another registry declared."""
        for op in operations:
            self._declared[op.name] = op
            self.entries.setdefault(op.name, entry_of(op))

    def operation(
        self, effect: Effect, route: str, *, name: str | None = None, family: str, cli: Sequence[str] = (), **more: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare a function as an operation; its types say what it takes and gives."""

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
                family=family,
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


_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def from_words(operation: Operation, words: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Arguments from text. A `str` field is never converted; a scalar given twice is an error."""
    known = _types(operation.request)
    arguments: dict[str, Any] = {}
    for name, given in words.items():
        if name not in known:
            raise Invalid(f"{name}: unknown field", fields=[name])
        arguments[name] = _typed(name, known[name], list(given))
    return arguments


@cache
def _types(request: type[Request]) -> dict[str, msgspec.inspect.Type]:
    return {f.encode_name: bare(msgspec.inspect.type_info(f.type)) for f in msgspec.structs.fields(request)}


def _typed(name: str, info: msgspec.inspect.Type, given: list[str]) -> Any:
    match info:
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            if not isinstance(bare(info.item_type), msgspec.inspect.StrType | msgspec.inspect.LiteralType):
                return [_json(name, text) for text in given] if len(given) > 1 else _listed(_json(name, given[0]))
            return [part.strip() for text in given for part in text.split(",")]
        case msgspec.inspect.DictType():
            if len(given) == 1 and given[0].lstrip().startswith("{"):
                return _json(name, given[0])
            pairs = [text.partition("=") for text in given]
            if any(not sign for _, sign, _ in pairs):
                raise Invalid(f"{name}: write it as JSON or as key=value", fields=[name])
            return {key: value for key, _, value in pairs}
    if len(given) > 1:
        raise Invalid(f"{name}: given more than once", fields=[name])
    text = given[0]
    match info:
        case msgspec.inspect.StrType() | msgspec.inspect.LiteralType():
            return text
        case msgspec.inspect.BoolType():
            if text.lower() in _TRUTH:
                return _TRUTH[text.lower()]
            raise Invalid(f"{name}: true or false", fields=[name])
        case msgspec.inspect.IntType():
            if re.fullmatch(r"[+-]?[0-9]{1,30}", text):
                return int(text)
            raise Invalid(f"{name}: a whole number", fields=[name])
        case msgspec.inspect.FloatType():
            try:
                return msgspec.json.decode(text.encode(), type=float)
            except msgspec.DecodeError:
                raise Invalid(f"{name}: a number", fields=[name]) from None
        case _:
            return _json(name, text)


def bare(info: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """A field's type without its metadata, null and unset alternatives."""
    if isinstance(info, msgspec.inspect.Metadata):
        return bare(info.type)
    if isinstance(info, msgspec.inspect.UnionType):
        kinds = [t for t in info.types if not isinstance(t, msgspec.inspect.NoneType)]
        if len(kinds) == 1:
            return bare(kinds[0])
        strings = [t for t in kinds if isinstance(bare(t), msgspec.inspect.StrType)]
        return bare(strings[0]) if strings else info
    return info


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise Invalid(f"{name}: not valid JSON", fields=[name]) from None


def alternatives(type_: Any) -> tuple[str, ...]:
    """The words that a field takes, in the order of their declaration."""
    if get_origin(type_) is Literal:
        return get_args(type_)
    return next((found for inner in get_args(type_) if (found := alternatives(inner))), ())


def order_enums(properties: dict[str, Any], record: type[Struct]) -> None:
    """List the values of each field in the order of their declaration; msgspec sorts them."""
    for field in msgspec.structs.fields(record):
        words = alternatives(field.type)
        for node in _choosing(properties[field.encode_name]):
            if set(node["enum"]) == set(words):
                node["enum"] = list(words)


def _choosing(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a field's schema that take only some values: itself, its entries or its alternatives."""
    if "enum" in node:
        yield node
    for inner in (node.get("items"), *node.get("anyOf", ())):
        if isinstance(inner, dict):
            yield from _choosing(inner)

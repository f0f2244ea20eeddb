"""Derive from each answer type its form on the wire and its form in the library.

An answer is a record, or a struct of records. Its annotations say how it is encoded:

- `Time` and `TimeText` are RFC 3339 text on the wire and aware datetimes in the library.
- Any other value with a text form in exports (`ExportAs.format`) has it here, too.
- A field with the default None or UNSET is omitted on the wire while it has none, and None in the library. A field
  marked `SPARSE` is omitted while it is empty; empty text is None in the library.
- `PRIVATE` fields stay inside. A `Named("agent_id")` field has another name outside.
- A property declared with `@computed` is one more field.

Conversion functions are compiled once per type, as dataclasses compile theirs.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, reduce
from operator import or_
from threading import RLock
from typing import (
    Annotated,
    Any,
    ClassVar,
    ForwardRef,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType

from holdfast.kernel.records.fields import ExportAs, computed
from holdfast.kernel.timestamps import EPOCH, format_datetime, format_timestamp

Form = Literal["wire", "library"]
Converter = Callable[[Any], Any]
Code = Callable[[str], str]
"""Takes a cheap expression of a value and returns the expression of its converted value."""
T_co = TypeVar("T_co", covariant=True)

TYPES_MODULE = "holdfast.types"
"""Module in which programs find the types of results."""


class Result(Struct, frozen=True):
    """A result of the library. Times are aware datetimes; what is not there is None."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, as the other surfaces send it: RFC 3339 times, nothing that is None."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {
            name: _to_json(value)
            for name, value in values
            if (value is not None or name not in self._optional) and (value or name not in self._sparse)
        }

    _optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are omitted while they are None."""
    _sparse: ClassVar[frozenset[str]] = frozenset()
    """Fields that are omitted while they are empty."""
    _source: ClassVar[type[Struct]]
    """The struct that the operation returns."""


class ResultList(Result, Generic[T_co], frozen=True):
    """A result that lists records: iterate over it, count them with `len`, take one by its index."""

    _list_field: ClassVar[str]

    def _items(self) -> Sequence[T_co]:
        return getattr(self, self._list_field)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    @overload
    def __getitem__(self, index: int) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...

    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        items = self._items()
        if isinstance(index, int) and not -len(items) <= index < len(items):
            advice = f"it has {len(items)}" if items else "it is empty. Check `if result:` before you take an item"
            raise IndexError(f"{type(self).__name__}.{self._list_field} has no item {index}: {advice}.")
        return items[index]


def _to_json(value: Any) -> Any:
    match value:
        case Result():
            return value.to_dict()
        case datetime():
            return format_datetime(value)
        case list() | tuple():
            return [_to_json(item) for item in value]
        case dict():
            return {key: _to_json(item) for key, item in value.items()}
        case _:
            return msgspec.to_builtins(value)


def to_wire(answer: Any) -> Any:
    """Convert an answer to the structs that are encoded as JSON."""
    return get_converter(answer.__class__, "wire")(answer)


@cache
def get_converter(annotation: Any, form: Form) -> Converter:
    """Return the function that converts an answer of a type."""
    code = _derive_shape(annotation, form).code
    return eval(f"lambda value: {code('value') if code else 'value'}", _names)  # type: ignore[no-any-return]  # noqa: S307 - our declarations


def wire_type(annotation: Any) -> Any:
    """Return the type that an answer has on the wire, for schemas."""
    return _derive_shape(annotation, "wire").type


def library_type(annotation: Any) -> Any:
    """Return the type that an answer has in the library, for signatures."""
    return _derive_shape(annotation, "library").type


def join_types(members: Iterable[Any]) -> Any:
    """Return the union of types, which is printed as `str | None`."""
    return reduce(or_, members)


def is_time(annotation: Any) -> bool:
    """Whether an annotated type is a time: `Time`, `TimeText`, or a time that a request takes."""
    return any(isinstance(one, Meta) and (one.extra or {}).get("time") for one in get_args(annotation)[1:])


def _field_extra(annotation: Any) -> dict[str, Any]:
    """Return the `extra` metadata of a field, through unions."""
    if _get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        own = [one.extra or {} for one in metadata if isinstance(one, Meta)]
        return {key: value for extra in (_field_extra(inner), *own) for key, value in extra.items()}
    members = get_args(annotation) if _get_origin(annotation) is Union else ()
    return {key: value for member in members for key, value in _field_extra(member).items()}


@cache
def list_field(struct: type[Struct]) -> str | None:
    """Return the field whose items a result lists; None if it is no list.

    A list has one required field of structs, beside its `count` or alone.
    """
    fields = msgspec.structs.fields(struct)
    lists = [field.name for field in fields if field.required and _is_struct_list(field.type)]
    return lists[0] if len(lists) == 1 and (len(fields) == 1 or any(one.name == "count" for one in fields)) else None


def _is_struct_list(annotation: Any) -> bool:
    arguments = get_args(annotation)
    return _get_origin(annotation) in (list, Sequence) and _is_struct(arguments[0])


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


class _Shape(NamedTuple):
    """A derived type and the code that converts to it; None if the value stays as it is."""

    type: Any
    code: Code | None


class _Field(NamedTuple):
    """A field outside: its name, the attribute it comes from, its type, its default and the code that converts it."""

    name: str
    source: str
    type: Any
    default: Any
    code: Code
    is_changed: bool
    is_optional: bool
    """Whether it is omitted on the wire while it is None."""
    is_sparse: bool
    """Whether it is omitted on the wire while it is empty."""


_names: dict[str, Any] = {
    "UNSET": UNSET,
    "format_timestamp": format_timestamp,
    "EPOCH": EPOCH,
    "timedelta": timedelta,
    "MIN_TIME": (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1),
    "MAX_TIME": (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1),
    "parse_datetime": datetime.fromisoformat,
}
"""What compiled functions use."""


def _add_name(value: Any) -> str:
    """Give a value a name in compiled functions."""
    name = f"_{len(_names)}"
    _names[name] = value
    return name


def _get_origin(annotation: Any) -> Any:
    """Return the origin as `typing.get_origin` does, in a tenth of the time."""
    if hasattr(annotation, "__metadata__"):
        return Annotated
    return Union if type(annotation) is types.UnionType else getattr(annotation, "__origin__", None)


_lock = RLock()


def _derive_shape(annotation: Any, form: Form) -> _Shape:
    """Derive the shape of an annotation, in one thread at a time: a struct may contain itself."""
    with _lock:
        return _shape(annotation, form)


@cache
def _shape(annotation: Any, form: Form) -> _Shape:
    """Derive the shape of any annotation."""
    origin, arguments = _get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if is_time(annotation):
            return _time_shape(arguments[0], form)
        formats = [one.format for one in arguments[1:] if isinstance(one, ExportAs) and one.format is not None]
        return _text_shape(formats[0]) if formats else _shape(arguments[0], form)
    if origin is Union:
        return _union_shape(arguments, form)
    if origin in (list, Sequence):
        return _list_shape(annotation, arguments[0], form)
    if origin is dict:
        return _dict_shape(annotation, arguments, form)
    return _struct_shape(annotation, form) if _is_struct(annotation) else _Shape(annotation, None)


def _time_shape(kind: type, form: Form) -> _Shape:
    if form == "wire":
        return _Shape(str, None if kind is str else lambda value: f"format_timestamp({value})")
    if kind is str:
        return _Shape(datetime, lambda value: f"parse_datetime({value})")
    # A time outside the years 1 to 9999 is clamped.
    return _Shape(datetime, lambda value: f"EPOCH + timedelta(0, 0, min(max({value}, MIN_TIME), MAX_TIME))")


def _text_shape(format: Converter) -> _Shape:
    name = _add_name(format)
    return _Shape(str, lambda value: f"{name}({value})")


def _union_shape(members: tuple[Any, ...], form: Form) -> _Shape:
    """A value of a union is converted as the member that it is an instance of."""
    kept = [_shape(member, form) for member in members if member is not UnsetType or form == "wire"]
    if form == "library" and UnsetType in members and type(None) not in members:
        kept.append(_Shape(type(None), None))
    converted = [(_runtime_class(member), code) for member in members if (code := _shape(member, form).code)]
    union = join_types(shape.type for shape in kept)
    if not converted and (form == "wire" or UnsetType not in members):
        return _Shape(union, None)
    classes = [(_add_name(kind), code) for kind, code in converted]

    def convert_member(value: str) -> str:
        code = value if form == "wire" else f"None if {value} is UNSET else {value}"
        for kind, convert in reversed(classes):
            code = f"{convert(value)} if isinstance({value}, {kind}) else {code}"
        return f"({code})"

    return _Shape(union, convert_member)


def _runtime_class(annotation: Any) -> type:
    origin = _get_origin(annotation)
    if origin is Annotated:
        return _runtime_class(get_args(annotation)[0])
    return origin or annotation  # type: ignore[no-any-return]


def _list_shape(annotation: Any, item: Any, form: Form) -> _Shape:
    shape, each = _shape(item, form), _add_name(None)
    if (code := shape.code) is None:
        return _Shape(annotation, None)
    return _Shape(list.__class_getitem__(shape.type), lambda value: f"[{code(each)} for {each} in {value}]")


def _dict_shape(annotation: Any, arguments: tuple[Any, ...], form: Form) -> _Shape:
    shape, key, each = _shape(arguments[1], form), _add_name(None), _add_name(None)
    if (code := shape.code) is None:
        return _Shape(annotation, None)
    return _Shape(
        dict.__class_getitem__((arguments[0], shape.type)),
        lambda value: f"{{{key}: {code(each)} for {key}, {each} in {value}.items()}}",
    )


def _struct_shape(source: type[Struct], form: Form) -> _Shape:
    """Derive the struct outside. On the wire, a struct with nothing to convert is used as it is."""
    if (source, form) in _unfinished:
        return _recursive_shape(source, form)
    _unfinished[source, form] = convert = _add_name(None)
    fields = _derive_fields(source, form)
    del _unfinished[source, form]
    is_same = len(fields) == len(source.__struct_fields__) and not any(field.is_changed for field in fields)
    if form == "wire" and is_same:
        return _Shape(source, None)
    base = _derive_base(source, form)
    inherited = {field.name for field in msgspec.structs.fields(base)} if base is not None else set()
    derived = msgspec.defstruct(
        source.__name__,
        [
            (field.name, field.type) if field.default is NODEFAULT else (field.name, field.type, field.default)
            for field in fields
            if field.name not in inherited
        ],
        bases=(base or Struct,),
        namespace={
            "__doc__": source.__doc__,
            "_optional": frozenset(field.name for field in fields if field.is_optional),
            "_sparse": frozenset(field.name for field in fields if field.is_sparse),
            "_list_field": list_field(source),
            "_source": source,
        },
        module=TYPES_MODULE if form == "library" else source.__module__,
        frozen=True,
        kw_only=True,
        repr_omit_defaults=True,
    )
    parts = ", ".join(f"{field.name}={field.code(f'value.{field.source}')}" for field in fields)
    _names[convert] = eval(f"lambda value: {_add_name(derived)}({parts})", _names)  # noqa: S307 - our declarations
    return _Shape(derived, lambda value: f"{convert}({value})")


_unfinished: dict[tuple[type[Struct], Form], str] = {}
"""Structs whose fields are being derived, and the names of their conversion functions."""


def _recursive_shape(source: type[Struct], form: Form) -> _Shape:
    """Return the shape of a struct inside itself. On the wire it must have nothing to convert."""
    convert = _unfinished[source, form]
    if form == "wire":
        return _Shape(source, None)
    return _Shape(ForwardRef(source.__name__), lambda value: f"{convert}({value})")


def _derive_base(source: type[Struct], form: Form) -> type[Struct] | None:
    """Return the base class of a derived struct: that of its source, if it is an answer too."""
    if form == "wire":
        return None
    base: Any = source.__base__
    if base is not Struct and _is_struct(base) and base.__struct_fields__:
        return library_type(base)  # type: ignore[no-any-return]
    return ResultList if list_field(source) else Result


def _derive_fields(source: type[Struct], form: Form) -> list[_Field]:
    declared = [
        (field.encode_name, field.name, field.type, field.default is None or field.default is UNSET)
        for field in msgspec.structs.fields(source)
    ]
    for name, annotation in _computed_fields(source).items():
        declared.append((name, name, annotation, type(None) in get_args(annotation)))
    return [
        _derive_field(name, attribute, annotation, optional, form)
        for name, attribute, annotation, optional in declared
        if not _field_extra(annotation).get("private")
    ]


def _derive_field(name: str, source: str, annotation: Any, optional: bool, form: Form) -> _Field:
    extra, shape = _field_extra(annotation), _shape(annotation, form)
    if _get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    name = extra.get("name", name)
    convert = shape.code or (lambda value: value)
    is_sparse = bool(extra.get("sparse"))
    if form == "library" and is_sparse and annotation is str:
        return _Field(name, source, str | None, None, lambda value: f"{value} or None", True, optional, is_sparse)
    if form == "library":
        return _Field(name, source, shape.type, None if optional else NODEFAULT, convert, True, optional, is_sparse)
    is_changed = shape.code is not None or name != source
    if is_sparse or (optional and type(None) in get_args(annotation) and UnsetType not in get_args(annotation)):
        missing = "not {}" if is_sparse else "{} is None"
        return _Field(
            name,
            source,
            _without_none(shape.type) | UnsetType,
            UNSET,
            lambda value: f"UNSET if {missing.format(value)} else {convert(value)}",
            is_changed=True,
            is_optional=True,
            is_sparse=is_sparse,
        )
    return _Field(name, source, shape.type, UNSET if optional else NODEFAULT, convert, is_changed, optional, False)


def _without_none(annotation: Any) -> Any:
    if _get_origin(annotation) is Union:
        return join_types(member for member in get_args(annotation) if member is not type(None))
    return annotation


def _computed_fields(source: type[Struct]) -> dict[str, Any]:
    """Return the computed fields of a struct and its bases, in order of declaration, with their types."""
    return {
        name: get_type_hints(value.fget, include_extras=True)["return"]
        for base in reversed(source.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, computed)
    }

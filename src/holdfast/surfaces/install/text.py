"""Shared by the editors of all formats: text positions, paths into parsed content, and splices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.kernel.errors import FileMalformed, FileRefused

Step = str | Callable[[Any], bool]
"""A key of an object, or a predicate that selects an element of a list."""
EntryPath = tuple[Step, ...]
OwnPaths = Collection[EntryPath]
"""Paths of objects and lists created for our entry: they may be removed with it."""


_NOTHING = object()


@dataclass(frozen=True)
class Splice:
    """A replacement of one piece of a text."""

    start: int
    end: int
    new: str


def apply_splices(text: str, splices: Sequence[Splice]) -> str:
    """Apply non-overlapping splices to a text."""
    for one in sorted(splices, key=lambda one: one.start, reverse=True):
        text = text[: one.start] + one.new + text[one.end :]
    return text


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return line and column of a position, both from 1."""
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


def malformed_file(text: str, at: int, problem: str) -> FileMalformed:
    line, column = line_and_column(text, at)
    return FileMalformed(f"line {line}, column {column}: {problem}", line=line, column=column)


def wrong_kind_error(text: str, at: int, path: EntryPath, step: Step) -> FileMalformed:
    """Return the error for a value of the wrong type on a path."""
    wanted = "an object" if isinstance(step, str) else "a list"
    return malformed_file(text, at, f"{path_text(path) or 'the top level'} must be {wanted}")


def path_text(path: EntryPath) -> str:
    """Return a path in dotted form."""
    return ".".join(step if isinstance(step, str) else "[]" for step in path)


def unsafe_edit() -> FileRefused:
    return FileRefused("its format cannot be edited safely")


def newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return the end of a position's line, before its newline."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end > at and text[end - 1] == "\r" else end


def indent_of(text: str, at: int) -> str:
    """Return the indentation of a position's line."""
    line = text[line_start(text, at) : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def wrap_value(path: EntryPath, value: Any) -> Any:
    """Wrap a value in the objects and lists of a path."""
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def value_at(model: Any, path: EntryPath) -> Any:
    """Return the value at a path, or None."""
    for step in path:
        if isinstance(step, str):
            model = model.get(step) if isinstance(model, dict) else None
        else:
            model = next(filter(step, model), None) if isinstance(model, list) else None
    return model


def with_value(model: Any, path: EntryPath, value: Any) -> Any:
    """Return the content with a value set at a path; a new list element comes first."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        held = dict(model or {})
        return held | {step: with_value(held.get(step), rest, value)}
    items = list(model or [])
    at = next((number for number, item in enumerate(items) if step(item)), None)
    if at is None:
        return [with_value(None, rest, value), *items]
    return [*items[:at], with_value(items[at], rest, value), *items[at + 1 :]]


def without_value(model: Any, path: EntryPath) -> Any:
    """Return the content without the value at a path, and without parents that become empty."""
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        inner = without_value(model[step], rest) if rest and step in model else None
        others = {key: value for key, value in model.items() if key != step}
        return others | ({step: inner} if inner else {})
    at = next((number for number, item in enumerate(model) if step(item)), None)
    if at is None:
        return model
    inner = without_value(model[at], rest) if rest else None
    return [*model[:at], *([inner] if inner else []), *model[at + 1 :]]


def missing_keys(model: Any, path: EntryPath) -> list[tuple[str, ...]]:
    """Return the missing parent keys of a path, each as a full path."""
    keys: tuple[str, ...] = ()
    lacking = []
    for step in path[:-1]:
        if not isinstance(step, str):
            break
        keys = (*keys, step)
        model = model.get(step, _NOTHING) if isinstance(model, dict) else _NOTHING
        lacking += [keys] if model is _NOTHING else []
    return lacking


def without_empty(model: Any, path: EntryPath) -> Any:
    """Return the content without empty parents on a path."""
    if not path or not isinstance(model, dict) or not isinstance(path[0], str) or path[0] not in model:
        return model
    inner = without_empty(model[path[0]], path[1:])
    others = {key: value for key, value in model.items() if key != path[0]}
    return others | ({path[0]: inner} if inner else {})

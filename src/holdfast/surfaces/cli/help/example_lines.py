"""Examples of an operation as command lines."""

import re
from typing import Any

import msgspec

from holdfast.operations import Operation
from holdfast.surfaces.cli.help.flags import flag_of

SHOWN = 2
_PLAIN = re.compile(r"[\w@%+=:,./~-]+")
_QUOTABLE = re.compile(r'[^"$`\\!\n]+')


def list_examples(op: Operation) -> tuple[str, ...]:
    """Return two command lines that succeed. If only one is declared, the second prints JSON."""
    good = [one for one in op.examples if one.error is None and not _is_hidden(op, one.arguments)]
    good.sort(key=lambda one: not one.prepared)
    lines = [line for line in dict.fromkeys(command_line(op, one.arguments) for one in good) if _is_plain(line)][:SHOWN]
    if len(lines) == 1:
        lines.append(f"{lines[0]} --json")
    return tuple(lines)


def _is_plain(line: str) -> bool:
    """Whether a line is worth showing: on one line, and of a record that exists."""
    return "\n" not in line and "no-such" not in line


def _is_hidden(op: Operation, arguments: dict[str, Any]) -> bool:
    """Whether an argument is not on the command line."""
    return any("cli" in (op.field_option(name, "not_on") or ()) for name in arguments)


def command_line(op: Operation, arguments: dict[str, Any]) -> str:
    """Write a call as a command line: arguments in order, then options."""
    words, options, piped = [], [], ""
    for field in op.fields:
        name = field.encode_name
        if name not in arguments:
            continue
        value = arguments[name]
        if name == (op.bulk or op.whole):
            piped = f"echo {_in_quotes(_json(value))} | "
        elif op.field_option(name, "argument"):
            words += [quote(word) for word in (value if isinstance(value, list) else [_text(value)])]
        elif isinstance(value, bool):
            options.append(flag_of(op, name) if value else "--no-" + flag_of(op, name)[2:])
        else:
            options.append(f"{flag_of(op, name)} {quote(_text(value))}")
    if op.irreversible and not arguments.get("dry_run"):
        options.append("--yes")
    return piped + " ".join(["holdfast", *op.cli, *words, *options])


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return ",".join(value)
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _in_quotes(word: str) -> str:
    return "'" + word.replace("'", "'\"'\"'") + "'"


def quote(word: str) -> str:
    """Quote a word for a shell, as a person would."""
    if _PLAIN.fullmatch(word):
        return word
    return f'"{word}"' if _QUOTABLE.fullmatch(word) else _in_quotes(word)

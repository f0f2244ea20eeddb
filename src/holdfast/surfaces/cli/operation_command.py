"""The command of an operation: its arguments, options and examples, derived from its declaration."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click
import msgspec

from holdfast.kernel.registry.operation import bare_type
from holdfast.kernel.registry.words import enum_values
from holdfast.operations import Operation
from holdfast.surfaces.cli.global_options import global_options
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand, complete_names
from holdfast.surfaces.cli.help.example_lines import list_examples
from holdfast.surfaces.cli.help.flags import ADVANCED, HiddenNames, flag_of, former_flags

FIELD, SPELLED = "f_", "o_"
"""Prefixes of parameter names: a field, and an argument that was given as an option."""


def build_command(
    op: Operation, subcommands: Sequence[tuple[str, str]] = (), *, former: bool = False
) -> DocumentedCommand:
    """Build the command of an operation. Under a former name `--agent-id` means what it meant there."""
    params: list[click.Parameter] = []
    shorts: set[str] = set()
    for field in op.fields:
        name = field.encode_name
        if "cli" in (op.field_option(name, "not_on") or ()) or op.field_option(name, "role") == "actor":
            continue
        if name == (op.bulk or op.whole):
            params.append(_argument(f"{FIELD}{name}", "[FILE|-]", subcommands, default="-"))
        elif op.field_option(name, "argument"):
            params += _argument_of(op, field, subcommands)
        else:
            params.append(_option(op, field, shorts, former=former))
    if op.irreversible:
        params.append(click.Option(["--yes"], is_flag=True, help="Skip the confirmation."))
    if op.feed:
        params.append(click.Option(["--follow"], is_flag=True, help="Keep printing new changes."))
    if op.repeats:
        params += _repeat_options()
    taken = {"agent_id"} if any("--agent-id" in param.opts for param in params) else set()
    return DocumentedCommand(
        op.cli[-1],
        params=[*params, *global_options(taken)],
        help=op.description,
        callback=_callback(op),
        examples=partial(list_examples, op),
        advanced={f"{FIELD}{field.encode_name}" for field in op.fields if _is_advanced(op, field)},
        arguments=partial(_described_arguments, op),
        subcommands=list(subcommands),
    )


def _repeat_options() -> list[click.Parameter]:
    return [
        click.Option(["--once"], is_flag=True, help="Run once (default)."),
        click.Option(["--daemon"], is_flag=True, help="Repeat until interrupted."),
        click.Option(
            ["--interval-secs"],
            type=click.IntRange(60, 86_400),
            default=3600,
            metavar="N",
            help="Seconds between runs [default: 3600].",
        ),
    ]


def _is_advanced(op: Operation, field: msgspec.structs.FieldInfo) -> bool:
    name = field.encode_name
    return not field.required and (name in ADVANCED or bool(op.field_option(name, "advanced")))


def _argument_of(
    op: Operation, field: msgspec.structs.FieldInfo, subcommands: Sequence[tuple[str, str]]
) -> list[click.Parameter]:
    """Return the argument of a field, and the hidden options that also set it."""
    several = isinstance(bare_type(msgspec.inspect.type_info(field.type)), msgspec.inspect.ListType)
    name, shown = field.encode_name, argument_name(op, field)
    made = _argument(
        f"{FIELD}{name}", shown if field.required else f"[{shown}]", subcommands, nargs=-1 if several else 1
    )
    flags = [flag for flag in (flag_of(op, name), *former_flags(op, name)) if flag != "--agent-id"]
    spelled = click.Option([f"{SPELLED}{name}", *dict.fromkeys(flags)], multiple=True, hidden=True) if flags else None
    return [made, spelled] if spelled else [made]


def argument_name(op: Operation, field: msgspec.structs.FieldInfo) -> str:
    several = isinstance(bare_type(msgspec.inspect.type_info(field.type)), msgspec.inspect.ListType)
    name = flag_of(op, field.encode_name)[2:].replace("-", "_")
    return name.removesuffix("s").upper() + "..." if several else name.upper()


def _argument(name: str, metavar: str, subcommands: Sequence[tuple[str, str]], **more: Any) -> click.Argument:
    """Make an argument that is checked when the command runs; completion also offers the subcommands."""

    def complete(ctx: click.Context, param: click.Parameter, prefix: str) -> list[Any]:
        return complete_names(subcommands, prefix)

    return click.Argument([name], metavar=metavar, required=False, shell_complete=complete, **more)


def _described_arguments(op: Operation) -> tuple[tuple[str, str], ...]:
    fields = [field for field in op.fields if op.field_option(field.encode_name, "argument")]
    return tuple((argument_name(op, field), describe(field.type)) for field in fields)


def _option(op: Operation, field: msgspec.structs.FieldInfo, shorts: set[str], *, former: bool) -> click.Option:
    name = field.encode_name
    flag, also = flag_of(op, name), former_flags(op, name)
    hidden = [other for other in also if former or other != "--agent-id"]
    info = bare_type(msgspec.inspect.type_info(field.type))
    text = describe(field.type)
    if isinstance(info, msgspec.inspect.BoolType):
        off = f"--no-{flag[2:]}"
        return HiddenNames(
            [f"{FIELD}{name}", f"{flag}/{off}"],
            hidden_names=[off] if field.default is False else (),
            default=None,
            help=text,
        )
    names = [f"{FIELD}{name}", flag]
    short = op.field_option(name, "short")
    if short and short not in shorts:
        shorts.add(short)
        names.append(f"-{short}")
    if not field.required and field.default not in (msgspec.NODEFAULT, None, msgspec.UNSET, ""):
        text = f"{text} [default: {field.default}]".strip()
    if field.required:
        text = f"{text} [required]".strip()
    known = enum_values(field.type)
    return HiddenNames(
        [*names, *hidden],
        hidden_names=hidden,
        multiple=True,
        metavar=metavar(field.type),
        help=text,
        shell_complete=lambda ctx, param, prefix: [word for word in known if word.startswith(prefix)],
    )


def metavar(type_: Any) -> str:
    info = bare_type(msgspec.inspect.type_info(type_))
    match info:
        case msgspec.inspect.LiteralType():
            return "|".join(enum_values(type_))
        case msgspec.inspect.ListType() if isinstance(bare_type(info.item_type), msgspec.inspect.LiteralType):
            return ",".join(enum_values(type_)[:2]) + ",..."
        case msgspec.inspect.IntType():
            return "N"
        case msgspec.inspect.FloatType():
            return "X"
        case msgspec.inspect.ListType() if isinstance(bare_type(info.item_type), msgspec.inspect.StrType):
            return "A,B"
        case msgspec.inspect.StrType():
            return "TEXT"
        case _:
            return "JSON"


def describe(type_: Any) -> str:
    """Return the description in a field's declaration."""
    info = msgspec.inspect.type_info(type_)
    while isinstance(info, msgspec.inspect.Metadata | msgspec.inspect.UnionType):
        if isinstance(info, msgspec.inspect.UnionType):
            info = info.types[0]
            continue
        if info.extra_json_schema and "description" in info.extra_json_schema:
            return str(info.extra_json_schema["description"])
        info = info.type
    return ""


def _callback(op: Operation) -> Callable[..., None]:
    def callback(**given: Any) -> None:
        from holdfast.surfaces.cli.run_operation import (
            run_operation,
        )  # loads the store: 40 ms that --help does not need

        run_operation(op, name_arguments(op, given))

    return callback


def name_arguments(op: Operation, given: dict[str, Any]) -> dict[str, Any]:
    """Give each argument its value: one given as an option is skipped by the words that stand in order."""
    fields = [field for field in op.fields if op.field_option(field.encode_name, "argument")]
    words = [word for field in fields for word in _as_words(given.pop(f"{FIELD}{field.encode_name}"))]
    for field in fields:
        name = field.encode_name
        values = list(given.pop(f"{SPELLED}{name}", ()))
        if not values:
            several = isinstance(bare_type(msgspec.inspect.type_info(field.type)), msgspec.inspect.ListType)
            values, words = (words, []) if several else (words[:1], words[1:])
        if not values and name == "agent_id" and field.required and given.get("agent_id"):
            values = [given.pop("agent_id")]
        if not values and field.required:
            ctx = click.get_current_context()
            param = next(param for param in ctx.command.params if param.name == f"{FIELD}{name}")
            raise click.MissingParameter(ctx=ctx, param=param)
        given[f"{FIELD}{name}"] = tuple(values)
    if words:
        ctx = click.get_current_context()
        ctx.fail(f"Got unexpected extra argument ({' '.join(words)})")
    return given


def _as_words(value: str | Sequence[str] | None) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)

"""The command of an operation: its arguments and options, derived from its fields."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from holdfast.kernel.registry.operation import bare_type
from holdfast.kernel.registry.words import enum_values
from holdfast.operations import Operation
from holdfast.surfaces.cli.global_options import global_options


def build_command(op: Operation) -> click.Command:
    """Build the command of an operation."""
    params: list[click.Parameter] = []
    shorts: set[str] = set()
    whole = op.bulk or op.whole
    for field in op.fields:
        name = field.encode_name
        if "cli" in (op.field_option(name, "not_on") or ()) or op.field_option(name, "role") == "actor":
            continue
        if name == whole:
            params.append(click.Argument([f"f_{name}"], metavar="[FILE|-]", required=False, default="-"))
        elif op.field_option(name, "argument"):
            params.append(_argument(field))
        else:
            params.append(_option(op, field, shorts))
    if op.irreversible:
        params.append(click.Option(["--yes"], is_flag=True, help="Skip the confirmation."))
    if op.feed:
        params.append(click.Option(["--follow"], is_flag=True, help="Keep printing new changes."))
    if op.repeats:
        params += _repeat_options()
    taken = {param.name[2:] for param in params if param.name}
    return click.Command(
        op.cli[-1], params=[*params, *global_options(taken)], help=op.description, callback=_callback(op)
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


def _argument(field: msgspec.structs.FieldInfo) -> click.Argument:
    several = isinstance(bare_type(msgspec.inspect.type_info(field.type)), msgspec.inspect.ListType)
    name = field.encode_name
    shown = name.removesuffix("s").upper() + "..." if several else name.upper()
    return click.Argument(
        [f"f_{field.encode_name}"],
        metavar=shown if field.required else f"[{shown}]",
        required=field.required,
        nargs=-1 if several else 1,
    )


def _option(op: Operation, field: msgspec.structs.FieldInfo, shorts: set[str]) -> click.Option:
    name = field.encode_name
    flag = "--" + name.replace("_", "-")
    info = bare_type(msgspec.inspect.type_info(field.type))
    text = describe(field.type)
    if isinstance(info, msgspec.inspect.BoolType):
        return click.Option([f"f_{name}", f"{flag}/--no-{flag[2:]}"], default=None, help=text)
    names = [f"f_{name}", flag]
    short = op.field_option(name, "short")
    if short and short not in shorts:
        shorts.add(short)
        names.append(f"-{short}")
    if not field.required and field.default not in (msgspec.NODEFAULT, None, msgspec.UNSET):
        text = f"{text} [default: {field.default}]".strip()
    if field.required:
        text = f"{text} [required]".strip()
    known = enum_values(field.type)
    return click.Option(
        names,
        multiple=True,
        metavar=metavar(field.type),
        help=text,
        shell_complete=lambda ctx, param, begun: [word for word in known if word.startswith(begun)],
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

        run_operation(op, given)

    return callback

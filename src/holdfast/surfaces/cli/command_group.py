"""Groups of commands, each of which is built or imported only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from holdfast.kernel.registry.operation import Entry
from holdfast.operations import REGISTRY
from holdfast.surfaces.cli.global_options import global_options
from holdfast.surfaces.cli.operation_command import build_command

FAMILY_NAMES = {
    "core": "Store and find",
    "lifecycle": "Lifetimes and undo",
    "graph": "Links, entities and namespaces",
    "governance": "Access and permissions",
    "power": "Import, learn, plan and tidy up",
    "meta": "The store itself",
    "archive": "The archive",
    "other": "Messages, sync and backups",
}
SETUP_COMMANDS = ("setup", "install", "boot", "wrap", "hook", "hooks")
"""Commands that connect agents, in the order a newcomer needs them."""


class CommandEntry(NamedTuple):
    """A command that is not an operation."""

    module: str
    function: str
    summary: str

    def load(self) -> click.Command:
        command: click.Command = getattr(import_module(self.module), self.function)
        return command


class CommandGroup(click.Group):
    """A group that builds a command only when it is called, which keeps startup fast."""

    def __init__(
        self, path: tuple[str, ...] = (), index: Mapping[str, CommandEntry] = MappingProxyType({}), **more: Any
    ) -> None:
        super().__init__(**more)
        self.path = path
        self.index = index

    def _entries(self) -> dict[str, Entry | None]:
        """Map each name in this group to its operation, or to None for a subgroup."""
        found: dict[str, Entry | None] = {}
        depth = len(self.path)
        for op in REGISTRY.entries.values():
            if "cli" in op.surfaces and op.cli[:depth] == self.path and len(op.cli) > depth:
                found[op.cli[depth]] = op if len(op.cli) == depth + 1 else None
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._entries(), *self.index, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name in self.index:
            return self.index[cmd_name].load()
        own = self._entries()
        if cmd_name not in own:
            return None
        op = own[cmd_name]
        return build_command(REGISTRY[op.name]) if op else self._group(cmd_name)

    def _group(self, name: str) -> CommandGroup:
        made = CommandGroup((*self.path, name), name=name, params=global_options())
        made.help = f"{name.capitalize()}: {', '.join(made._entries())}."
        return made

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; two words also match a hyphenated name: `reflect suggest` is `reflect-suggest`.

        The error for an unknown command suggests similar names.
        """
        if len(args) > 1 and self.get_command(ctx, joined := "-".join(args[:2])):
            args = [joined, *args[2:]]
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = similar_names(args[0], self.list_commands(ctx))
            ctx.fail(f"Unknown command {args[0]!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by topic, everyday ones first."""
        titles = () if self.path else ("Connect agents", *FAMILY_NAMES.values())
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        own = {name: entry.summary for name, entry in self.index.items()}
        own |= {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        for name, op in self._entries().items():
            text = op.summary if op else self._group(name).get_short_help_str(80)
            if name not in own:
                sections.setdefault(self._section(name), []).append((name, text))
        connecting = [] if self.path else [name for name in SETUP_COMMANDS if name in own]
        for name in (*connecting, *sorted(own.keys() - set(connecting))):
            title = "Connect agents" if name in connecting else "Commands" if self.path else "Run"
            sections.setdefault(title, []).append((name, own[name]))
        for title in filter(sections.get, sections):
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def _section(self, name: str) -> str:
        if self.path:
            return "Commands"
        return next(FAMILY_NAMES[entry.family] for entry in REGISTRY.entries.values() if entry.cli[0] == name)


def similar_names(word: str, known: list[str]) -> str:
    return " or ".join(get_close_matches(word, known, n=2))

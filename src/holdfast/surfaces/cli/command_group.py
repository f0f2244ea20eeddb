"""Groups of commands, each of which is built or imported only when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.kernel.registry.operation import Entry
from holdfast.operations import REGISTRY
from holdfast.surfaces.cli.global_options import global_options
from holdfast.surfaces.cli.help.command_tree import Path, command_tree
from holdfast.surfaces.cli.help.documented_command import complete_names
from holdfast.surfaces.cli.help.words import EVERYDAY, TOPICS
from holdfast.surfaces.cli.operation_command import build_command

MAX_SUGGESTIONS = 3


class CommandGroup(click.Group):
    """A group that builds a command only when it is called, which keeps startup fast."""

    def __init__(self, path: Path = (), **more: Any) -> None:
        super().__init__(**more)
        self.path = path

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(command_tree().names(self.path))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, former names included. A word that is also a group gives its own command."""
        tree, path = command_tree(), (*self.path, cmd_name)
        leaf = tree.leaf(path)
        if leaf is None:
            return make_group(path) if tree.is_group(path) else None
        subcommands = [(name, tree.summary((*path, name))) for name in tree.children.get(path, ())]
        if isinstance(leaf, Entry):
            return build_command(REGISTRY[leaf.name], subcommands, former=path in tree.former)
        command = leaf.load()
        command.subcommands = subcommands
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; two words also match a hyphenated name: `reflect suggest` is `reflect-suggest`.

        The error for an unknown command suggests others.
        """
        tree, word = command_tree(), args[0]
        joined = "-".join(args[:2])
        if not tree.has((*self.path, *args[:2])) and tree.leaf((*self.path, joined)):
            word, args = joined, args[1:]
        path, rest = (*self.path, word), args[1:]
        if tree.leaf(path) and tree.is_group(path):
            return word, self._choose_between(ctx, path, rest), rest
        command = None if word.startswith("-") else self.get_command(ctx, word)
        if command is None and not word.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(unknown_command(path))
        return (word, command, rest) if command else super().resolve_command(ctx, args)

    def _choose_between(self, ctx: click.Context, path: Path, rest: list[str]) -> click.Command:
        """Choose the group if the next word names one of its commands, else the command of the same name."""
        tree, word = command_tree(), next_word(rest)
        if word is not None and tree.has((*path, word)):
            return make_group(path)
        command = self.get_command(ctx, path[-1])
        assert command is not None
        if word is not None and not any(isinstance(param, click.Argument) for param in command.params):
            ctx.fail(unknown_command((*path, word)))
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete visible commands, without importing them."""
        names = [(name, command_tree().summary((*self.path, name))) for name in self.list_commands(ctx)]
        return [*complete_names(names, incomplete), *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by topic, everyday ones first."""
        tree = command_tree()
        topics = {"Commands": tuple(tree.names(self.path))} if self.path else TOPICS
        for topic, names in topics.items():
            with formatter.section(topic):
                formatter.write_dl([(name, tree.summary((*self.path, name))) for name in names])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.path:
            formatter.write_paragraph()
            formatter.write_text("`holdfast COMMAND --help` shows a command; `holdfast help --all` shows every one.")


def make_group(path: Path) -> CommandGroup:
    return CommandGroup(path, name=path[-1], params=global_options(), help=command_tree().summary(path))


def locate_command(ctx: click.Context, words: Sequence[str]) -> click.Context:
    """Return the context of a command by its words, in a context that has groups."""
    rest = list(words)
    while rest:
        if not isinstance(ctx.command, CommandGroup):
            ctx.fail(f"`{ctx.command_path}` has no command `{rest[0]}`.")
        name, command, rest = ctx.command.resolve_command(ctx, rest)
        assert command is not None
        ctx = click.Context(command, parent=ctx, info_name=name, **ctx.command.context_settings)
    return ctx


def next_word(args: list[str]) -> str | None:
    """Return the next word after global options, or None if an option of the command comes first."""
    words = iter(args)
    for word in words:
        if word in ("--db", "--agent-id"):
            next(words, None)
        elif not word.startswith(("--json", "--db=", "--agent-id=")):
            return None if word.startswith("-") else word
    return None


def unknown_command(path: Path) -> str:
    near = [f"`{name}`" for name in command_tree().suggest(path)[:MAX_SUGGESTIONS]]
    hint = f" Did you mean {' or '.join(near)}?" if near else " `holdfast help` lists the commands."
    return f"No such command `{' '.join(path)}`.{hint}"


def format_everyday() -> str:
    """Return the help of `holdfast` without arguments: the everyday commands, and where the rest is."""
    formatter = click.HelpFormatter()
    formatter.write_usage("holdfast", "COMMAND [ARGS]...")
    formatter.write_paragraph()
    formatter.write_text("One persistent memory for every AI agent.")
    with formatter.section("Everyday commands"):
        formatter.write_dl([(name, command_tree().summary((name,))) for name in EVERYDAY])
    formatter.write_paragraph()
    formatter.write_text("`holdfast help` shows all commands by topic, `holdfast COMMAND --help` one of them.")
    return formatter.getvalue().rstrip("\n")


def format_all() -> str:
    """List every command with its words, by topic."""
    tree, formatter = command_tree(), click.HelpFormatter()
    for topic, names in TOPICS.items():
        with formatter.section(topic):
            paths = [path for name in names for path in sorted(tree.visible) if path[0] == name]
            formatter.write_dl([(" ".join(path), tree.visible[path].summary) for path in paths], col_max=34)
    return formatter.getvalue().strip("\n")

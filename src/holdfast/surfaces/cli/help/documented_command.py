"""A command whose help has its purpose, examples, common options, and advanced ones below."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from holdfast.surfaces.cli.global_options import GLOBAL_OPTIONS


class DocumentedCommand(click.Command):
    """A command with examples, advanced options under a heading of their own, and subcommands."""

    def __init__(
        self,
        *more: Any,
        examples: tuple[str, ...] = (),
        advanced: frozenset[str] | set[str] = frozenset(),
        arguments: tuple[tuple[str, str], ...] = (),
        subcommands: list[tuple[str, str]] | None = None,
        **params: Any,
    ) -> None:
        super().__init__(*more, **params)
        self.examples = examples
        self.advanced = advanced
        """Names of the parameters that few callers need."""
        self.arguments = arguments
        """Description of each argument."""
        self.subcommands = subcommands or []

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        if self.arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(self.arguments)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options first, then advanced ones, then those of every command."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Advanced options": [], "Global options": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                shared = param.name in GLOBAL_OPTIONS or param is self.get_help_option(ctx)
                title = "Global options" if shared else "Advanced options" if param.name in self.advanced else "Options"
                sections[title].append(record)
        for title in filter(sections.get, sections):
            with formatter.section(title):
                formatter.write_dl(sections[title])
        if self.subcommands:
            with formatter.section("Commands"):
                formatter.write_dl(self.subcommands)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, text in self.subcommands if name.startswith(incomplete)]
        return [*names, *super().shell_complete(ctx, incomplete)]

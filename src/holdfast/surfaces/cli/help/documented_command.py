"""A command whose help has its purpose, examples, common options, and advanced ones below."""

from collections.abc import Callable, Iterable
from typing import Any

import click

from holdfast.surfaces.cli.global_options import GLOBAL_OPTIONS


class DocumentedCommand(click.Command):
    """A command with examples, advanced options under a heading of their own, and subcommands."""

    def __init__(
        self,
        *more: Any,
        examples: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
        advanced: frozenset[str] | set[str] = frozenset(),
        arguments: Callable[[], tuple[tuple[str, str], ...]] = tuple,
        subcommands: list[tuple[str, str]] | None = None,
        **params: Any,
    ) -> None:
        super().__init__(*more, **params)
        self._examples = examples
        self.advanced = advanced
        """Names of the parameters that few callers need."""
        self._arguments = arguments
        self.subcommands = subcommands or []

    @property
    def examples(self) -> tuple[str, ...]:
        """Command lines, computed only for help."""
        return self._examples() if callable(self._examples) else self._examples

    @property
    def arguments(self) -> tuple[tuple[str, str], ...]:
        """Name and description of each argument, computed only for help."""
        return self._arguments()

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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        return [*complete_names(self.subcommands, incomplete), *super().shell_complete(ctx, incomplete)]


def complete_names(names: Iterable[tuple[str, str]], prefix: str) -> list[Any]:
    """Return the completions of what is typed so far: names with their summaries."""
    from click.shell_completion import CompletionItem  # 1 ms that only completion needs

    return [CompletionItem(name, help=text) for name, text in names if name.startswith(prefix)]

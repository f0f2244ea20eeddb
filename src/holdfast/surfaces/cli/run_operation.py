"""Run the command of an operation: open the store, call it, print the answer."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import sleep
from typing import Any

import click

from holdfast.app import Holdfast
from holdfast.app import open as open_memory
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import ConfirmationRequired, HoldfastError, HookConfirmationRequired, Invalid, StoreNotFound
from holdfast.kernel.registry.words import parse_words
from holdfast.kernel.terminal import shorten
from holdfast.operations import Effect, Operation
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.global_options import resolve_global_options, settings_of
from holdfast.surfaces.cli.output import exit_code_of, exit_with, print_answer, print_error, progress_of
from holdfast.surfaces.cli.stop_signal import repeat_until_stopped

RETRY_SECONDS = 1.0
"""Pause before an unreachable store is tried again."""
FOLLOW_SECONDS = 15.0
"""Longest pause between two polls of a feed."""
MAX_STDIN_BYTES = 1 << 26
"""Bytes read from standard input for one field; no field accepts more."""
CREATE_HINT = "Create one with `holdfast setup` or `holdfast store`, or choose another with --db or HOLDFAST_DB."


def run_operation(op: Operation, given: dict[str, Any]) -> None:
    """Call an operation with the typed options and arguments, and print its answer."""
    wanted = resolve_global_options(given)
    if given.get("daemon") and given.get("once"):
        raise Invalid("--once and --daemon exclude each other: use one", fields=["once", "daemon"])
    arguments = parse_arguments(op, {name[2:]: value for name, value in given.items() if name.startswith("f_")})
    if op.irreversible and not given.get("yes") and not arguments.get("dry_run"):
        confirm(op, wanted)
    with open_store(wanted, create=op.makes_store or op.effect is not Effect.READ, later=op.opens_nothing) as hold:
        if given.get("follow"):
            return follow_feed(op, hold, arguments, wanted)
        if given.get("daemon"):
            return run_repeatedly(op, hold, arguments, wanted, given["interval_secs"])
        with progress_of(op.name, wanted) as progress:
            answer = call_with_confirmation(op, hold, arguments, wanted, progress)
        print_answer(op, answer, wanted)
        flush_embeddings(op, hold, wanted)
        exit_with(exit_code_of(answer))
    return None


def parse_arguments(op: Operation, given: dict[str, Any]) -> dict[str, Any]:
    """Convert the typed words to the operation's arguments."""
    words: dict[str, list[str]] = {}
    ready: dict[str, Any] = {}
    for name, value in given.items():
        if name == (op.bulk or op.whole):
            words[name] = [read_file(value)]
        elif isinstance(value, bool):
            ready[name] = value
        elif value not in (None, ()):
            many = [value] if isinstance(value, str) else list(value)
            words[name] = [
                read_stdin(MAX_STDIN_BYTES) if one == "-" and op.field_option(name, "stdin") else one for one in many
            ]
    return parse_words(op, words) | ready


def read_stdin(max_bytes: int | None = None) -> str:
    """Read standard input; reject more than the limit without reading the rest."""
    if sys.stdin is None:
        raise Invalid("Standard input is closed: name a file instead.")
    read = sys.stdin.buffer.read(-1 if max_bytes is None else max_bytes + 1)
    if max_bytes is not None and len(read) > max_bytes:
        raise Invalid(f"Standard input has more than {max_bytes >> 20} MiB: use a file, or split it.")
    try:
        return read.decode()
    except UnicodeDecodeError:
        raise Invalid("Standard input is not UTF-8 text.") from None


def read_file(name: str) -> str:
    if name == "-":
        return read_stdin()
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise Invalid(f"{name} is not UTF-8 text.") from None
    except OSError as error:
        raise Invalid(_unreadable_message(name, error)) from None


def _unreadable_message(name: str, error: OSError) -> str:
    """Explain why a file cannot be read. A long name is shortened: it may be content passed by mistake."""

    hint = " Pass a file name, or - for standard input." if name.lstrip()[:1] in ("[", "{") else ""
    return f"{shorten(name)} cannot be read: {error.strerror}.{hint}"


def confirm(op: Operation, wanted: dict[str, Any]) -> None:
    if wanted["json"] or not (sys.stdin and sys.stdin.isatty()):
        raise ConfirmationRequired
    if not click.confirm(f"{op.summary} This cannot be undone. Continue?", err=True):
        raise ConfirmationRequired("Cancelled. Nothing was changed.")


@contextmanager
def open_store(wanted: dict[str, Any], *, create: bool = True, later: bool = False) -> Iterator[Holdfast]:
    """Open the store of a command. A read-only command does not create one."""

    try:
        opening = open_memory(settings=settings_of(wanted), source="cli", make=create, later=later, once=True)
    except StoreNotFound as error:
        raise StoreNotFound(f"{error.message} {CREATE_HINT}") from None
    with opening as hold:
        yield hold


def call_with_confirmation(
    op: Operation, hold: Holdfast, arguments: dict[str, Any], wanted: dict[str, Any], progress: Progress
) -> Any:
    """Call an operation. If a hook requires confirmation and there is a terminal, ask and call again."""
    try:
        return hold.call(op.name, arguments, progress=progress)
    except HookConfirmationRequired as asks:
        if wanted["json"] or not (sys.stdin and sys.stdin.isatty()) or not click.confirm(asks.message, err=True):
            raise

    hold.ctx = replace(hold.ctx, is_confirmed=True)
    return hold.call(op.name, arguments, progress=progress)


def follow_feed(op: Operation, hold: Holdfast, arguments: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Print new pages until interrupted. If the store becomes unreachable, wait and try again."""
    came = False
    while True:
        try:
            answer, came = hold.call(op.name, arguments), True
        except HoldfastError as error:
            if not (came and error.retryable):
                raise
            print_error(error, wanted["json"])
            sleep(RETRY_SECONDS)
            continue
        for item in answer.events:
            if wanted["json"]:
                click.echo(wire.encode(item))
        if not wanted["json"] and answer.events:
            print_answer(op, answer, wanted)
        moved = answer.next > arguments.get("after", 0)
        arguments = {**arguments, "after": answer.next}
        if not (answer.events or moved):
            hold.ctx.store.wait_for_commit(FOLLOW_SECONDS)


def run_repeatedly(
    op: Operation, hold: Holdfast, arguments: dict[str, Any], wanted: dict[str, Any], pause: int
) -> None:
    """Run and print an operation repeatedly, until interrupted."""

    def once(progress: Progress) -> None:
        print_answer(op, hold.call(op.name, arguments, progress=progress), wanted)
        sys.stdout.flush()
        flush_embeddings(op, hold, wanted)

    repeat_until_stopped(once, pause, lambda error: print_error(error, wanted["json"]))


def flush_embeddings(op: Operation, hold: Holdfast, wanted: dict[str, Any]) -> None:
    """Compute the embeddings of a large write. A failure is printed; a later run computes what is missing."""
    if op.effect is Effect.READ or op.opens_nothing or op.name == "reembed":
        return
    try:
        with progress_of("vectors", wanted) as progress:
            hold.flush_embeddings(progress, wholly=op.reports or op.bulk is not None)
    except HoldfastError as error:
        click.echo(f"Embeddings were not computed. {error.message}", err=True)

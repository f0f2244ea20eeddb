"""`holdfast task worker`: run due tasks and deliver events until a signal arrives."""

import os
import socket
import sys
from typing import Any, get_args

import click

from holdfast.app import Holdfast
from holdfast.app import open as open_memory
from holdfast.features.tasks.model import Handler
from holdfast.features.tasks.worker import Worker, WorkerOptions
from holdfast.features.webhooks.deliver import Dispatcher
from holdfast.kernel.errors import Invalid
from holdfast.kernel.terminal import escape
from holdfast.settings import Settings
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options, settings_of
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.output import exit_with
from holdfast.surfaces.cli.stop_signal import on_stop_signal


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast task worker", "holdfast task worker --once --allow job"),
    params=global_options(),
)
@click.option("--slots", type=click.IntRange(1, 64), default=4, show_default=True, help="Tasks to run in parallel.")
@click.option(
    "--lease", type=click.IntRange(3, 3600), default=60, show_default=True, help="Lease of a running task, in seconds."
)
@click.option(
    "--allow", default="webhook,job", show_default=True, help="Handlers to run: webhook, job, command, python."
)
@click.option("--once", is_flag=True, help="Run the tasks that are due now, then exit.")
def worker(slots: int, lease: int, allow: str, *, once: bool, **given: Any) -> None:
    """Run due tasks by their handlers, until interrupted."""
    wanted = resolve_global_options(given)
    settings = settings_of(wanted)

    with open_memory(settings=settings, source="system") as hold:
        exit_with(run_worker(hold, settings, slots=slots, lease=lease, allow=allow, once=once))


def run_worker(holdfast: Holdfast, settings: Settings, *, slots: int, lease: int, allow: str, once: bool) -> int:
    """Run until SIGTERM or SIGINT; running tasks may finish, the others return to the queue. Return 0."""
    owner = f"worker:{socket.gethostname()}:{os.getpid()}"
    db = settings.db or holdfast.ctx.store.path
    terms = WorkerOptions(owner, db, slots, lease, parse_handlers(allow))
    runner = Worker(holdfast.ctx, terms, lambda line: print(escape(line), file=sys.stderr, flush=True))
    on_stop_signal(runner.stop)
    print(f"{owner} serves {holdfast.ctx.store.path}", file=sys.stderr, flush=True)
    dispatcher = Dispatcher(holdfast.ctx)
    if once:
        runner.run(once=True)
        dispatcher.deliver()
        return 0
    dispatcher.start()
    try:
        runner.run()
    finally:
        dispatcher.stop()
    return 0


def parse_handlers(allow: str) -> tuple[Handler, ...]:
    """Parse the comma-separated handlers of `--allow`."""
    known = [name for name in get_args(Handler) if name != "none"]
    given = [word.strip() for word in allow.split(",") if word.strip()]
    if not given or not set(given) <= set(known):
        raise Invalid(f"--allow: choose among {', '.join(known)}", fields=["allow"])
    return tuple(name for name in known if name in given)

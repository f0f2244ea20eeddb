"""Run due tasks and deliver events until a signal arrives."""

import os
import socket
import sys
from typing import get_args

from holdfast.app import Holdfast
from holdfast.features.tasks.model import Handler
from holdfast.kernel.errors import Invalid
from holdfast.kernel.terminal import escape
from holdfast.settings import Settings
from holdfast.surfaces.cli.stop_signal import on_stop_signal


def run_worker(holdfast: Holdfast, settings: Settings, *, slots: int, lease: int, allow: str, once: bool) -> int:
    """Run until SIGTERM or SIGINT; running tasks may finish, the others return to the queue. Return 0."""
    from holdfast.features.tasks.worker import Worker, WorkerOptions
    from holdfast.features.webhooks.deliver import Dispatcher

    owner = f"worker:{socket.gethostname()}:{os.getpid()}"
    db = settings.db or holdfast.ctx.store.path
    terms = WorkerOptions(owner, db, slots, lease, parse_handlers(allow))
    worker = Worker(holdfast.ctx, terms, lambda line: print(escape(line), file=sys.stderr, flush=True))
    on_stop_signal(worker.stop)
    print(f"{owner} serves {holdfast.ctx.store.path}", file=sys.stderr, flush=True)
    dispatcher = Dispatcher(holdfast.ctx)
    if once:
        worker.run(once=True)
        dispatcher.deliver()
        return 0
    dispatcher.start()
    try:
        worker.run()
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

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
from holdfast.surfaces.cli.stop_signal import when_told


def work(holdfast: Holdfast, settings: Settings, *, slots: int, lease: int, allow: str, once: bool) -> int:
    """Run until SIGTERM or SIGINT; running tasks may finish, the others return to the queue. Return 0."""
    from holdfast.features.tasks.worker import Terms, Worker
    from holdfast.features.webhooks.deliver import Dispatcher

    owner = f"worker:{socket.gethostname()}:{os.getpid()}"
    db = settings.db or holdfast.hold.store.path
    terms = Terms(owner, db, slots, lease, handlers_of(allow))
    worker = Worker(holdfast.hold, terms, lambda line: print(escape(line), file=sys.stderr, flush=True))
    when_told(worker.stop)
    print(f"{owner} serves {holdfast.hold.store.path}", file=sys.stderr, flush=True)
    dispatcher = Dispatcher(holdfast.hold)
    if once:
        worker.work(once=True)
        dispatcher.deliver()
        return 0
    dispatcher.start()
    try:
        worker.work()
    finally:
        dispatcher.stop()
    return 0


def handlers_of(allow: str) -> tuple[Handler, ...]:
    """Parse the comma-separated handlers of `--allow`."""
    known = [name for name in get_args(Handler) if name != "none"]
    given = [word.strip() for word in allow.split(",") if word.strip()]
    if not given or not set(given) <= set(known):
        raise Invalid(f"--allow: choose among {', '.join(known)}", fields=["allow"])
    return tuple(name for name in known if name in given)

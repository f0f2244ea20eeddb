"""The sync daemon: exchange with peers until a signal arrives."""

import sys
import threading

from holdfast.app import Holdfast
from holdfast.features.sync.daemon import Daemon
from holdfast.surfaces.cli.stop_signal import when_told


def keep_in_step(holdfast: Holdfast) -> int:
    """Sync until SIGTERM or SIGINT; return 0. An exchange is never left half applied."""
    settings = holdfast.settings
    daemon = Daemon(
        holdfast.hold, settings.sync_peers, interval=settings.sync_interval_secs, batch=settings.sync_batch_size
    )
    stop = threading.Event()
    when_told(stop.set)
    print(
        f"Holdfast keeps {holdfast.hold.store.path} in step with {', '.join(settings.sync_peers)}",
        file=sys.stderr,
        flush=True,
    )
    daemon.start()
    stop.wait()
    daemon.stop()
    return 0

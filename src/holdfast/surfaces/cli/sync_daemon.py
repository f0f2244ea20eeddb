"""Keep in step with peers until told to stop."""

import sys
import threading

from holdfast.app import Holdfast
from holdfast.features.sync.daemon import Daemon
from holdfast.surfaces.cli.stop_signal import when_told


def keep_in_step(holdfast: Holdfast) -> int:
    """Exchange until SIGTERM or SIGINT; the exit code is 0 then, and nothing is half done."""
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

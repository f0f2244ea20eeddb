"""The sync daemon: exchange with peers until a signal arrives."""

import sys
import threading

from holdfast.app import Holdfast
from holdfast.features.sync.daemon import SyncDaemon
from holdfast.surfaces.cli.stop_signal import on_stop_signal


def run_sync_daemon(holdfast: Holdfast) -> int:
    """Sync until SIGTERM or SIGINT; return 0. An exchange is never left half applied."""
    settings = holdfast.settings
    daemon = SyncDaemon(
        holdfast.ctx, settings.sync_peers, interval=settings.sync_interval_secs, batch=settings.sync_batch_size
    )
    stop = threading.Event()
    on_stop_signal(stop.set)
    print(
        f"Holdfast keeps {holdfast.ctx.store.path} in step with {', '.join(settings.sync_peers)}",
        file=sys.stderr,
        flush=True,
    )
    daemon.start()
    stop.wait()
    daemon.stop()
    return 0

"""`holdfast sync daemon`: exchange with peers until a signal arrives."""

import sys
import threading
from typing import Any

import click

from holdfast.app import Holdfast
from holdfast.app import open as open_memory
from holdfast.features.sync.daemon import SyncDaemon
from holdfast.surfaces.cli.global_options import global_options, load_settings, resolve_global_options
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.output import exit_with
from holdfast.surfaces.cli.stop_signal import on_stop_signal


@click.command(
    "daemon",
    cls=DocumentedCommand,
    examples=("holdfast sync daemon --peers https://desk.example:9077", "holdfast sync daemon --interval 10"),
    advanced={"batch_size", "client_cert", "client_key", "ca", "fingerprint", "insecure_skip_server_verify"},
    params=global_options(),
)
@click.option("--peers", metavar="URL,...", help="Peer URLs, such as https://desk.example:9077.")
@click.option(
    "--interval", type=float, metavar="SECONDS", help="Seconds between two exchanges with a peer [default: 2]."
)
@click.option("--batch-size", type=int, metavar="N", help="Changes per request, roughly [default: 500].")
@click.option("--api-key", metavar="KEY", help="API key for the peers (or HOLDFAST_SYNC_API_KEY).")
@click.option("--client-cert", metavar="FILE", help="Client certificate (PEM).")
@click.option("--client-key", metavar="FILE", help="Private key of --client-cert.")
@click.option("--ca", metavar="FILE", help="CA that signs the peers' certificates (PEM).")
@click.option("--fingerprint", metavar="SHA256", help="Only accept the peer certificate with this fingerprint.")
@click.option("--insecure-skip-server-verify", is_flag=True, default=None, help="Accept any peer certificate.")
def sync_daemon(peers: str | None, interval: float | None, **given: Any) -> None:
    """Sync with peers continuously, until interrupted."""
    wanted = resolve_global_options(given)
    named = ("batch_size", "api_key", "client_cert", "client_key", "ca", "fingerprint", "insecure_skip_server_verify")
    flags = {f"sync_{name}": given[name] for name in named}
    settings = load_settings(
        {"db": wanted["db"], "agent_id": wanted["agent_id"], "sync_interval_secs": interval, **flags}
        | {"sync_peers": peers.split(",") if peers else None}
    )

    with open_memory(settings=settings, source="cli") as hold:
        exit_with(run_sync_daemon(hold))


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

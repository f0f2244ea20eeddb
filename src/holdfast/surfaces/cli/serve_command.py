"""`holdfast serve`: the web page, the HTTP API and MCP over HTTP."""

from typing import Any

import click

from holdfast.app import open as open_memory
from holdfast.surfaces.cli.global_options import global_options, resolve_global_options, settings_of
from holdfast.surfaces.cli.help.documented_command import DocumentedCommand
from holdfast.surfaces.cli.output import exit_with
from holdfast.surfaces.serve import serve as run


@click.command(
    cls=DocumentedCommand,
    examples=("holdfast serve", "holdfast serve --host 0.0.0.0 --tls-cert server.pem --tls-key server.key"),
    advanced={"client_ca", "client_fingerprints", "quorum_writes", "quorum_peers", "quorum_timeout_ms"},
    params=global_options(),
)
@click.option("--host", help="Address to listen on [default: 127.0.0.1].")
@click.option("--port", type=int, help="Port to listen on [default: 9077].")
@click.option("--tls-cert", metavar="FILE", help="Server certificate (PEM); enables HTTPS.")
@click.option("--tls-key", metavar="FILE", help="Private key of --tls-cert.")
@click.option("--client-ca", metavar="FILE", help="CA that must have signed client certificates (PEM).")
@click.option(
    "--client-fingerprints", metavar="FILE", help="File with the SHA-256 of each accepted client certificate."
)
@click.option("--quorum-writes", type=int, metavar="W", help="Stores that must confirm a write, this one included.")
@click.option("--quorum-peers", metavar="URL,...", help="Peers that count towards the quorum.")
@click.option("--quorum-timeout-ms", type=int, metavar="MS", help="Longest wait for confirmations [default: 2000].")
def serve(host: str | None, port: int | None, **given: Any) -> None:
    """Serve the web page, the HTTP API, and MCP at /mcp until interrupted."""
    wanted = resolve_global_options(given)
    named = ("tls_cert", "tls_key", "client_ca", "client_fingerprints", "quorum_writes", "quorum_timeout_ms")
    flags = {"host": host, "port": port, **{name: given[name] for name in named}}
    flags["quorum_peers"] = given["quorum_peers"].split(",") if given["quorum_peers"] else None
    settings = settings_of(wanted, **flags)

    with open_memory(settings=settings, source="api") as hold:
        exit_with(run(settings, hold) or 0)

"""The stdio server of the SDK with our answers, to compare our loop with."""

import sys

import anyio
from mcp.server.stdio import stdio_server

import holdfast
from holdfast.surfaces.mcp.streamable import Endpoint


async def main(path: str) -> None:
    with holdfast.open(path) as hold:
        server = Endpoint(hold, "core").server()
        async with stdio_server() as (source, sink):
            await server.run(source, sink, server.create_initialization_options())


anyio.run(main, sys.argv[1])

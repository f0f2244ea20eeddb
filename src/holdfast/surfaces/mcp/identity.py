"""The caller over MCP: its rights from the key, if any, and its agent id from the program's name."""

from msgspec.structs import replace

from holdfast.app import Holdfast, host_name
from holdfast.features.access import keys
from holdfast.kernel.context import Caller, client_agent
from holdfast.kernel.errors import AuthenticationRequired

SOURCE = "nhi"
"""The `source` of memories stored over MCP."""


def local_caller(holdfast: Holdfast, client: str | None) -> Caller:
    """Return the caller on standard input, limited to the rights of the configured key.

    The key is looked up at every call, so a revocation takes effect at once.
    """
    settings = holdfast.settings
    caller = _key_caller(holdfast, settings.mcp_key) if settings.mcp_key else holdfast.ctx.caller
    if settings.agent_id and not caller.has_fixed_agent:
        return replace(caller, agent=holdfast.ctx.caller.agent, source=SOURCE)
    return as_client(caller, client)


def _key_caller(holdfast: Holdfast, secret: str) -> Caller:
    with holdfast.ctx.reading() as session:
        key = keys.find_key(session, secret)
    if key is None:
        raise AuthenticationRequired("The key of this server (setting `mcp_key`) is not valid.")
    return keys.caller_of(key, SOURCE)


def as_client(caller: Caller, client: str | None, host: str | None = None) -> Caller:
    """Return the caller under its program's name, unless its key or a header sets the agent id."""
    if caller.has_fixed_agent:
        return replace(caller, source=SOURCE)
    return replace(caller, agent=client_agent(client or "client", host or host_name()), source=SOURCE)

"""Who asks over MCP: the key if there is one, and the agent by the name of its program."""

from msgspec.structs import replace

from holdfast.app import Holdfast, host_name
from holdfast.features.access import keys
from holdfast.kernel.caller import Caller, client_agent
from holdfast.kernel.errors import Unauthenticated

SOURCE = "nhi"
"""The `source` of what an agent stores."""


def local(holdfast: Holdfast, client: str | None) -> Caller:
    """The caller at the other end of standard input: who started us, within the right of its key.

    A key is looked up at every call, so that it counts until it is revoked.
    """
    settings = holdfast.settings
    caller = _keyed(holdfast, settings.key) if settings.key else holdfast.hold.caller
    if settings.agent_id and not caller.bound:
        return replace(caller, agent=holdfast.hold.caller.agent, source=SOURCE)
    return as_client(caller, client)


def _keyed(holdfast: Holdfast, secret: str) -> Caller:
    with holdfast.hold.reading() as session:
        key = keys.opened_by(session, secret)
    if key is None:
        raise Unauthenticated("The key that this server works under is not valid.")
    return keys.caller_of(key, SOURCE)


def as_client(caller: Caller, client: str | None, host: str | None = None) -> Caller:
    """The caller under its program's name, unless its key or a header has said who it is."""
    if caller.bound:
        return replace(caller, source=SOURCE)
    return replace(caller, agent=client_agent(client or "client", host or host_name()), source=SOURCE)

"""Who is let in: this machine's own names, no foreign page, and a key once there is one."""

import ipaddress
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from hmac import compare_digest
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.app import Holdfast, host_name
from holdfast.features.access import keys
from holdfast.features.access.keys import Key
from holdfast.features.sync.peers.store import enrolled
from holdfast.kernel.caller import Caller, admit_agent, client_agent
from holdfast.kernel.errors import Forbidden, Invalid, Misaddressed, Unauthenticated
from holdfast.settings import Settings

RawHeaders = Iterable[tuple[bytes, bytes]]

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?")


def stripped(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Headers without the blanks around their values, which the faster of uvicorn's parsers leaves in."""
    return [(name, value.strip(b" \t")) for name, value in headers]


def values(headers: RawHeaders, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def is_loopback(host: str) -> bool:
    """Whether an address, or a name that always means one, is this machine's own."""
    address = address_of(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def must_be_addressed(settings: Settings, headers: RawHeaders) -> None:
    """Refuse another site's name as Host (DNS rebinding) and another site's page as Origin."""
    given = values(headers, b"host")
    host = name_of(given[0]) if len(given) == 1 else None
    if host is None or not is_ours(settings, host):
        raise Misaddressed("This server does not answer to that Host: add its name to allowed_hosts if it should.")
    for origin in values(headers, b"origin"):
        if not is_own_page(origin, given[0]):
            raise Forbidden("Pages of another site may not call this server.")


def name_of(host: str) -> str | None:
    """The name or address in a Host header."""
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else None


@lru_cache(256)
def is_ours(settings: Settings, host: str) -> bool:
    bound = address_of(settings.host)
    if is_loopback(host) or host in {name.lower() for name in (settings.host, *settings.allowed_hosts)}:
        return True
    # Rebinding works with a name, never with an address: behind a wildcard address any address is our own.
    return bound is not None and address_of(host) is not None and (bound.is_unspecified or address_of(host) == bound)


def is_own_page(origin: str, host: str) -> bool:
    """Whether a page is of the host that its request names, or of this machine."""
    scheme, _, place = origin.partition("://")
    name = name_of(place)
    return scheme in ("http", "https") and name is not None and (place == host or is_loopback(name))


class Presented(NamedTuple):
    """What a request says of who sends it."""

    secret: str | None
    agent: str | None


def presented(headers: RawHeaders) -> Presented:
    """The one key and the one agent id that the headers carry."""
    bearer, plain = values(headers, b"authorization"), values(headers, b"x-api-key")
    if len(bearer) + len(plain) > 1:
        raise Unauthenticated("Send one key, in one header.")
    agents = values(headers, b"x-agent-id")
    if len(agents) > 1:
        raise Invalid("X-Agent-Id: given more than once", fields=["X-Agent-Id"])
    return Presented(
        _bearer(bearer[0]) if bearer else plain[0] if plain else None,
        admit_agent(agents[0], "X-Agent-Id") if agents else None,
    )


def _bearer(value: str) -> str:
    scheme, _, secret = value.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def authenticate(holdfast: Holdfast, headers: RawHeaders) -> Caller:
    """Who sends a request. Reads the store, so that a key counts from its making to its revocation."""
    secret, agent = presented(headers)
    settings = holdfast.settings
    with holdfast.hold.reading() as session:
        if secret is None:
            if settings.api_key or not is_loopback(settings.host) or keys.any_made(session):
                raise Unauthenticated
            return owner(agent)
        if settings.api_key and compare_digest(keys.hash_of(secret), keys.hash_of(settings.api_key)):
            return owner(agent)
        key = keys.opened_by(session, secret)
    if key is None:
        raise Unauthenticated("This key is not valid.")
    return holder(key, agent)


def owner(agent: str | None) -> Caller:
    """A caller with every right, under the agent id that its header says."""
    return Caller(agent=agent or unnamed(), bound=agent is not None, source="api")


@cache
def unnamed() -> str:
    """The agent of a client that names none: the same from one request to the next."""
    return client_agent("http", host_name())


def holder(key: Key, agent: str | None) -> Caller:
    """The caller whom a key makes: its agent is the key's, unless the key leaves it open."""
    caller = keys.caller_of(key, "api")
    if agent is None or agent == caller.agent:
        return caller
    if caller.bound:
        raise Forbidden(f"This key speaks as {caller.agent!r}, not as {agent!r}.")
    return replace(caller, agent=agent, bound=True)


def must_have_a_key(holdfast: Holdfast) -> bool:
    """Whether the server would be of use to strangers alone: reached from outside, without any key or peer."""
    if is_loopback(holdfast.settings.host) or holdfast.settings.api_key:
        return False
    with holdfast.hold.reading() as session:
        return not keys.any_active(session) and not enrolled(session)

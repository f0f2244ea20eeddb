"""Authenticate requests: reject foreign hosts and origins; require a key once one exists."""

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
from holdfast.features.sync.peers.store import list_peers
from holdfast.kernel.context import Caller, client_agent, validate_agent_id
from holdfast.kernel.errors import AuthenticationRequired, Forbidden, Invalid, WrongHost
from holdfast.settings import Settings

RawHeaders = Iterable[tuple[bytes, bytes]]

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?")


def strip_headers(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Strip blanks around header values; uvicorn's faster parser leaves them in."""
    return [(name, value.strip(b" \t")) for name, value in headers]


def header_values(headers: RawHeaders, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def is_loopback(host: str) -> bool:
    """Return whether a host is localhost or a loopback address."""
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def check_host_and_origin(settings: Settings, headers: RawHeaders) -> None:
    """Reject a foreign Host (DNS rebinding) and a foreign Origin."""
    given = header_values(headers, b"host")
    host = parse_host(given[0]) if len(given) == 1 else None
    if host is None or not is_own_host(settings, host):
        raise WrongHost("This Host is not allowed: add it to allowed_hosts to accept it.")
    for origin in header_values(headers, b"origin"):
        if not is_own_page(origin, given[0]):
            raise Forbidden("Requests from pages of other sites are not allowed.")


def parse_host(host: str) -> str | None:
    """Return the name or address in a Host header."""
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else None


@lru_cache(256)
def is_own_host(settings: Settings, host: str) -> bool:
    bound = parse_address(settings.host)
    if is_loopback(host) or host in {name.lower() for name in (settings.host, *settings.allowed_hosts)}:
        return True
    # DNS rebinding needs a name, never an address, so behind a wildcard address every address is accepted.
    return (
        bound is not None and parse_address(host) is not None and (bound.is_unspecified or parse_address(host) == bound)
    )


def is_own_page(origin: str, host: str) -> bool:
    """Return whether an origin is the requested host or this machine."""
    scheme, _, place = origin.partition("://")
    name = parse_host(place)
    return scheme in ("http", "https") and name is not None and (place == host or is_loopback(name))


class Credentials(NamedTuple):
    """The key and agent id that a request carries."""

    secret: str | None
    agent: str | None


def read_credentials(headers: RawHeaders) -> Credentials:
    """Return the key and the agent id of a request; at most one of each."""
    bearer, plain = header_values(headers, b"authorization"), header_values(headers, b"x-api-key")
    if len(bearer) + len(plain) > 1:
        raise AuthenticationRequired("Send one key, in one header.")
    agents = header_values(headers, b"x-agent-id")
    if len(agents) > 1:
        raise Invalid("X-Agent-Id: sent more than once; send it once", fields=["X-Agent-Id"])
    return Credentials(
        _bearer(bearer[0]) if bearer else plain[0] if plain else None,
        validate_agent_id(agents[0], "X-Agent-Id") if agents else None,
    )


def _bearer(value: str) -> str:
    scheme, _, secret = value.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def authenticate(holdfast: Holdfast, headers: RawHeaders) -> Caller:
    """Return the caller of a request. Keys are read from the store each time, so a revocation takes effect at once."""
    secret, agent = read_credentials(headers)
    settings = holdfast.settings
    with holdfast.ctx.reading() as session:
        if secret is None:
            if settings.api_key or not is_loopback(settings.host) or keys.has_any_key(session):
                raise AuthenticationRequired
            return owner_caller(agent)
        if settings.api_key and compare_digest(keys.hash_secret(secret), keys.hash_secret(settings.api_key)):
            return owner_caller(agent)
        key = keys.find_key(session, secret)
    if key is None:
        raise AuthenticationRequired("This key is not valid.")
    return key_caller(key, agent)


def owner_caller(agent: str | None) -> Caller:
    """Return a caller with every right, under the agent id of its header."""
    return Caller(agent=agent or default_agent(), has_fixed_agent=agent is not None, source="api")


@cache
def default_agent() -> str:
    """Return the agent id of a client that sends none; the same for every request."""
    return client_agent("http", host_name())


def key_caller(key: Key, agent: str | None) -> Caller:
    """Return the caller of a key; its agent is the key's, unless the key allows any."""
    caller = keys.caller_of(key, "api")
    if agent is None or agent == caller.agent:
        return caller
    if caller.has_fixed_agent:
        raise Forbidden(f"This key belongs to {caller.agent!r} and cannot act as {agent!r}.")
    return replace(caller, agent=agent, has_fixed_agent=True)


def lacks_credentials(holdfast: Holdfast) -> bool:
    """Return whether the server is reachable from outside but has no key and no enrolled peer."""
    if is_loopback(holdfast.settings.host) or holdfast.settings.api_key:
        return False
    with holdfast.ctx.reading() as session:
        return not keys.has_active_key(session) and not list_peers(session)

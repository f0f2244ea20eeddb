"""SSRF guard: requests to user-given addresses may reach only public addresses and allowed networks."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from holdfast.kernel.errors import Invalid, InvalidSetting
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.outbound import WebhookLimits

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_CHARS = 2048
NOT_PUBLIC = "resolves to an address that is not public and not allowed by webhook_networks"
_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""NAT64: packets go to the IPv4 address in the last 32 bits."""
_NOT_FOR_HOSTS = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # protocol assignments, some of which count as global
        "192.88.99.0/24",  # relays of 6to4
        "2001::/23",  # Teredo and other protocol assignments
        "2001:db8::/32",
        "2002::/16",  # 6to4, which embeds an IPv4 address
        "3fff::/20",  # documentation
    )
)
_ISATAP = (0x00005EFE, 0x02005EFE)
"""Third quarter of an ISATAP address; the last quarter is an IPv4 address."""


def is_public(address: Address) -> bool:
    """Whether an address, and an IPv4 address embedded in it, is public."""
    if any(address.version == network.version and address in network for network in _NOT_FOR_HOSTS):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not (address.is_multicast or address.is_reserved)
    if embedded := _embedded_ipv4(address):
        return is_public(embedded)
    isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
    return address in _UNICAST and address.is_global and address.scope_id is None and not isatap


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _TRANSLATED else None


def is_allowed(address: Address, networks: Sequence[str]) -> bool:
    """Whether an address is in one of the allowed networks."""
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return any(address.version == network.version and address in network for network in _networks(tuple(networks)))


@lru_cache(maxsize=16)
def _networks(given: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(text.strip(), strict=False) for text in given)
    except ValueError as error:
        raise InvalidSetting(f"webhook_networks: {error}") from None


def validate_url(url: str, outbound: WebhookLimits) -> SplitResult:
    """Validate a webhook URL, as far as possible without a DNS lookup.

    Errors never repeat the URL: it may contain a password.
    """
    parts = _parts(url)
    found = _literal_addresses(parts.hostname or "", _port(parts))
    allowed = bool(found) and all(is_allowed(one, outbound.networks) for one in found)
    if not all(is_public(one) or is_allowed(one, outbound.networks) for one in found):
        raise _invalid("must be public or allowed by webhook_networks")
    if parts.scheme != "https" and not allowed and (found or not outbound.networks):
        raise _invalid("must start with https://; http:// is only for networks in webhook_networks")
    return parts


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise _invalid("must be a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "%" in parts.netloc:
        raise _invalid("must start with https:// and a host name")
    if not (url.isascii() and url.isprintable()) or " " in url or len(url) > MAX_URL_CHARS:
        raise _invalid(f"must be at most {MAX_URL_CHARS} ASCII characters without blanks")
    if parts.username is not None or parts.password is not None:
        raise _invalid("must not contain a user or password: the signature authenticates the sender")
    if parts.fragment:
        raise _invalid("must not contain a fragment (#)")
    return parts


def _invalid(what: str) -> Invalid:
    return Invalid(f"url: the address of a webhook {what}", fields=["url"])


def _literal_addresses(host: str, port: int) -> list[Address]:
    """Return the addresses of a literal host, in any form a resolver accepts; empty for a host name."""
    if host.rstrip(".").lower().split(".")[-1] == "localhost":
        return [ip_address("127.0.0.1"), ip_address("::1")]
    try:
        return _look_up(host.rstrip("."), port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return []


def _look_up(host: str, port: int, flags: int = 0) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(ip_address(str(one[4][0])) for one in found))


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def resolve(parts: SplitResult, outbound: WebhookLimits) -> list[Address]:
    """Resolve a host to all its addresses; raises Failure if any of them is not allowed."""
    try:
        found = _look_up(parts.hostname or "", _port(parts))
    except (OSError, ValueError, UnicodeError):
        raise RequestFailure(
            "cannot be found: its host name does not resolve", retryable=True, is_unprocessed=True
        ) from None
    others = [one for one in found if not is_allowed(one, outbound.networks)]
    if not found or not all(map(is_public, others)):
        raise RequestFailure(NOT_PUBLIC, is_unprocessed=True)
    if others and parts.scheme != "https":
        raise RequestFailure("is public and therefore requires https://", is_unprocessed=True)
    return found

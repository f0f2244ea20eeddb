"""Webhook requests: only to checked addresses, bounded in time, without redirects."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import create_default_context
from time import monotonic
from typing import NamedTuple

from holdfast.kernel.net.deadline import run_within
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.http_client import Exchange, connection_failure, parse_retry_after
from holdfast.kernel.net.outbound import WebhookLimits
from holdfast.kernel.net.ssrf_guard import Address, resolve, validate_url


class WebhookResponse(NamedTuple):
    """A receiver's response; its body is not read."""

    status: int
    retry_after: float = 0.0
    """Seconds to wait before a retry, as requested by the receiver."""


class WebhookClient:
    """Posts to one URL. The host is resolved once per request, and the connection uses exactly those addresses."""

    def __init__(self, url: str, outbound: WebhookLimits) -> None:
        self._parts = validate_url(url, outbound)
        self._outbound = outbound
        self._exchange: Exchange | None = None
        self.host = self._parts.netloc

    def post(self, body: bytes, headers: Mapping[str, str]) -> WebhookResponse:
        """Return the response or raise Failure within the time limit. Redirects are not followed."""
        deadline = monotonic() + self._outbound.timeout
        try:
            return run_within(self._outbound.timeout, lambda: self._send(body, dict(headers), deadline))
        except TimeoutError:
            late = f"did not answer within {self._outbound.timeout:g} seconds"
            raise RequestFailure(late, retryable=True, is_timeout=True) from None
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection; this wakes a thread that waits for the response."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()

    def _send(self, body: bytes, headers: dict[str, str], deadline: float) -> WebhookResponse:
        addresses = resolve(self._parts, self._outbound)
        exchange = self._exchange = Exchange(self._connection(addresses), deadline)
        path = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        try:
            said = exchange.send(path, body, headers)
        except TimeoutError:
            raise
        except (OSError, HTTPException) as error:
            untrusted = "cannot be reached securely: this machine does not trust its certificate"
            raise connection_failure(error, untrusted) from None
        return WebhookResponse(said.status, parse_retry_after(said.headers.get("Retry-After")))

    def _connection(self, addresses: Sequence[Address]) -> HTTPConnection:
        host, port, timeout = self._parts.hostname or "", self._parts.port, self._outbound.timeout
        made = (
            _PinnedConnection(host, port, timeout=timeout)
            if self._parts.scheme == "http"
            else _PinnedTlsConnection(host, port, timeout=timeout, context=create_default_context())
        )
        made.addresses = addresses
        return made


def _connect(addresses: Sequence[Address], port: int, timeout: float | None) -> socket.socket:
    """Connect to the first reachable address."""
    for address in addresses[:-1]:
        try:
            return socket.create_connection((str(address), port), timeout)
        except OSError:
            continue
    return socket.create_connection((str(addresses[-1]), port), timeout)


class _PinnedConnection(HTTPConnection):
    """Connects to checked addresses of a host."""

    addresses: Sequence[Address] = ()

    def connect(self) -> None:
        self.sock = _connect(self.addresses, self.port, self.timeout)


class _PinnedTlsConnection(HTTPSConnection, _PinnedConnection):
    """The same over TLS: the certificate must match the host name."""

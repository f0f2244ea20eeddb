"""Webhook requests: only to checked addresses, bounded in time, without redirects."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import SSLContext, SSLError, create_default_context
from time import monotonic
from typing import NamedTuple

from holdfast.kernel.net.access import Outbound
from holdfast.kernel.net.deadline import within
from holdfast.kernel.net.failure import Failure
from holdfast.kernel.net.http_client import Exchange, seconds_of
from holdfast.kernel.net.ssrf_guard import Address, admit_url, resolve


class Answer(NamedTuple):
    """A receiver's response; its body is not read."""

    status: int
    after: float = 0.0
    """Seconds to wait before a retry, as requested by the receiver."""


class Webhook:
    """Posts to one URL. The host is resolved once per request, and the connection uses exactly those addresses."""

    def __init__(self, url: str, outbound: Outbound) -> None:
        self._parts = admit_url(url, outbound)
        self._outbound = outbound
        self._exchange: Exchange | None = None
        self.host = self._parts.netloc

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Return the response or raise Failure within the time limit. Redirects are not followed."""
        deadline = monotonic() + self._outbound.timeout
        try:
            return within(self._outbound.timeout, lambda: self._posted(body, dict(headers), deadline))
        except TimeoutError:
            late = f"did not answer within {self._outbound.timeout:g} seconds"
            raise Failure(late, retryable=True, late=True) from None
        finally:
            self.end()

    def end(self) -> None:
        """Close the connection; this wakes a thread that waits for the response."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end()

    def _posted(self, body: bytes, headers: dict[str, str], deadline: float) -> Answer:
        addresses = resolve(self._parts, self._outbound)
        exchange = self._exchange = Exchange(self._connection(addresses), deadline)
        path = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        try:
            said = exchange.send(path, body, headers)
        except TimeoutError:
            raise
        except (OSError, HTTPException) as error:
            raise _broken(error) from None
        return Answer(said.status, seconds_of(said.headers.get("Retry-After")))

    def _connection(self, addresses: Sequence[Address]) -> HTTPConnection:
        host, port, timeout = self._parts.hostname or "", self._parts.port, self._outbound.timeout
        if self._parts.scheme == "http":
            return _Pinned(host, port, addresses, timeout)
        return _PinnedTls(host, port, addresses, timeout)


def _broken(error: OSError | HTTPException) -> Failure:
    match error:
        case SSLError():
            return Failure("cannot be reached securely: this machine does not trust its certificate")
        case ConnectionResetError() | BrokenPipeError() | HTTPException():
            return Failure("closed the connection, or does not speak HTTP", retryable=True)
        case _:
            return Failure("cannot be reached", retryable=True)


def _connected(addresses: Sequence[Address], port: int, timeout: float) -> socket.socket:
    """Connect to the first reachable address."""
    for address in addresses[:-1]:
        try:
            return socket.create_connection((str(address), port), timeout)
        except OSError:
            continue
    return socket.create_connection((str(addresses[-1]), port), timeout)


class _Pinned(HTTPConnection):
    """Connects to checked addresses of a host."""

    def __init__(self, host: str, port: int | None, addresses: Sequence[Address], timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self._addresses, self._seconds = addresses, timeout

    def connect(self) -> None:
        self.sock = _connected(self._addresses, self.port, self._seconds)


class _PinnedTls(HTTPSConnection):
    """The same over TLS: the certificate must match the host name."""

    def __init__(self, host: str, port: int | None, addresses: Sequence[Address], timeout: float) -> None:
        self._trusted: SSLContext = create_default_context()
        super().__init__(host, port, timeout=timeout, context=self._trusted)
        self._addresses, self._seconds = addresses, timeout

    def connect(self) -> None:
        plain = _connected(self._addresses, self.port, self._seconds)
        try:
            self.sock = self._trusted.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise

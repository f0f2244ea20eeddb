"""HTTP requests to a provider: bounded in time and size, retried only where that is safe."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from random import random
from ssl import SSLContext, SSLEOFError, SSLError, create_default_context
from time import monotonic, sleep, time
from urllib.parse import SplitResult

from holdfast.kernel.net.circuit_breaker import CircuitBreaker
from holdfast.kernel.net.deadline import run_within
from holdfast.kernel.net.failure import RequestFailure

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Limit of a response: twice the largest batch of vectors."""
FIRST_RETRY_SECONDS = 0.5
"""Seconds before the first retry; pauses double and have random jitter."""


class JsonClient:
    """Posts JSON to one host. Ignores proxies and redirects: they would receive the key."""

    def __init__(
        self,
        address: SplitResult,
        *,
        settings: str,
        headers: Mapping[str, str],
        timeout: float,
        attempts: int = 1,
        allow_empty: bool = False,
    ) -> None:
        self._address = address
        self._settings = settings
        self._headers = {"Content-Type": "application/json", **headers}
        self._timeout = timeout
        self._attempts = attempts
        self._allows_empty = allow_empty
        """Whether any 2xx status is a success, even with an empty body."""
        self.breaker = CircuitBreaker()
        self.host = address.netloc

    def __call__(self, path: str, body: bytes) -> bytes:
        """Return the response body or raise Failure; the time limit includes all retries."""
        deadline = monotonic() + self._timeout
        with self.breaker.guard():
            return self._send_with_retries(path, body, deadline)

    def _send_with_retries(self, path: str, body: bytes, deadline: float) -> bytes:
        """Retry temporary refusals while the time limit allows the requested pause."""
        for number in range(1, self._attempts):
            try:
                return self._send_once(path, body, deadline)
            except RequestFailure as failure:
                pause = max(failure.retry_after, FIRST_RETRY_SECONDS * 2 ** (number - 1) * (0.5 + random()))  # noqa: S311 - no secret
                if not (failure.retryable and failure.is_unprocessed) or monotonic() + pause >= deadline:
                    raise
            sleep(pause)
        return self._send_once(path, body, deadline)

    def _send_once(self, path: str, body: bytes, deadline: float) -> bytes:
        exchange = Exchange(self._connection(), deadline)
        try:
            return run_within(deadline - monotonic(), lambda: self._exchange_messages(exchange, path, body))
        except TimeoutError:
            raise self._timeout_failure(exchange) from None
        finally:
            exchange.close()

    def _connection(self) -> HTTPConnection:
        name, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "http":
            return HTTPConnection(name, port, timeout=self._timeout)
        return HTTPSConnection(name, port, timeout=self._timeout, context=self._ssl_context)

    @cached_property
    def _ssl_context(self) -> SSLContext:
        return create_default_context()

    def _exchange_messages(self, exchange: Exchange, path: str, body: bytes) -> bytes:
        try:
            return self._read_response(exchange.send(self._address.path.rstrip("/") + path, body, self._headers))
        except TimeoutError:
            raise self._timeout_failure(exchange) from None
        except (OSError, HTTPException) as error:
            # A provider's output may repeat the key, and the error its output.
            untrusted = f"cannot be reached securely: check {self._settings}_url and the provider's certificate"
            raise connection_failure(
                error, untrusted, is_unprocessed=not exchange.was_sent, has_response=exchange.has_response
            ) from None

    def _read_response(self, response: HTTPResponse) -> bytes:
        if not (response.status == 200 or (self._allows_empty and 200 <= response.status < 300)):
            raise self._status_failure(response.status, parse_retry_after(response.headers.get("Retry-After")))
        body = response.read(MAX_RESPONSE_BYTES + 1)
        if len(body) > MAX_RESPONSE_BYTES:
            raise RequestFailure(f"sent more than {MAX_RESPONSE_BYTES:,} bytes", status=200)
        if response.length or not (body or self._allows_empty):
            raise RequestFailure("closed the connection in the middle of its response", retryable=True, status=200)
        return body

    def _status_failure(self, status: int, after: float) -> RequestFailure:
        match status:
            case 301 | 302 | 303 | 307 | 308:
                what = f"redirects, which is not followed: set {self._settings}_url to the target"
            case 401 | 403:
                what = f"does not accept the key (HTTP {status}): set {self._settings}_key"
            case 404:
                what = f"has no such path or model (HTTP 404): check {self._settings}_url and {self._settings}_model"
            case _:
                what = f"refused the request (HTTP {status})" + (f" for {after:.0f} seconds" if after else "")
        retryable = status in (408, 425, 429) or status >= 500
        return RequestFailure(what, retryable=retryable, status=status, is_unprocessed=True, retry_after=after)

    def _timeout_failure(self, exchange: Exchange) -> RequestFailure:
        what = f"did not answer within {self._timeout:g} seconds"
        return RequestFailure(what, retryable=True, is_timeout=True, has_response=exchange.has_response)


def parse_retry_after(retry_after: str | None) -> float:
    """Parse a Retry-After header, seconds or a date, to seconds; 0 without one."""
    if retry_after is None:
        return 0.0
    if retry_after.strip().isdecimal():
        return float(retry_after[:9])
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time())
    except (ValueError, OverflowError):
        return 0.0


def connection_failure(
    error: OSError | HTTPException, untrusted: str, *, is_unprocessed: bool = False, has_response: bool = False
) -> RequestFailure:
    """Explain a failed connection, without the error's own text; `untrusted` is what to say about a certificate."""
    match error:
        case ConnectionResetError() | BrokenPipeError() | HTTPException() | SSLEOFError():
            what = "closed the connection, or does not speak HTTP"
        case SSLError():
            return RequestFailure(untrusted, is_unprocessed=is_unprocessed)
        case socket.gaierror():
            what = "cannot be found: its host name does not resolve"
        case _:
            what = "cannot be reached"
    has_response = has_response or (isinstance(error, HTTPException) and not isinstance(error, OSError))
    return RequestFailure(what, retryable=True, is_unprocessed=is_unprocessed, has_response=has_response)


class Exchange:
    """One request and its response."""

    def __init__(self, connection: HTTPConnection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self.was_sent = False
        """Whether the provider may have received part of the request."""
        self.has_response = False
        """Whether a response started."""

    def send(self, path: str, body: bytes, headers: dict[str, str]) -> HTTPResponse:
        self._connection.connect()
        if monotonic() > self._deadline:
            raise TimeoutError
        self.was_sent = True
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        self.has_response = True
        return response

    def close(self) -> None:
        """Close the connection; this wakes a thread that still reads from it."""
        if self._connection.sock:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()

"""A request to a provider over HTTP: bounded in time and in size, and repeated only where that cannot harm."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from random import random
from time import monotonic, sleep, time
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from holdfast.kernel.net.circuit_breaker import Breaker
from holdfast.kernel.net.deadline import within
from holdfast.kernel.net.failure import Failure

if TYPE_CHECKING:
    from ssl import SSLContext

MOST_BYTES = 8 * 1024 * 1024
"""Of an answer: twice what the vectors of a batch can take."""
FIRST_PAUSE = 0.5
"""Seconds before the second try; each further pause is twice as long, and all of them are spread at random."""


class Post:
    """Posts JSON to one host. Neither proxies nor redirects are followed: each would be told the key."""

    def __init__(
        self,
        address: SplitResult,
        *,
        settings: str,
        headers: Mapping[str, str],
        timeout: float,
        tries: int = 1,
        quiet: bool = False,
    ) -> None:
        self._address = address
        self._settings = settings
        self._headers = {"Content-Type": "application/json", **headers}
        self._timeout = timeout
        self._tries = tries
        self._quiet = quiet
        """Whether any success is one, even if nothing is said."""
        self.breaker = Breaker()
        self.host = address.netloc

    def __call__(self, path: str, body: bytes) -> bytes:
        """The answer's body, or Failure; within the time limit either way, all tries together."""
        deadline = monotonic() + self._timeout
        with self.breaker.passing():
            return self._tried(path, body, deadline)

    def _tried(self, path: str, body: bytes, deadline: float) -> bytes:
        """Ask again while a provider refuses for now and the time suffices for the pause that it wants."""
        for number in range(1, self._tries):
            try:
                return self._asked(path, body, deadline)
            except Failure as failure:
                pause = max(failure.after, FIRST_PAUSE * 2 ** (number - 1) * (0.5 + random()))  # noqa: S311 - no secret
                if not (failure.retryable and failure.undone) or monotonic() + pause >= deadline:
                    raise
            sleep(pause)
        return self._asked(path, body, deadline)

    def _asked(self, path: str, body: bytes, deadline: float) -> bytes:
        exchange = Exchange(self._connection(), deadline)
        try:
            return within(deadline - monotonic(), lambda: self._answered(exchange, path, body))
        except TimeoutError:
            raise self._late(exchange) from None
        finally:
            exchange.end()

    def _connection(self) -> HTTPConnection:
        name, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "http":
            return HTTPConnection(name, port, timeout=self._timeout)
        return HTTPSConnection(name, port, timeout=self._timeout, context=self._trusted)

    @cached_property
    def _trusted(self) -> SSLContext:
        from ssl import create_default_context

        return create_default_context()

    def _answered(self, exchange: Exchange, path: str, body: bytes) -> bytes:
        try:
            return self._read(exchange.send(self._address.path.rstrip("/") + path, body, self._headers))
        except (OSError, HTTPException) as error:
            # What a provider sends may repeat the key, and an error what it sends.
            raise self._broken(error, exchange) from None

    def _read(self, response: HTTPResponse) -> bytes:
        if not (response.status == 200 or (self._quiet and 200 <= response.status < 300)):
            raise self._refused(response.status, seconds_of(response.headers.get("Retry-After")))
        body = response.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise Failure(f"answered with more than {MOST_BYTES:,} bytes", status=200)
        if response.length or not (body or self._quiet):
            raise Failure("broke off in the middle of its answer", retryable=True, status=200)
        return body

    def _refused(self, status: int, after: float) -> Failure:
        match status:
            case 301 | 302 | 303 | 307 | 308:
                what = f"redirects, which is not followed: set {self._settings}_url to where it leads"
            case 401 | 403:
                what = f"does not accept the key (HTTP {status}): set {self._settings}_key"
            case 404:
                what = f"knows no such path or model (HTTP 404): check {self._settings}_url and {self._settings}_model"
            case _:
                what = f"refuses to answer (HTTP {status})" + (f" for {after:.0f} seconds" if after else "")
        retryable = status in (408, 425, 429) or status >= 500
        return Failure(what, retryable=retryable, status=status, undone=True, after=after)

    def _broken(self, error: OSError | HTTPException, exchange: Exchange) -> Failure:
        from ssl import SSLEOFError, SSLError

        undone = not exchange.sent
        match error:
            case TimeoutError():
                return self._late(exchange)
            case ConnectionResetError() | BrokenPipeError() | HTTPException() | SSLEOFError():
                what, no_http = "broke the connection off, or speaks no HTTP", not isinstance(error, OSError)
                return Failure(what, retryable=True, undone=undone, answered=exchange.answered or no_http)
            case SSLError():
                what = f"cannot be reached securely: check {self._settings}_url and the provider's certificate"
                return Failure(what, undone=undone)
            case socket.gaierror():
                return Failure("is not to be found under this name", retryable=True, undone=undone)
            case _:
                return Failure("cannot be reached", retryable=True, undone=undone)

    def _late(self, exchange: Exchange) -> Failure:
        what = f"did not answer within {self._timeout:g} seconds"
        return Failure(what, retryable=True, late=True, answered=exchange.answered)


def seconds_of(retry_after: str | None) -> float:
    """How long a provider asks to be left alone: so many seconds, or until a date; 0 if it does not say."""
    if retry_after is None:
        return 0.0
    if retry_after.strip().isdecimal():
        return float(retry_after[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time())
    except (ValueError, OverflowError):
        return 0.0


class Exchange:
    """A request and its answer."""

    def __init__(self, connection: HTTPConnection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self.sent = False
        """Whether the provider may have got something of the request."""
        self.answered = False
        """Whether its answer began."""

    def send(self, path: str, body: bytes, headers: dict[str, str]) -> HTTPResponse:
        self._connection.connect()
        if monotonic() > self._deadline:
            raise TimeoutError
        self.sent = True
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        self.answered = True
        return response

    def end(self) -> None:
        """Close the connection, and so wake up whoever still reads from it."""
        if self._connection.sock:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()

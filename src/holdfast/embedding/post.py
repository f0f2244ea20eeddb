"""A request to a provider: bounded in time and in size, and sent nowhere else than to where it is addressed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from ..domain.errors import EmbedderFailed

if TYPE_CHECKING:
    from ssl import SSLContext

MOST_BYTES = 8 * 1024 * 1024
"""Of an answer: twice what the vectors of a batch can take."""


class Post:
    """Posts JSON to one host. Neither proxies nor redirects are followed: each would be told the key."""

    def __init__(self, address: SplitResult, *, key: str | None, timeout: float) -> None:
        self._address = address
        self._key = key
        self._timeout = timeout
        self.host = address.netloc

    def __call__(self, path: str, body: bytes) -> bytes:
        """The answer's body, or EmbedderFailed; within the time limit either way."""
        exchange = _Exchange(self._connection(), monotonic() + self._timeout)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        answer = exchange.begin(lambda: self._answered(exchange, path, body, headers))
        try:
            return answer.result(self._timeout)
        except TimeoutError:
            raise self._late() from None
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

    def _answered(self, exchange: _Exchange, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        try:
            return self._read(exchange.send(self._address.path.rstrip("/") + path, body, headers))
        except (OSError, HTTPException) as error:
            # What a provider sends may repeat the key, and an error what it sends.
            raise self._broken(error) from None

    def _read(self, response: HTTPResponse) -> bytes:
        if response.status != 200:
            raise self._refused(response.status)
        body = response.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise self._failed(f"answered with more than {MOST_BYTES:,} bytes")
        if response.length or not body:
            raise self._failed("broke off in the middle of its answer", retryable=True)
        return body

    def _refused(self, status: int) -> EmbedderFailed:
        match status:
            case 301 | 302 | 303 | 307 | 308:
                return self._failed("redirects, which is not followed: set embedding_url to where it leads")
            case 401 | 403:
                return self._failed(f"does not accept the key (HTTP {status}): set embedding_key")
            case 404:
                return self._failed("knows no such path or model (HTTP 404): check embedding_url and embedding_model")
            case _:
                retryable = status in (408, 425, 429) or status >= 500
                return self._failed(f"refuses to answer (HTTP {status})", retryable=retryable)

    def _broken(self, error: OSError | HTTPException) -> EmbedderFailed:
        from ssl import SSLEOFError, SSLError

        match error:
            case TimeoutError():
                return self._late()
            case ConnectionResetError() | BrokenPipeError() | HTTPException() | SSLEOFError():
                return self._failed("broke the connection off, or speaks no HTTP", retryable=True)
            case SSLError():
                return self._failed("cannot be reached securely: check embedding_url and the provider's certificate")
            case socket.gaierror():
                return self._failed("is not to be found under this name", retryable=True)
            case _:
                return self._failed("cannot be reached", retryable=True)

    def _late(self) -> EmbedderFailed:
        return self._failed(f"did not answer within {self._timeout:g} seconds", retryable=True)

    def _failed(self, what: str, *, retryable: bool = False) -> EmbedderFailed:
        return EmbedderFailed(f"The embedding provider at {self.host} {what}.", retryable=retryable)


class _Exchange:
    """A request and its answer, in a thread that can be left alone: a name may be looked up for ever."""

    def __init__(self, connection: HTTPConnection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def begin(self, work: Callable[[], bytes]) -> Future[bytes]:
        future: Future[bytes] = Future()
        Thread(target=_settle, args=(future, work), name="holdfast-embedding", daemon=True).start()
        return future

    def send(self, path: str, body: bytes, headers: dict[str, str]) -> HTTPResponse:
        self._connection.connect()
        if monotonic() > self._deadline:
            raise TimeoutError
        self._connection.request("POST", path, body, headers)
        return self._connection.getresponse()

    def end(self) -> None:
        """Close the connection, and so wake up whoever still reads from it."""
        if self._connection.sock:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _settle(future: Future[bytes], work: Callable[[], bytes]) -> None:
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised again where the answer is waited for
        future.set_exception(error)

"""Requests to another store over HTTP: bounded in time and in size, over one connection that is kept open."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from ssl import SSLContext, SSLEOFError, SSLError
from time import monotonic
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.sync.peers.request_signature import SIGNATURE
from holdfast.kernel.errors import Invalid
from holdfast.kernel.net import fingerprint
from holdfast.kernel.net.access import Access
from holdfast.kernel.net.compression import pack, unpack
from holdfast.kernel.net.deadline import within
from holdfast.kernel.net.failure import Failure
from holdfast.kernel.net.tls import client_context

MOST_BYTES = 32 * 1024 * 1024
"""Of an answer, compressed or not: a page, and the largest single change beyond it."""
MOST_REFUSAL = 64 * 1024
MOST_TOLD = 300
"""Characters of what a peer says about an error of its own that are passed on."""
TIMEOUT = 60.0
CONNECT_SECONDS = 5.0
CUT_SECONDS = 10
"""After which a connection counts as cut on which nothing is confirmed."""
WORTH_BYTES = 512
"""Below this a message is sent as it is."""
_CODE = re.compile(r"[A-Z][A-Z_]{0,63}")
_GONE = (RemoteDisconnected, ConnectionResetError, BrokenPipeError, SSLEOFError)
Sign = Callable[[str, bytes], Mapping[str, str]]
"""Headers that prove who sends a body to a path; made anew for each try, since each may be used once."""
Proves = Callable[[str, Mapping[str, str], str, bytes], bool]
"""Whether a signature proves who answered to a path with a body, by the headers that were sent there."""


def usable(access: Access) -> Access:
    """The same, with its pin as 64 digits. Raises Invalid if that is none, or if a file cannot be read."""
    for option in ("ca", "client_cert", "client_key"):
        if path := getattr(access, option):
            _must_be_readable(path, option)
    return replace(access, fingerprint=fingerprint.admit(access.fingerprint)) if access.fingerprint else access


def _must_be_readable(path: str, option: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Invalid(f"{option}: {path} cannot be read: {why}", fields=[option]) from None


class Link:
    """One peer. Neither proxies nor redirects are followed: each would be told what it is not meant to know."""

    def __init__(self, url: str, access: Access, *, timeout: float = TIMEOUT) -> None:
        self.address = address(url)
        self.name = f"{self.address.scheme}://{self.address.netloc}{self.address.path}"
        self._access = usable(access)
        self._timeout = timeout
        self._connection: HTTPConnection | None = None

    def ask(self, path: str, message: bytes, sign: Sign | None = None, proves: Proves | None = None) -> bytes:
        """What the peer answers to a message, or Failure; within the time limit either way."""
        deadline = monotonic() + self._timeout
        try:
            return within(self._timeout, lambda: self._asked(path, message, sign, proves, deadline))
        except TimeoutError:
            self.close()
            raise Failure(f"did not answer within {self._timeout:g} seconds", retryable=True, late=True) from None
        except Failure:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection, and so wake up whoever still reads from it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.sock:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _asked(self, path: str, message: bytes, sign: Sign | None, proves: Proves | None, deadline: float) -> bytes:
        """A connection that was kept may have ended meanwhile: then, and only then, it is asked once more."""
        path = self.address.path.rstrip("/") + path
        body = pack(message) if len(message) >= WORTH_BYTES else message
        encoding = {"Content-Encoding": "gzip"} if body is not message else {}
        try:
            with suppress(*_GONE):
                if self._connection is not None:
                    return self._sent(self._connection, path, body, encoding, sign, proves)
            self.close()
            return self._sent(self._connect(deadline), path, body, encoding, sign, proves)
        except (OSError, HTTPException) as error:
            raise _broken(error) from None

    @cached_property
    def _tls(self) -> SSLContext:
        asked = self._access
        return client_context(
            asked.ca, asked.client_cert, asked.client_key, fingerprint=asked.fingerprint, insecure=asked.insecure
        )

    def _connect(self, deadline: float) -> HTTPConnection:
        host, port = self.address.hostname or "", self.address.port
        left = max(min(deadline - monotonic(), CONNECT_SECONDS), 0.001)
        if self.address.scheme == "http":
            made = HTTPConnection(host, port, timeout=left)
        else:
            made = HTTPSConnection(host, port, timeout=left, context=self._tls)
        self._connection = made
        made.connect()
        made.sock.settimeout(self._timeout)
        _notice_when_cut(made.sock)
        return made

    def _sent(
        self,
        connection: HTTPConnection,
        path: str,
        body: bytes,
        more: Mapping[str, str],
        sign: Sign | None,
        proves: Proves | None,
    ) -> bytes:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip", **more}
        if self._access.api_key:
            headers["Authorization"] = f"Bearer {self._access.api_key}"
        if sign is not None:
            headers.update(sign(path, body))
        connection.request("POST", path, body, headers)
        return self._read(connection.getresponse(), partial(proves, path, headers) if proves else None)

    def _read(self, response: HTTPResponse, is_proven: Callable[[str, bytes], bool] | None) -> bytes:
        if response.status != 200:
            raise self._refused(response.status, _whole(response, MOST_REFUSAL, strict=False))
        if response.headers.get_content_type() != "application/json":
            raise Failure("answers, but not as a Holdfast server does: check the address", status=200)
        body = _whole(response, MOST_BYTES)
        if is_proven and not is_proven(response.headers.get(SIGNATURE, ""), body):
            raise Failure("answers, but not as the store that was enrolled for this address would", status=200)
        if response.headers.get("Content-Encoding", "identity").lower() == "identity":
            return body
        try:
            return unpack(body, MOST_BYTES)
        except ValueError as error:
            raise Failure(f"sent an answer that {error}", status=200) from None

    def _refused(self, status: int, body: bytes) -> Failure:
        code, told = _said(body)
        if self._access.api_key and self._access.api_key in told:
            told = ""
        match status:
            case 301 | 302 | 303 | 307 | 308:
                what = "redirects, which is not followed: give the address where it leads"
            case 404 if not code:
                what = "has nothing at this path (HTTP 404): is it a Holdfast server of this release?"
            case _:
                what = f"refuses (HTTP {status}{f', {code}' if code else ''})" + (f": {told}" if told else "")
        return Failure(what, retryable=status in (408, 425, 429) or status >= 500, status=status)


def address(url: str) -> SplitResult:
    """A peer's URL. What is wrong with one is not repeated: it may hold a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid("A peer's address is not a URL.", fields=["peers"]) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not (url.isascii() and url.isprintable()):
        raise Invalid(
            "A peer's address begins with http:// or https:// and the name of a host: https://desk.example:9077",
            fields=["peers"],
        )
    if parts.username or parts.password or parts.query or parts.fragment or " " in url:
        raise Invalid(
            "A peer's address holds no more than a host, a port and a path: a key is a setting of its own.",
            fields=["peers"],
        )
    return parts


def _notice_when_cut(connection: socket.socket) -> None:
    """Ask the system to find out, where it can: a cable that was pulled would otherwise be waited for to the end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", CUT_SECONDS // 2),
        ("TCP_KEEPINTVL", CUT_SECONDS // 2),
        ("TCP_USER_TIMEOUT", CUT_SECONDS * 1000),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _whole(response: HTTPResponse, most: int, *, strict: bool = True) -> bytes:
    if strict and response.length is not None and response.length > most:
        raise Failure(f"answers with more than {most:,} bytes", status=response.status)
    body = response.read(most + 1)
    if strict and len(body) > most:
        raise Failure(f"answers with more than {most:,} bytes", status=response.status)
    if strict and response.length:
        raise Failure("broke off in the middle of its answer", retryable=True, status=response.status)
    return body


class _Told(Struct):
    code: str = ""
    error: str = ""


def _said(body: bytes) -> tuple[str, str]:
    """What a refusal says of itself, as far as it may be shown."""
    try:
        told = msgspec.json.decode(body, type=_Told)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "", ""
    text = "".join(letter for letter in told.error if letter.isprintable())
    return (told.code if _CODE.fullmatch(told.code) else ""), text[:MOST_TOLD]


def _broken(error: OSError | HTTPException) -> Failure:
    match error:
        case TimeoutError():
            return Failure("did not answer in time", retryable=True, late=True)
        case HTTPException() | ConnectionResetError() | BrokenPipeError() | SSLEOFError():
            return Failure("broke the connection off, or speaks no HTTP", retryable=True)
        case SSLError():
            return Failure("cannot be reached securely: check its address, its certificate and yours")
        case socket.gaierror():
            return Failure("is not to be found under this name", retryable=True)
        case _:
            return Failure("cannot be reached", retryable=True)

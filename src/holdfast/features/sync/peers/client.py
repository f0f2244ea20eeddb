"""HTTP client for a peer: bounded time and size, one persistent connection."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from ssl import SSLContext, SSLEOFError
from time import monotonic
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.sync.peers.request_signature import SIGNATURE
from holdfast.kernel.errors import Invalid
from holdfast.kernel.net import fingerprint
from holdfast.kernel.net.compression import compress, decompress
from holdfast.kernel.net.deadline import run_within
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.http_client import connection_failure
from holdfast.kernel.net.outbound import PeerCredentials
from holdfast.kernel.net.tls import client_context

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Limit of a response, compressed or not: a page plus the largest single change."""
MAX_ERROR_BYTES = 64 * 1024
MAX_ERROR_CHARS = 300
"""Characters of a peer's error message that are shown."""
TIMEOUT = 60.0
CONNECT_SECONDS = 5.0
DISCONNECT_SECONDS = 10
"""Time without a TCP acknowledgement after which a connection counts as lost."""
MIN_GZIP_BYTES = 512
"""Smaller messages are not compressed."""
_CODE = re.compile(r"[A-Z][A-Z_]{0,63}")
_DISCONNECTED = (RemoteDisconnected, ConnectionResetError, BrokenPipeError, SSLEOFError)
SignRequest = Callable[[str, bytes], Mapping[str, str]]
"""Return the signature headers for a path and body; called for every attempt, since a nonce is valid once."""
VerifyAnswer = Callable[[str, Mapping[str, str], str, bytes], bool]
"""Whether a signature proves who sent a response, given the path, request headers, signature and body."""


def validate_access(access: PeerCredentials) -> PeerCredentials:
    """Return the settings with a normalized fingerprint. Raises Invalid if it is malformed or a file is unreadable."""
    for option in ("ca", "client_cert", "client_key"):
        if path := getattr(access, option):
            _must_be_readable(path, option)
    return (
        replace(access, fingerprint=fingerprint.parse_fingerprint(access.fingerprint)) if access.fingerprint else access
    )


def _must_be_readable(path: str, option: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Invalid(f"{option}: cannot read {path}: {why}", fields=[option]) from None


class PeerClient:
    """Client of one peer. Ignores proxies and redirects, since they would see private data."""

    def __init__(self, url: str, access: PeerCredentials, *, timeout: float = TIMEOUT) -> None:
        self.address = parse_address(url)
        self.name = f"{self.address.scheme}://{self.address.netloc}{self.address.path}"
        self._access = validate_access(access)
        self._timeout = timeout
        self._connection: HTTPConnection | None = None

    def post(
        self, path: str, message: bytes, sign: SignRequest | None = None, proves: VerifyAnswer | None = None
    ) -> bytes:
        """Post a message and return the response body. Raises Failure, at the latest after the time limit."""
        deadline = monotonic() + self._timeout
        try:
            return run_within(self._timeout, lambda: self._post_with_retry(path, message, sign, proves, deadline))
        except TimeoutError:
            self.close()
            raise RequestFailure(
                f"did not answer within {self._timeout:g} seconds", retryable=True, is_timeout=True
            ) from None
        except RequestFailure:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, which also wakes a thread that reads from it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.sock:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _post_with_retry(
        self, path: str, message: bytes, sign: SignRequest | None, proves: VerifyAnswer | None, deadline: float
    ) -> bytes:
        """Send a request; retry once only if the persistent connection was closed in the meantime."""
        path = self.address.path.rstrip("/") + path
        body = compress(message) if len(message) >= MIN_GZIP_BYTES else message
        encoding = {"Content-Encoding": "gzip"} if body is not message else {}
        try:
            with suppress(*_DISCONNECTED):
                if self._connection is not None:
                    return self._send_request(self._connection, path, body, encoding, sign, proves)
            self.close()
            return self._send_request(self._connect(deadline), path, body, encoding, sign, proves)
        except TimeoutError:
            raise RequestFailure("did not answer in time", retryable=True, is_timeout=True) from None
        except (OSError, HTTPException) as error:
            untrusted = "failed the TLS handshake: check its address, its certificate and yours"
            raise connection_failure(error, untrusted) from None

    @cached_property
    def _tls(self) -> SSLContext:
        access = self._access
        return client_context(
            access.ca, access.client_cert, access.client_key, fingerprint=access.fingerprint, insecure=access.insecure
        )

    def _connect(self, deadline: float) -> HTTPConnection:
        host, port = self.address.hostname or "", self.address.port
        timeout = max(min(deadline - monotonic(), CONNECT_SECONDS), 0.001)
        if self.address.scheme == "http":
            connection = HTTPConnection(host, port, timeout=timeout)
        else:
            connection = HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        self._connection = connection
        connection.connect()
        connection.sock.settimeout(self._timeout)
        _detect_disconnect(connection.sock)
        return connection

    def _send_request(
        self,
        connection: HTTPConnection,
        path: str,
        body: bytes,
        more: Mapping[str, str],
        sign: SignRequest | None,
        proves: VerifyAnswer | None,
    ) -> bytes:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip", **more}
        if self._access.api_key:
            headers["Authorization"] = f"Bearer {self._access.api_key}"
        if sign is not None:
            headers.update(sign(path, body))
        connection.request("POST", path, body, headers)
        return self._read_answer(connection.getresponse(), partial(proves, path, headers) if proves else None)

    def _read_answer(self, response: HTTPResponse, is_proven: Callable[[str, bytes], bool] | None) -> bytes:
        if response.status != 200:
            raise self._refusal_failure(response.status, _read_body(response, MAX_ERROR_BYTES, strict=False))
        if response.headers.get_content_type() != "application/json":
            raise RequestFailure("is not a Holdfast server: check the address", status=200)
        body = _read_body(response, MAX_MESSAGE_BYTES)
        if is_proven and not is_proven(response.headers.get(SIGNATURE, ""), body):
            raise RequestFailure("did not sign its response as the store enrolled for this address", status=200)
        if response.headers.get("Content-Encoding", "identity").lower() == "identity":
            return body
        try:
            return decompress(body, MAX_MESSAGE_BYTES)
        except ValueError as error:
            raise RequestFailure(f"sent a response that {error}", status=200) from None

    def _refusal_failure(self, status: int, body: bytes) -> RequestFailure:
        code, message = _parse_error(body)
        if self._access.api_key and self._access.api_key in message:
            message = ""
        match status:
            case 301 | 302 | 303 | 307 | 308:
                what = "redirects, which is not followed: use the target address"
            case 404 if not code:
                what = "does not know this path (HTTP 404): is it a Holdfast server of this release?"
            case _:
                what = f"rejected the request (HTTP {status}{f', {code}' if code else ''})" + (
                    f": {message}" if message else ""
                )
        return RequestFailure(what, retryable=status in (408, 425, 429) or status >= 500, status=status)


def parse_address(url: str) -> SplitResult:
    """Parse a peer's URL. Errors do not repeat it, since it may contain a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid("A peer's address must be a URL: https://desk.example:9077", fields=["peers"]) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not (url.isascii() and url.isprintable()):
        raise Invalid(
            "A peer's address must start with http:// or https:// and a host: https://desk.example:9077",
            fields=["peers"],
        )
    if parts.username or parts.password or parts.query or parts.fragment or " " in url:
        raise Invalid(
            "A peer's address may contain only host, port and path. Pass the key as a separate setting.",
            fields=["peers"],
        )
    return parts


def _detect_disconnect(connection: socket.socket) -> None:
    """Enable TCP keepalive where available; otherwise a lost connection is noticed only at the time limit."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", DISCONNECT_SECONDS // 2),
        ("TCP_KEEPINTVL", DISCONNECT_SECONDS // 2),
        ("TCP_USER_TIMEOUT", DISCONNECT_SECONDS * 1000),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read_body(response: HTTPResponse, most: int, *, strict: bool = True) -> bytes:
    if strict and response.length is not None and response.length > most:
        raise RequestFailure(f"sent more than {most:,} bytes", status=response.status)
    body = response.read(most + 1)
    if strict and len(body) > most:
        raise RequestFailure(f"sent more than {most:,} bytes", status=response.status)
    if strict and response.length:
        raise RequestFailure("sent an incomplete response", retryable=True, status=response.status)
    return body


class _ErrorBody(Struct):
    code: str = ""
    error: str = ""


def _parse_error(body: bytes) -> tuple[str, str]:
    """Return the error code and message of a response, as far as they are safe to show."""
    try:
        error_body = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "", ""
    text = "".join(letter for letter in error_body.error if letter.isprintable())
    return (error_body.code if _CODE.fullmatch(error_body.code) else ""), text[:MAX_ERROR_CHARS]

"""Signatures of peer requests and responses: recipient, content, time and a nonce."""

import re
from hashlib import sha256
from typing import NamedTuple

import msgspec

FORMAT = "holdfast request 1"
"""Prefix of the signed text; separates it from other texts signed with the same key."""
WINDOW_SECONDS = 300
"""Maximum clock difference of two peers; nonces are remembered twice as long."""

SIGNATURE = "Holdfast-Signature"
HEADERS = ("Holdfast-Peer", "Holdfast-To", "Holdfast-Time", "Holdfast-Nonce", "Holdfast-Body", SIGNATURE)
_NONCE = re.compile(r"[A-Za-z0-9_-]{16,64}")


class RequestSignature(NamedTuple):
    """The headers of a signed request."""

    peer: str
    """The node that sends it."""
    to: str
    """The node it is meant for; only a hello may leave it empty, while the node is unknown."""
    at: int
    """When it was signed, in microseconds."""
    nonce: str
    body: str
    """The SHA-256 of the body, so the signature can be verified before the body is read."""
    signature: bytes


def body_digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def request_message(method: str, path: str, body: bytes, at: int, nonce: str, *, to: str = "") -> bytes:
    """Return the bytes to sign. The path includes its query, as sent."""
    return _encode_message(method, path, body_digest(body), at, nonce, to)


def message_of_headers(method: str, path: str, signed: RequestSignature) -> bytes:
    """Return the bytes that the signature in the headers must cover."""
    return _encode_message(method, path, signed.body, signed.at, signed.nonce, signed.to)


def _encode_message(method: str, path: str, body: str, at: int, nonce: str, to: str) -> bytes:
    return msgspec.json.encode([FORMAT, to, method.upper(), path, body, at, nonce])


def answer_message(path: str, body: bytes, request: RequestSignature) -> bytes:
    """Return the bytes that a server signs for its response to this request."""
    return request_message("ANSWER", path, body, request.at, request.nonce, to=request.peer)


def to_headers(signed: RequestSignature) -> dict[str, str]:
    """Return a signature as HTTP headers."""
    values = (signed.peer, signed.to, str(signed.at), signed.nonce, signed.body, signed.signature.hex())
    return dict(zip(HEADERS, values, strict=True))


def parse_headers(headers: dict[str, str]) -> RequestSignature | None:
    """Parse the signature headers; None if any is missing or malformed."""
    try:
        peer, to, at, nonce, body, signature = (headers[name] for name in HEADERS)
        read = RequestSignature(peer, to, int(at), nonce, body, bytes.fromhex(signature))
    except (KeyError, ValueError):
        return None
    return read if _NONCE.fullmatch(nonce) and at.isascii() and at.isdecimal() and len(at) < 20 else None


def is_in_time(at: int, now: int) -> bool:
    """Whether a request was signed within the window around now, both in microseconds."""
    return abs(now - at) <= WINDOW_SECONDS * 1_000_000

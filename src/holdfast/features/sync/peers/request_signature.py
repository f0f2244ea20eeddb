"""Signatures of peer requests and responses: recipient, content, time and a nonce."""

import re
from hashlib import sha256
from typing import NamedTuple

import msgspec

FORM = "holdfast request 1"
"""Prefix of the signed text; separates it from other texts signed with the same key."""
WINDOW_SECONDS = 300
"""Maximum clock difference of two peers; nonces are remembered twice as long."""

SIGNATURE = "Holdfast-Signature"
HEADERS = ("Holdfast-Peer", "Holdfast-To", "Holdfast-Time", "Holdfast-Nonce", "Holdfast-Body", SIGNATURE)
_NONCE = re.compile(r"[A-Za-z0-9_-]{16,64}")


class Signed(NamedTuple):
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


def digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def message(method: str, path: str, body: bytes, at: int, nonce: str, *, to: str = "") -> bytes:
    """Return the bytes to sign. The path includes its query, as sent."""
    return _said(method, path, digest(body), at, nonce, to)


def covered(method: str, path: str, signed: Signed) -> bytes:
    """Return the bytes that the signature in the headers must cover."""
    return _said(method, path, signed.body, signed.at, signed.nonce, signed.to)


def _said(method: str, path: str, body: str, at: int, nonce: str, to: str) -> bytes:
    return msgspec.json.encode([FORM, to, method.upper(), path, body, at, nonce])


def answer(path: str, body: bytes, asked: Signed) -> bytes:
    """Return the bytes that a server signs for its response to this request."""
    return message("ANSWER", path, body, asked.at, asked.nonce, to=asked.peer)


def headers(signed: Signed) -> dict[str, str]:
    """Return a signature as HTTP headers."""
    values = (signed.peer, signed.to, str(signed.at), signed.nonce, signed.body, signed.signature.hex())
    return dict(zip(HEADERS, values, strict=True))


def signed_by(given: dict[str, str]) -> Signed | None:
    """Parse the signature headers; None if any is missing or malformed."""
    try:
        peer, to, at, nonce, body, signature = (given[name] for name in HEADERS)
        read = Signed(peer, to, int(at), nonce, body, bytes.fromhex(signature))
    except (KeyError, ValueError):
        return None
    return read if _NONCE.fullmatch(nonce) and at.isascii() and at.isdecimal() and len(at) < 20 else None


def in_time(at: int, now: int) -> bool:
    """Whether a request was signed within the window around now, both in microseconds."""
    return abs(now - at) <= WINDOW_SECONDS * 1_000_000

"""What a peer signs of a request: to whom, what, when, and a number that it uses once; and of its answer."""

import re
from hashlib import sha256
from typing import NamedTuple

import msgspec

FORM = "holdfast request 1"
"""What stands before all else: the key signs other things too."""
WINDOW_SECONDS = 300
"""How far the clocks of two peers may be apart; for twice as long a nonce is remembered."""

SIGNATURE = "Holdfast-Signature"
HEADERS = ("Holdfast-Peer", "Holdfast-To", "Holdfast-Time", "Holdfast-Nonce", "Holdfast-Body", SIGNATURE)
_NONCE = re.compile(r"[A-Za-z0-9_-]{16,64}")


class Signed(NamedTuple):
    """What the headers of a signed request say."""

    peer: str
    """The node that sends it."""
    to: str
    """The node that it is meant for; empty while that is not known, which only a hello may be."""
    at: int
    """When it was signed, in microseconds."""
    nonce: str
    body: str
    """The SHA-256 of the body, so that a request is known to be a peer's before its body is read."""
    signature: bytes


def digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def message(method: str, path: str, body: bytes, at: int, nonce: str, *, to: str = "") -> bytes:
    """What is signed. The path comes with its query, as it is sent."""
    return _said(method, path, digest(body), at, nonce, to)


def covered(method: str, path: str, signed: Signed) -> bytes:
    """What a signature must be of, by what the headers say."""
    return _said(method, path, signed.body, signed.at, signed.nonce, signed.to)


def _said(method: str, path: str, body: str, at: int, nonce: str, to: str) -> bytes:
    return msgspec.json.encode([FORM, to, method.upper(), path, body, at, nonce])


def answer(path: str, body: bytes, asked: Signed) -> bytes:
    """What the one who answers signs: what it says to this very request, and to nobody else."""
    return message("ANSWER", path, body, asked.at, asked.nonce, to=asked.peer)


def headers(signed: Signed) -> dict[str, str]:
    """A signature as it travels."""
    values = (signed.peer, signed.to, str(signed.at), signed.nonce, signed.body, signed.signature.hex())
    return dict(zip(HEADERS, values, strict=True))


def signed_by(given: dict[str, str]) -> Signed | None:
    """What the headers say, by their names; None if they are not all there, or not well formed."""
    try:
        peer, to, at, nonce, body, signature = (given[name] for name in HEADERS)
        read = Signed(peer, to, int(at), nonce, body, bytes.fromhex(signature))
    except (KeyError, ValueError):
        return None
    return read if _NONCE.fullmatch(nonce) and at.isascii() and at.isdecimal() and len(at) < 20 else None


def in_time(at: int, now: int) -> bool:
    """Whether a request was signed within the window around now, both in microseconds."""
    return abs(now - at) <= WINDOW_SECONDS * 1_000_000

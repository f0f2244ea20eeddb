"""Peer tokens: the node and public key of a store as one line of text. Not secret."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import NamedTuple

from holdfast.kernel.errors import Invalid

BEGINS = "hfpeer1_"
KEY_BYTES = 32
SUM_BYTES = 6


class Token(NamedTuple):
    node: str
    public_key: bytes


def written(token: Token) -> str:
    said = token.public_key + token.node.encode()
    return BEGINS + urlsafe_b64encode(said + _sum(said)).decode().rstrip("=")


def read(text: str) -> Token:
    """Parse a token; raises Invalid if it was not copied completely."""
    text = "".join(text.split())
    try:
        raw = urlsafe_b64decode(text.removeprefix(BEGINS) + "=" * (-len(text.removeprefix(BEGINS)) % 4))
        said, check = raw[:-SUM_BYTES], raw[-SUM_BYTES:]
        token = Token(said[KEY_BYTES:].decode(), said[:KEY_BYTES])
    except ValueError:
        raise _unreadable() from None
    if not text.startswith(BEGINS) or _sum(said) != check or not token.node.isprintable() or not token.node:
        raise _unreadable()
    return token


def _sum(said: bytes) -> bytes:
    return sha256(b"holdfast peer" + said).digest()[:SUM_BYTES]


def _unreadable() -> Invalid:
    return Invalid(
        "token: incomplete or invalid. Copy the whole line that `holdfast peers token` prints on the other store.",
        fields=["token"],
    )

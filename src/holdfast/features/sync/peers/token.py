"""Peer tokens: the node and public key of a store as one line of text. Not secret."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Annotated

from msgspec import Struct

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.fields import PRIVATE, Named, computed

PREFIX = "hfpeer1_"
KEY_BYTES = 32
CHECKSUM_BYTES = 6


class PeerToken(Struct, frozen=True):
    node: str
    public_key: Annotated[bytes, PRIVATE]

    @computed
    def token(self) -> str:
        """One line of text; the other store enrols this one with it. Contains no secret."""
        payload = self.public_key + self.node.encode()
        return PREFIX + urlsafe_b64encode(payload + _checksum(payload)).decode().rstrip("=")

    @computed
    def public_key_text(self) -> Annotated[str, Named("public_key")]:
        return self.public_key.hex()


def parse_token(text: str) -> PeerToken:
    """Parse a token; raises Invalid if it was not copied completely."""
    text = "".join(text.split())
    try:
        raw = urlsafe_b64decode(text.removeprefix(PREFIX) + "=" * (-len(text.removeprefix(PREFIX)) % 4))
        payload, check = raw[:-CHECKSUM_BYTES], raw[-CHECKSUM_BYTES:]
        token = PeerToken(payload[KEY_BYTES:].decode(), payload[:KEY_BYTES])
    except ValueError:
        raise _token_error() from None
    if not text.startswith(PREFIX) or _checksum(payload) != check or not token.node.isprintable() or not token.node:
        raise _token_error()
    return token


def _checksum(payload: bytes) -> bytes:
    return sha256(b"holdfast peer" + payload).digest()[:CHECKSUM_BYTES]


def _token_error() -> Invalid:
    return Invalid(
        "token: incomplete or invalid. Copy the whole line that `holdfast sync peers token` prints on the other store.",
        fields=["token"],
    )

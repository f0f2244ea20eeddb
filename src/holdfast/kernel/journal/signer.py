"""The node's key: it signs the journal's head, so that a chain rebuilt without it is found."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


KEY_SIZE = 64


def new_key() -> bytes:
    """A private key with its public one behind it, so that reading the public one needs no cryptography."""
    private = os.urandom(32)
    return private + _private(private).public_key().public_bytes_raw()


@lru_cache(maxsize=8)
def _private(key: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(key[:32])


def is_pair(key: bytes) -> bool:
    """Whether the public key is that of the private one."""
    return _private(key).public_key().public_bytes_raw() == public_of(key)


def public_of(key: bytes) -> bytes:
    return key[32:]


@lru_cache(maxsize=8)
def sign(key: bytes, message: bytes) -> bytes:
    """The one signature of a message; the last ones are remembered, since the next writer asks for it again."""
    return _private(key).sign(message)


def verifies(public: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True

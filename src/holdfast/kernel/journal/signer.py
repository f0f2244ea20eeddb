"""The node's key. It signs the journal's head, so that a rebuilt chain is detected."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


KEY_SIZE = 64


def new_key() -> bytes:
    """Create a key: private followed by public, so that reading the public key needs no cryptography."""
    private = os.urandom(32)
    return private + _private(private).public_key().public_bytes_raw()


@lru_cache(maxsize=8)
def _private(key: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(key[:32])


def is_pair(key: bytes) -> bool:
    """Whether public and private key match."""
    return _private(key).public_key().public_bytes_raw() == public_key_of(key)


def public_key_of(key: bytes) -> bytes:
    return key[32:]


@lru_cache(maxsize=8)
def sign(key: bytes, message: bytes) -> bytes:
    """Sign a message. Recent signatures are cached, because the next writer needs the last one again."""
    return _private(key).sign(message)


def is_valid_signature(public: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True

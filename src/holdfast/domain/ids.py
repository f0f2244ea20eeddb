"""Ids: UUIDv7 text for what is made, a hash for what is determined by its parts."""

import os
from hashlib import sha256


def uuid7(moment_us: int, randomness: bytes | None = None) -> str:
    """A UUIDv7: sorts by the millisecond it was made in."""
    tail = bytearray(randomness or os.urandom(10))
    tail[0] = 0x70 | tail[0] & 0x0F
    tail[2] = 0x80 | tail[2] & 0x3F
    text = ((moment_us // 1000) & (1 << 48) - 1).to_bytes(6, "big").hex() + tail.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def derived(*parts: str) -> str:
    """The same id on every node for the same parts."""
    return sha256("\x00".join(parts).encode()).hexdigest()[:32]

"""Ids: UUIDv7 text for what is made, a hash for what is determined by its parts."""

import os
from hashlib import sha256


def uuid7(moment_us: int, randomness: bytes | None = None) -> str:
    """A UUIDv7: sorts by the microsecond it was made in; RFC 9562 has room for the part below a millisecond."""
    tail = bytearray(randomness or os.urandom(8))
    tail[0] = 0x80 | tail[0] & 0x3F
    milliseconds, rest = divmod(moment_us, 1000)
    text = f"{milliseconds & (1 << 48) - 1:012x}{0x7000 | rest * 4096 // 1000:04x}{tail.hex()}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def derived(*parts: str) -> str:
    """The same id on every node for the same parts."""
    return sha256("\x00".join(parts).encode()).hexdigest()[:32]

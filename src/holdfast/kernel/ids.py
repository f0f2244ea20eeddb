"""Ids: UUIDv7 for new records, a hash for records that are determined by their parts."""

import os
from hashlib import sha256


def uuid7(timestamp_us: int, randomness: bytes | None = None) -> str:
    """Create a UUIDv7 that sorts by microsecond: RFC 9562 has room for the sub-millisecond part."""
    tail = bytearray(randomness or os.urandom(8))
    tail[0] = 0x80 | tail[0] & 0x3F
    milliseconds, rest = divmod(timestamp_us, 1000)
    text = f"{milliseconds & (1 << 48) - 1:012x}{0x7000 | rest * 4096 // 1000:04x}{tail.hex()}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def derive_id(*parts: str) -> str:
    """Hash the parts to an id that is the same on every node."""
    return sha256("\x00".join(parts).encode()).hexdigest()[:32]

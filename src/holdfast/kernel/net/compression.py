"""Gzip compression of messages, with a size limit for decompression."""

import zlib

LEVEL = 6
_GZIP = 31


def pack(said: bytes) -> bytes:
    made = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    return made.compress(said) + made.flush()


def unpack(packed: bytes, most: int) -> bytes:
    """Decompress a message; ValueError if it is not one complete gzip stream or exceeds `most` bytes."""
    opened = zlib.decompressobj(_GZIP)
    try:
        said = opened.decompress(packed, most + 1)
    except zlib.error:
        raise ValueError("is not valid gzip") from None
    if len(said) > most:
        raise ValueError(f"exceeds {most:,} bytes when decompressed")
    if not opened.eof or opened.unused_data:
        raise ValueError("is truncated, or more than one gzip stream")
    return said

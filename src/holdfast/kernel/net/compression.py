"""Gzip compression of messages, with a size limit for decompression."""

import zlib

COMPRESSION_LEVEL = 6
_GZIP = 31


def compress(content: bytes) -> bytes:
    made = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, _GZIP)
    return made.compress(content) + made.flush()


def decompress(packed: bytes, max_bytes: int) -> bytes:
    """Decompress a message; ValueError if it is not one complete gzip stream or exceeds `max_bytes`."""
    opened = zlib.decompressobj(_GZIP)
    try:
        said = opened.decompress(packed, max_bytes + 1)
    except zlib.error:
        raise ValueError("is not valid gzip") from None
    if len(said) > max_bytes:
        raise ValueError(f"exceeds {max_bytes:,} bytes when decompressed")
    if not opened.eof or opened.unused_data:
        raise ValueError("is truncated, or more than one gzip stream")
    return said

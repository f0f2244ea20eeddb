"""Compressed messages: small on their way, and bounded where they are unpacked."""

import zlib

LEVEL = 6
_GZIP = 31


def pack(said: bytes) -> bytes:
    made = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    return made.compress(said) + made.flush()


def unpack(packed: bytes, most: int) -> bytes:
    """What was packed, whole; ValueError if it is not that, or if it would be more than so many bytes."""
    opened = zlib.decompressobj(_GZIP)
    try:
        said = opened.decompress(packed, most + 1)
    except zlib.error:
        raise ValueError("is not what gzip makes") from None
    if len(said) > most:
        raise ValueError(f"is more than {most:,} bytes when it is unpacked")
    if not opened.eof or opened.unused_data:
        raise ValueError("is cut off, or more than one")
    return said

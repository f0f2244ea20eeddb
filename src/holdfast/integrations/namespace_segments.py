"""Encode names of other programs as namespace segments, reversibly."""

import unicodedata
from hashlib import sha256
from urllib.parse import quote_from_bytes, unquote_to_bytes

SAFE_CHARS = "-_~@+=$!(),;"
"""Characters kept unencoded, besides letters and digits; never a colon or a slash."""
MAX_SEGMENT_BYTES = 160
"""Longest segment in bytes; a longer one is cut."""


def to_segment(name: str, safe: str = SAFE_CHARS) -> str:
    """Encode a name as a namespace segment; invalid characters become %XX."""
    plain = unicodedata.is_normalized("NFC", name)
    kept = "".join(char if _is_kept(char, plain, safe) else _escape(char) for char in name)
    return f"%5F{kept[1:]}" if kept.startswith("_") else kept


def _is_kept(char: str, plain: bool, safe: str) -> bool:
    if char.isascii():
        return char.isalnum() or char in safe
    return plain and char.isalnum()


def _escape(char: str) -> str:
    return quote_from_bytes(char.encode(errors="surrogatepass"), safe="").replace(".", "%2E")


def from_segment(segment: str) -> str:
    """Decode the name of a segment."""
    return unquote_to_bytes(segment).decode(errors="surrogatepass")


def to_short_segment(name: str, safe: str = SAFE_CHARS, max_bytes: int = MAX_SEGMENT_BYTES) -> str:
    """Encode a name of any length; a long one is cut and gets a digest suffix that no encoded name can have."""
    whole = to_segment(name, safe) or "%"
    if len(whole.encode()) <= max_bytes:
        return whole
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{whole[: max_bytes // 4].rpartition('%')[0] or whole[: max_bytes // 4]}%~{digest}"

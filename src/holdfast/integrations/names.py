"""Encode names of other programs as namespace segments, reversibly."""

import unicodedata
from hashlib import sha256
from urllib.parse import quote_from_bytes, unquote_to_bytes

SAFE = "-_~@+=$!(),;"
"""Characters kept unencoded, besides letters and digits; never a colon or a slash."""
LONGEST = 160
"""Longest segment in bytes; a longer one is cut."""


def segment(name: str, safe: str = SAFE) -> str:
    """Encode a name as a namespace segment; invalid characters become %XX."""
    plain = unicodedata.is_normalized("NFC", name)
    kept = "".join(char if _stays(char, plain, safe) else _escaped(char) for char in name)
    return f"%5F{kept[1:]}" if kept.startswith("_") else kept


def _stays(char: str, plain: bool, safe: str) -> bool:
    if char.isascii():
        return char.isalnum() or char in safe
    return plain and char.isalnum()


def _escaped(char: str) -> str:
    return quote_from_bytes(char.encode(errors="surrogatepass"), safe="").replace(".", "%2E")


def name_of(segment: str) -> str:
    """Decode the name of a segment."""
    return unquote_to_bytes(segment).decode(errors="surrogatepass")


def short(name: str, safe: str = SAFE, most: int = LONGEST) -> str:
    """Encode a name of any length; a long one is cut and gets a digest suffix that no encoded name can have."""
    whole = segment(name, safe) or "%"
    if len(whole.encode()) <= most:
        return whole
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{whole[: most // 4].rpartition('%')[0] or whole[: most // 4]}%~{digest}"

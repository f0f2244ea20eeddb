"""Names of other programs as segments of a namespace: any text, told apart and read back exactly."""

import unicodedata
from hashlib import sha256
from urllib.parse import quote_from_bytes, unquote_to_bytes

SAFE = "-_~@+=$!(),;"
"""Signs that stay as they are, beside letters and digits; a colon and a slash never do."""
LONGEST = 160
"""Bytes of a segment that is not cut."""


def segment(name: str, safe: str = SAFE) -> str:
    """A name in signs that a namespace may have; what it may not have is written as %XX."""
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
    """The name that a segment was made of."""
    return unquote_to_bytes(segment).decode(errors="surrogatepass")


def short(name: str, safe: str = SAFE, most: int = LONGEST) -> str:
    """A segment of a name of any length; a long one is cut, and told from others by a digest that no name has."""
    whole = segment(name, safe) or "%"
    if len(whole.encode()) <= most:
        return whole
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{whole[: most // 4].rpartition('%')[0] or whole[: most // 4]}%~{digest}"

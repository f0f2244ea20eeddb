"""SHA-256 fingerprints of certificates, as people write them, and lists of them."""

import re

from holdfast.kernel.errors import Invalid

_HEX = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"sha-?256(?: fingerprint)?[:=]", re.IGNORECASE)


def parse_fingerprint(text: str, field: str = "fingerprint") -> str:
    """Parse to 64 lower-case hex digits; accepts `sha256:` and openssl's format with colons."""
    found = _PREFIX.sub("", text.strip(), count=1).replace(":", "").replace(" ", "").lower()
    if not _HEX.fullmatch(found):
        raise Invalid(f"{field}: a SHA-256 fingerprint has 64 hexadecimal digits", fields=[field])
    return found


def parse_fingerprint_list(text: str) -> frozenset[str]:
    """Parse a file with one fingerprint per line and # comments; an empty list is an error."""
    found = set()
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        said = line.partition("#")[0].strip()
        if said:
            found.add(parse_fingerprint(said, f"line {number}"))
    if not found:
        raise Invalid("contains no fingerprint, so that no client could connect")
    return frozenset(found)

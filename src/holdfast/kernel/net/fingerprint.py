"""The SHA-256 of a certificate, as people write it, and lists of them."""

import re

from holdfast.kernel.errors import Invalid

_HEX = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"sha-?256(?: fingerprint)?[:=]", re.IGNORECASE)


def admit(text: str, field: str = "fingerprint") -> str:
    """64 digits in lower case; read as `sha256:` and hex, with or without colons, as openssl prints it, too."""
    found = _PREFIX.sub("", text.strip(), count=1).replace(":", "").replace(" ", "").lower()
    if not _HEX.fullmatch(found):
        raise Invalid(f"{field}: a SHA-256 fingerprint has 64 hexadecimal digits", fields=[field])
    return found


def listed(text: str) -> frozenset[str]:
    """The fingerprints of a file, one a line; what follows a # is a comment. None, or anything else, is an error."""
    found = set()
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        said = line.partition("#")[0].strip()
        if said:
            found.add(admit(said, f"line {number}"))
    if not found:
        raise Invalid("there is no fingerprint in it, so that nobody could be let in")
    return frozenset(found)


def shown(fingerprint: str) -> str:
    return f"sha256:{fingerprint}"

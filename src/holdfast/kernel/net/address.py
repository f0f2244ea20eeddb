"""Validate the settings of a provider: URL, key and model."""

from urllib.parse import SplitResult, urlsplit

from holdfast.kernel.errors import Invalid, Misconfigured
from holdfast.kernel.records.validate import label


def address(setting: str, url: str) -> SplitResult:
    """Parse a provider's URL. Errors never repeat it: it may contain a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Misconfigured(f"{setting}_url is not a URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not (url.isascii() and url.isprintable()):
        raise Misconfigured(f"{setting}_url must start with http:// or https:// and a host name.")
    if parts.username or parts.password or parts.query or parts.fragment or " " in url:
        raise Misconfigured(f"{setting}_url must contain only a host and a path: put a key into {setting}_key.")
    return parts


def key(setting: str, key: str | None) -> str | None:
    """Validate a provider's key. Errors never repeat it."""
    if key is not None and not (key.isascii() and key.isprintable()):
        raise Misconfigured(
            f"{setting}_key contains an invalid character: copy it completely and without a line break."
        )
    return key


def bearer(key: str | None) -> dict[str, str]:
    """Build the Authorization header of most providers."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def model(setting: str, name: str, longest: int) -> str:
    """Validate a provider's model name."""
    try:
        return label(f"{setting}_model", name, longest)
    except Invalid as error:
        raise Misconfigured(f"A setting is not valid: {error.message}") from None

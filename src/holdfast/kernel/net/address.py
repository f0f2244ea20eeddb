"""Where a provider is and what it is asked with, as the settings say it."""

from urllib.parse import SplitResult, urlsplit

from holdfast.kernel.errors import Invalid, Misconfigured
from holdfast.kernel.records.validate import label


def address(setting: str, url: str) -> SplitResult:
    """A provider's URL. What is wrong with one is not repeated: it may hold a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Misconfigured(f"{setting}_url is not a URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not (url.isascii() and url.isprintable()):
        raise Misconfigured(f"{setting}_url must begin with http:// or https:// and the name of a host.")
    if parts.username or parts.password or parts.query or parts.fragment or " " in url:
        raise Misconfigured(f"{setting}_url holds more than a host and a path: a key belongs into {setting}_key.")
    return parts


def key(setting: str, key: str | None) -> str | None:
    """A provider's key. One that cannot be sent is not repeated."""
    if key is not None and not (key.isascii() and key.isprintable()):
        raise Misconfigured(
            f"{setting}_key holds a character that no key has: was it copied whole, and without a line end?"
        )
    return key


def bearer(key: str | None) -> dict[str, str]:
    """The header that most providers want a key in."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def model(setting: str, name: str, longest: int) -> str:
    """The name of a provider's model."""
    try:
        return label(f"{setting}_model", name, longest)
    except Invalid as error:
        raise Misconfigured(f"A setting cannot be used: {error.message}") from None

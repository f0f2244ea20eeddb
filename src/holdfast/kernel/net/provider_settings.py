"""Validate the settings of a provider: URL, key and model."""

from urllib.parse import SplitResult, urlsplit

from holdfast.kernel.errors import Invalid, InvalidSetting
from holdfast.kernel.records.validate import label


def parse_provider_url(setting: str, url: str) -> SplitResult:
    """Parse a provider's URL. Errors never repeat it: it may contain a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidSetting(f"{setting}_url is not a URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not (url.isascii() and url.isprintable()):
        raise InvalidSetting(f"{setting}_url must start with http:// or https:// and a host name.")
    if parts.username or parts.password or parts.query or parts.fragment or " " in url:
        raise InvalidSetting(f"{setting}_url must contain only a host and a path: put a key into {setting}_key.")
    return parts


def check_key(setting: str, key: str | None) -> str | None:
    """Validate a provider's key. Errors never repeat it."""
    if key is not None and not (key.isascii() and key.isprintable()):
        raise InvalidSetting(
            f"{setting}_key contains an invalid character: copy it completely and without a line break."
        )
    return key


def bearer_header(key: str | None) -> dict[str, str]:
    """Build the Authorization header of most providers."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def check_model_name(setting: str, name: str, max_length: int) -> str:
    """Validate a provider's model name."""
    try:
        return label(f"{setting}_model", name, max_length)
    except Invalid as error:
        raise InvalidSetting(f"A setting is not valid: {error.message}") from None

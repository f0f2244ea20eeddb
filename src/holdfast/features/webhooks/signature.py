"""Sign deliveries in the formats of the ai-memory clients and of Standard Webhooks."""

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error
from hashlib import sha256

from holdfast.kernel.errors import Invalid

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of every secret, not a secret
MIN_SECRET, MAX_SECRET = 16, 256


def validate_secret(secret: str) -> str:
    """Validate a signing secret; errors never contain it."""
    if not MIN_SECRET <= len(secret) <= MAX_SECRET or not (secret.isascii() and secret.isprintable()):
        raise Invalid(
            f"secret: {MIN_SECRET} to {MAX_SECRET} printable ASCII characters. Omit it to generate one.",
            fields=["secret"],
        )
    if secret.startswith(SECRET_PREFIX):
        try:
            b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except Error:
            raise Invalid("secret: must be base64 after whsec_", fields=["secret"]) from None
    return secret


def new_secret() -> str:
    return SECRET_PREFIX + b64encode(secrets.token_bytes(32)).decode()


def sign_headers(secret: str, id: str, at: int, body: bytes) -> dict[str, str]:
    """Return both signatures of one attempt: over the body alone, and over id, time and body."""
    words = f"{id}.{at}.".encode() + body
    return {
        "X-AI-Memory-Signature": "sha256=" + hmac.new(secret.encode(), body, sha256).hexdigest(),
        "X-AI-Memory-Timestamp": str(at),
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": "v1," + b64encode(hmac.new(_signing_key(secret), words, sha256).digest()).decode(),
    }


def _signing_key(secret: str) -> bytes:
    """Return the key bytes: a `whsec_` secret is base64, any other is used unchanged."""
    return b64decode(secret.removeprefix(SECRET_PREFIX)) if secret.startswith(SECRET_PREFIX) else secret.encode()

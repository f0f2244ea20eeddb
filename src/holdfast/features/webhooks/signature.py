"""How a delivery proves who sent it: in the form of the ai-memory clients, and in that of Standard Webhooks."""

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from hashlib import sha256

from holdfast.kernel.errors import Invalid

PREFIX = "whsec_"
SHORTEST, LONGEST = 16, 256


def admit_secret(secret: str) -> str:
    """A secret to sign with. What is wrong with one is not repeated."""
    if not SHORTEST <= len(secret) <= LONGEST or not (secret.isascii() and secret.isprintable()):
        raise Invalid(
            f"secret: {SHORTEST} to {LONGEST} printable ASCII characters; leave it out to be given one",
            fields=["secret"],
        )
    if secret.startswith(PREFIX):
        try:
            b64decode(secret.removeprefix(PREFIX), validate=True)
        except Error:
            raise Invalid("secret: behind whsec_ stands base64", fields=["secret"]) from None
    return secret


def new_secret() -> str:
    import secrets

    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def headers(secret: str, id: str, at: int, body: bytes) -> dict[str, str]:
    """Both signatures of one try: the first over the body alone, the second over id, time and body."""
    words = f"{id}.{at}.".encode() + body
    return {
        "X-AI-Memory-Signature": "sha256=" + hmac.new(secret.encode(), body, sha256).hexdigest(),
        "X-AI-Memory-Timestamp": str(at),
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": "v1," + b64encode(hmac.new(_key(secret), words, sha256).digest()).decode(),
    }


def _key(secret: str) -> bytes:
    """What `whsec_` goes before is base64 of the key; another secret is the key itself."""
    return b64decode(secret.removeprefix(PREFIX)) if secret.startswith(PREFIX) else secret.encode()

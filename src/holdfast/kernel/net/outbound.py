"""Credentials and limits of outgoing requests."""

from msgspec import Struct


class PeerCredentials(Struct, frozen=True, kw_only=True):
    """Credentials for requests to peers."""

    api_key: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    ca: str | None = None
    fingerprint: str | None = None
    """SHA-256 fingerprint of the peer's only accepted certificate."""
    insecure: bool = False
    """Whether any certificate of the peer is accepted."""

    def __repr__(self) -> str:
        return "Access(...)"


class WebhookLimits(Struct, frozen=True):
    """Limits of requests to addresses given by users, such as webhooks."""

    networks: tuple[str, ...] = ()
    """Allowed networks in addition to public addresses."""
    timeout: float = 10.0
    attempts: int = 10

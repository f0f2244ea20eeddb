"""With what another store is asked over a network."""

from msgspec import Struct


class Access(Struct, frozen=True, kw_only=True):
    """With what a peer is asked."""

    api_key: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    ca: str | None = None
    fingerprint: str | None = None
    """The SHA-256 of the certificate that the peer must have."""
    insecure: bool = False
    """Whether the peer's certificate is believed as it is."""

    def __repr__(self) -> str:
        return "Access(...)"

"""With what others are asked over a network."""

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


class Outbound(Struct, frozen=True):
    """How requests go out whose address somebody else named."""

    networks: tuple[str, ...] = ()
    """Besides public addresses."""
    timeout: float = 10.0
    attempts: int = 10

"""TLS contexts: own certificates, trusted signers, pinned and allow-listed certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from holdfast.kernel.errors import InvalidSetting

IsAccepted = Callable[[str], bool]
"""Whether a client with this certificate fingerprint is accepted."""


def fingerprint_of(certificate: bytes | None) -> str:
    """Return the SHA-256 of a certificate as 64 hex digits; empty without one."""
    return sha256(certificate).hexdigest() if certificate else ""


def client_context(
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    *,
    fingerprint: str | None = None,
    insecure: bool = False,
) -> ssl.SSLContext:
    """Build the client's TLS context: the peer needs a certificate of a trusted signer for its host name, or the pinned
    one; with signer and pin, both. `insecure` requires a client certificate."""
    if insecure and not (cert and key):
        raise InvalidSetting(
            "Accepting any certificate of a peer requires a client certificate and its key: give both, or leave it out."
        )
    context = ssl.create_default_context(cafile=_readable(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure or (fingerprint and not ca):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if fingerprint:
        context.sslsocket_class = _pinned_socket_class(fingerprint)
    _load_certificate(context, cert, key)
    return context


def server_context(cert: str, key: str, ca: str | None = None, accepts: IsAccepted | None = None) -> ssl.SSLContext:
    """Build the server's TLS context; with `ca`, clients need a certificate signed by it that `accepts` allows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, cert, key)
    if ca is not None:
        try:
            context.load_verify_locations(_readable(ca))
        except ssl.SSLError:
            raise InvalidSetting(f"{ca} contains no certificates: a PEM file is required.") from None
        context.verify_mode = ssl.CERT_REQUIRED
    if accepts is not None:
        context.sslobject_class = _allowlist_class(accepts)
    return context


def _load_certificate(context: ssl.SSLContext, cert: str | None, key: str | None) -> None:
    if (cert is None) != (key is None):
        raise InvalidSetting("A certificate needs its key and vice versa: give both.")
    if cert is None:
        return
    try:
        context.load_cert_chain(_readable(cert) or "", _readable(key), password=_no_password)
    except (ssl.SSLError, ValueError):
        raise InvalidSetting(
            f"{cert} and its key cannot be used: both must be PEM files and match, and the key must have no password."
        ) from None


def _no_password() -> str:
    raise ValueError


def _readable(path: str | None) -> str | None:
    """Return the path if the file is readable, else raise with its name."""
    if path is None:
        return None
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}.") from None


def _pinned_socket_class(fingerprint: str) -> type[ssl.SSLSocket]:
    class PinnedSocket(ssl.SSLSocket):
        """A connection that fails the handshake unless the peer has the pinned certificate."""

        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            if fingerprint_of(self.getpeercert(binary_form=True)) != fingerprint:
                raise ssl.SSLCertVerificationError("its certificate is not the pinned one")

    return PinnedSocket


def _allowlist_class(accepts: IsAccepted) -> type[ssl.SSLObject]:
    class AllowlistSslObject(ssl.SSLObject):
        """A connection that reads nothing from a client that is not, or no longer, accepted."""

        def do_handshake(self) -> None:
            super().do_handshake()
            self._look()

        def read(self, *given: Any) -> Any:
            self._look()
            return super().read(*given)

        def _look(self) -> None:
            if not accepts(fingerprint_of(self.getpeercert(binary_form=True))):
                raise ssl.SSLCertVerificationError("its certificate is not on the list")

    return AllowlistSslObject

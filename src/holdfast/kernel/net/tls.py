"""Certificates: which are shown, which are believed, and which alone are let in."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from holdfast.kernel.errors import Misconfigured

Accepts = Callable[[str], bool]
"""Whether the one who has a certificate of this fingerprint may speak."""


def fingerprint_of(certificate: bytes | None) -> str:
    """The SHA-256 of a certificate, as 64 digits; of none, an empty text."""
    return sha256(certificate).hexdigest() if certificate else ""


def client_context(
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    *,
    fingerprint: str | None = None,
    insecure: bool = False,
) -> ssl.SSLContext:
    """How a peer is asked: it must have a certificate of a known signer and of its name, or the very one that is
    pinned; with a signer and a pin, both. To believe any needs a certificate of one's own."""
    if insecure and not (cert and key):
        raise Misconfigured(
            "To believe any certificate of a peer takes a client certificate and its key: give both, or leave it out."
        )
    context = ssl.create_default_context(cafile=_readable(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure or (fingerprint and not ca):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if fingerprint:
        context.sslsocket_class = _pinning(fingerprint)
    _show(context, cert, key)
    return context


def server_context(cert: str, key: str, ca: str | None = None, accepts: Accepts | None = None) -> ssl.SSLContext:
    """How a store is served: with a signer of clients, only to who has a certificate of it, and whom one accepts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show(context, cert, key)
    if ca is not None:
        try:
            context.load_verify_locations(_readable(ca))
        except ssl.SSLError:
            raise Misconfigured(f"{ca} holds no certificates: a PEM file is needed.") from None
        context.verify_mode = ssl.CERT_REQUIRED
    if accepts is not None:
        context.sslobject_class = _accepting(accepts)
    return context


def _show(context: ssl.SSLContext, cert: str | None, key: str | None) -> None:
    if (cert is None) != (key is None):
        raise Misconfigured("A certificate and its key belong together: give both.")
    if cert is None:
        return
    try:
        context.load_cert_chain(_readable(cert) or "", _readable(key), password=_no_password)
    except (ssl.SSLError, ValueError):
        raise Misconfigured(
            f"{cert} and its key cannot be used: both are PEM files, of one pair, and the key has no password."
        ) from None


def _no_password() -> str:
    raise ValueError


def _readable(path: str | None) -> str | None:
    """A file that is there and may be read; what is wrong with one is said by its name."""
    if path is None:
        return None
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}.") from None


def _pinning(fingerprint: str) -> type[ssl.SSLSocket]:
    class Pinned(ssl.SSLSocket):
        """A connection that ends before the first word if the other side has another certificate."""

        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            if fingerprint_of(self.getpeercert(binary_form=True)) != fingerprint:
                raise ssl.SSLCertVerificationError("its certificate is not the one that is pinned")

    return Pinned


def _accepting(accepts: Accepts) -> type[ssl.SSLObject]:
    class Accepted(ssl.SSLObject):
        """A connection on which nothing is heard from who is not accepted, or is not any more."""

        def do_handshake(self) -> None:
            super().do_handshake()
            self._look()

        def read(self, *given: Any) -> Any:
            self._look()
            return super().read(*given)

        def _look(self) -> None:
            if not accepts(fingerprint_of(self.getpeercert(binary_form=True))):
                raise ssl.SSLCertVerificationError("its certificate is not on the list")

    return Accepted

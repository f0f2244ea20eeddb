"""Create TLS certificates for stores, signed by a local CA."""

import os
import re
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from ssl import PEM_cert_to_DER_cert
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Invalid
from holdfast.kernel.local_files import translate_os_errors
from holdfast.kernel.net.tls import fingerprint_of

SIGNER = "ca"
SIGNER_VALID_DAYS = 3650
VALID_DAYS = 825
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_USAGES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


class CertificateResult(Struct, frozen=True):
    """Paths of a certificate and its key."""

    certificate: str
    key: str
    ca: str
    """The CA certificate that signed it; peers verify with it."""
    fingerprint: str


class _Signer(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_certificate(ctx: Context, folder: Path, name: str, hosts: list[str]) -> CertificateResult:
    """Create a server and client certificate for a store, and on first use the CA of the folder."""
    ctx.caller.require_local("folder")
    if not _NAME.fullmatch(name) or name == SIGNER:
        raise Invalid(f"name: 1 to 64 letters, digits or _ . -, and not {SIGNER}", fields=["name"])
    names = [_general_name(host) for host in hosts or [name]]
    certificate, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    with translate_os_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if certificate.exists() or key_file.exists():
            raise Conflict(f"{certificate} exists already. Use another name, or move the file and its key away.")
        now = datetime.now(UTC)
        signer, key = _load_or_make_signer(folder, now), ec.generate_private_key(ec.SECP256R1())
        _write_files(
            folder, name, _build_certificate(name, names, key, signer.certificate, now).sign(signer.key, SHA256()), key
        )
        fingerprint = fingerprint_of(PEM_cert_to_DER_cert(certificate.read_text()))
    return CertificateResult(str(certificate), str(key_file), str(folder / f"{SIGNER}.pem"), fingerprint)


def _load_or_make_signer(folder: Path, now: datetime) -> _Signer:
    """Load the CA of a folder, creating it if missing."""
    if not (folder / f"{SIGNER}.key").exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write_files(folder, SIGNER, _build_signer_certificate(key, now).sign(key, SHA256()), key)
    try:
        certificate = x509.load_pem_x509_certificate((folder / f"{SIGNER}.pem").read_bytes())
        signing = load_pem_private_key((folder / f"{SIGNER}.key").read_bytes(), None)
    except (ValueError, TypeError):
        signing = None
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise Conflict(f"{folder / SIGNER}.pem and its key cannot sign certificates. Use another folder.")
    return _Signer(certificate, signing)


def _build_signer_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    name = _common_name("Holdfast peers")
    builder = _certificate_builder(name, name, key, now, SIGNER_VALID_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(_key_usage(signs=True), critical=True)


def _build_certificate(
    name: str, names: list[x509.GeneralName], key: ec.EllipticCurvePrivateKey, signer: x509.Certificate, now: datetime
) -> x509.CertificateBuilder:
    public = signer.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    builder = _certificate_builder(_common_name(name), signer.subject, key, now, VALID_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(_USAGES), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)


def _certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    """Return the key usage: a CA signs certificates only, others sign data only."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host.encode("idna").decode())
    except ValueError:
        raise Invalid(f"host: {host!r} is neither a host name nor an IP address", fields=["host"]) from None


def _write_files(folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """Create both files; the key file is readable by its owner only from the start."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for file, content, mode in (
        (folder / f"{name}.key", private, 0o600),
        (folder / f"{name}.pem", certificate.public_bytes(Encoding.PEM), 0o644),
    ):
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            opened.write(content)

"""Serving over TLS: invalid settings, the allowlist, and the certificates a client trusts."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from serving import serve_app, with_settings

import holdfast
from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.net.tls import client_context, fingerprint_of
from holdfast.settings import Settings
from holdfast.surfaces.http.app import build_app
from holdfast.surfaces.http.tls import Allowlist, make_tls_context
from timeouts import TIMEOUT

ONE, OTHER = "a1" * 32, "b2" * 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signer, a server with two clients, and an unrelated server."""
    found = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(found / "ca.pem"))
    for name, signer in (("server", ca), ("laptop", ca), ("phone", ca), ("stranger", trustme.CA())):
        made = signer.issue_cert("127.0.0.1")
        made.private_key_pem.write_to_path(str(found / f"{name}.key"))
        made.cert_chain_pems[0].write_to_path(str(found / f"{name}.pem"))
    return found


def print_of(folder: Path, name: str) -> str:
    return fingerprint_of(ssl.PEM_cert_to_DER_cert((folder / f"{name}.pem").read_text()))


def settings_of(folder: Path, **more: Any) -> dict[str, Any]:
    return {"tls_cert": str(folder / "server.pem"), "tls_key": str(folder / "server.key"), **more}


def health_status(url: str, tls: ssl.SSLContext) -> int | None:
    """Return the status of a health check, or None without an answer."""
    try:
        return httpx.get(url + "/health", verify=tls, timeout=TIMEOUT).status_code
    except httpx.TransportError:
        return None


def client(folder: Path, name: str | None, **more: Any) -> ssl.SSLContext:
    shown = (str(folder / f"{name}.pem"), str(folder / f"{name}.key")) if name else (None, None)
    return client_context(more.pop("ca", str(folder / "ca.pem")), *shown, **more)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "contains no fingerprint"),
        ("# nobody yet\n\n", "contains no fingerprint"),
        (f"{ONE}\nnot a fingerprint\n", "line 2"),
        (f"{ONE[:-1]}\n", "line 1"),
        (f"md5:{ONE}\n", "line 1"),
    ],
)
def test_an_empty_or_malformed_allowlist_refuses_to_start(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "list"
    file.write_text(text)
    with pytest.raises(InvalidSetting, match=says):
        Allowlist(str(file))


def test_a_missing_allowlist_refuses_to_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="No such file"):
        Allowlist(str(tmp_path / "none"))


@pytest.mark.parametrize(
    "line", [ONE, ONE.upper(), f"sha256:{ONE}", f"SHA256 Fingerprint={':'.join(['A1'] * 32)}", f"  {ONE}  # the laptop"]
)
def test_a_fingerprint_is_parsed_as_people_and_openssl_write_it(tmp_path: Path, line: str) -> None:
    file = tmp_path / "list"
    file.write_bytes(b"\xef\xbb\xbf# who may come\r\n\r\n" + line.encode() + b"\r\n")
    allowed = Allowlist(str(file))
    assert (allowed.allows(ONE), allowed.allows(OTHER), allowed.allows("")) == (True, False, False)


def test_a_changed_allowlist_applies_at_once_and_an_invalid_one_admits_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "list"
    file.write_text(ONE)
    allowed = Allowlist(str(file))
    file.write_text(f"{OTHER}\n")
    assert (allowed.allows(ONE), allowed.allows(OTHER)) == (False, True)
    for bad in ("", "nonsense"):
        file.write_text(bad)
        assert (allowed.allows(ONE), allowed.allows(OTHER), allowed.allows("")) == (False, True, False)
    file.unlink()
    assert (allowed.allows(ONE), allowed.allows(OTHER)) == (False, True)
    assert capsys.readouterr().err.count("the previous list stays in force") == 3
    new = tmp_path / "new"
    new.write_text(ONE)
    os.replace(new, file)
    assert (allowed.allows(ONE), allowed.allows(OTHER)) == (True, False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tls_cert": "server.pem"}, "go together"),
        ({"client_ca": "ca.pem"}, "require TLS"),
        ({"tls_cert": "server.pem", "tls_key": "server.key", "client_fingerprints": "ca.pem"}, "requires client_ca"),
        ({"tls_cert": "server.pem", "tls_key": "laptop.key"}, "must be PEM files and match"),
        ({"tls_cert": "server.pem", "tls_key": "none.key"}, "cannot be read"),
        ({"tls_cert": "server.pem", "tls_key": "server.key", "client_ca": "server.key"}, "contains no certificates"),
    ],
)
def test_contradictory_tls_settings_are_refused(folder: Path, given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        make_tls_context(Settings(**{name: str(folder / file) for name, file in given.items()}))


@pytest.fixture
def allowlist_file(tmp_path: Path, folder: Path) -> Path:
    file = tmp_path / "listed"
    file.write_text(print_of(folder, "laptop"))
    return file


@pytest.fixture
def url(hold: holdfast.Holdfast, folder: Path, allowlist_file: Path) -> Iterator[str]:
    """Yield the address of a store that is served to one client."""
    wanted = settings_of(folder, client_ca=str(folder / "ca.pem"), client_fingerprints=str(allowlist_file))
    seen = with_settings(hold, **wanted)
    with serve_app(build_app(seen), tls=make_tls_context(seen.settings)) as found:
        yield found


def test_only_listed_clients_get_answers_even_about_health(folder: Path, url: str) -> None:
    names = ("laptop", "phone", "stranger", None)
    assert [health_status(url, client(folder, name)) for name in names] == [200, None, None, None]


def test_a_client_removed_from_the_allowlist_is_refused_on_an_open_connection_too(
    folder: Path, url: str, allowlist_file: Path
) -> None:
    with httpx.Client(verify=client(folder, "laptop"), timeout=TIMEOUT) as open_one:
        assert open_one.get(url + "/health").status_code == 200
        allowlist_file.write_text(print_of(folder, "phone"))
        with pytest.raises(httpx.TransportError):
            open_one.get(url + "/health")
    assert health_status(url, client(folder, "phone")) == 200


def test_only_a_pinned_certificate_is_trusted(folder: Path, url: str) -> None:
    pinned, other = print_of(folder, "server"), print_of(folder, "phone")
    assert health_status(url, client(folder, "laptop", fingerprint=pinned)) == 200
    assert health_status(url, client(folder, "laptop", fingerprint=pinned, ca=None)) == 200
    assert health_status(url, client(folder, "laptop", fingerprint=other)) is None
    assert health_status(url, client(folder, "laptop", fingerprint=other, ca=None)) is None
    assert health_status(url, client(folder, "laptop", ca=None)) is None


def test_trusting_any_certificate_requires_a_client_certificate(folder: Path, url: str) -> None:
    assert health_status(url, client(folder, "laptop", ca=None, insecure=True)) == 200
    with pytest.raises(InvalidSetting, match="client certificate and its key"):
        client(folder, None, insecure=True)

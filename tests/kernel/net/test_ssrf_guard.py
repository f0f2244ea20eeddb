"""SSRF guard: webhooks reach only public addresses, however they are written."""

import socket
import ssl
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from holdfast.kernel.errors import Invalid, InvalidSetting
from holdfast.kernel.net import ssrf_guard
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.outbound import WebhookLimits
from holdfast.kernel.net.ssrf_guard import is_allowed, is_public, resolve, validate_url
from holdfast.kernel.net.webhook_client import WebhookClient
from provider_server import provider

NOT_PUBLIC = """
    127.0.0.1 127.255.0.9 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.8 192.0.0.9
    192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 192.88.99.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b::7f00:1 64:ff9b:1::808:808
    2002:a9fe:a9fe:: 2002:7f00:1::1 2001::1 2001:db8::1 2001:0:a9fe:a9fe::1 fec0::1 fe80::1 fc00::1 fd00::1 ff02::1
    100::1 3fff::1 5f00::1 fe80::1%1 2600::5efe:a9fe:a9fe 2600::200:5efe:7f00:1
""".split()


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_of_a_local_network_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", "8.8.8.8 1.1.1.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808".split())
def test_an_internet_address_is_public(address: str) -> None:
    assert is_public(ip_address(address))


WRITTEN = """
    https://127.0.0.1/ https://127.1/ https://2130706433/ https://0x7f000001/ https://017700000001/ https://0/
    https://0x7f.1/ https://localhost/ https://a.localhost/ https://LOCALHOST./ https://127.0.0.1./ https://[::1]/ https://[::ffff:127.0.0.1]/
    https://[64:ff9b::a9fe:a9fe]/ https://[fec0::1]/ https://169.254.169.254/latest/meta-data/ https://[fe80::1%25lo]/
    http://hooks.example.com/ file:///etc/passwd gopher://hooks.example.com/ ftp://hooks.example.com/
    //hooks.example.com/ https://ann:secret@hooks.example.com/ https://ann@hooks.example.com/ https://
    https://hooks.example.com/#part https://hooks.example.com:99999/ https://[::1/ javascript:alert(1) https://hooks.example.com/a\tb
""".split(" ")


@pytest.mark.parametrize("url", [url.strip("\n") for url in WRITTEN if url.strip()])
def test_a_forbidden_webhook_address_is_refused_before_any_lookup(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = socket.getaddrinfo

    def no_network(*asked: Any, flags: int = 0, **more: Any) -> Any:
        assert flags & socket.AI_NUMERICHOST
        return looked(*asked, flags=flags, **more)

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(Invalid) as refused:
        validate_url(url, WebhookLimits())
    assert "secret" not in refused.value.message


def test_a_network_is_allowed_only_by_the_settings() -> None:
    outbound = WebhookLimits(("127.0.0.0/8", "fd00::/8"))
    assert validate_url("http://127.1:8080/hook", outbound).port == 8080
    assert is_allowed(ip_address("::ffff:127.0.0.1"), outbound.networks)
    assert not is_allowed(ip_address("10.0.0.1"), outbound.networks)
    with pytest.raises(Invalid):
        validate_url("http://8.8.8.8/", outbound)
    with pytest.raises(InvalidSetting):
        validate_url("https://10.0.0.1/", WebhookLimits(("ten",)))


def fake_lookup(*addresses: str) -> Any:
    return lambda *_, **__: [(0, 0, 0, "", (address, 443)) for address in addresses]


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["64:ff9b::7f00:1"], []])
def test_a_host_with_any_forbidden_address_is_refused(addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssrf_guard.socket, "getaddrinfo", fake_lookup(*addresses))
    with pytest.raises(RequestFailure):
        resolve(urlsplit("https://hooks.example.com/"), WebhookLimits())


def test_dns_rebinding_connects_to_the_address_checked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is resolved once, and the connection uses that address with the host name."""
    with provider(lambda handler, _: handler.reply({})) as receiver:
        looks = iter(["127.0.0.1", "192.0.2.1"])
        real = socket.getaddrinfo

        def rebinding(host: str, *more: Any, **asked: Any) -> Any:
            return real(next(looks) if host == "hooks.example.com" else host, *more, **asked)

        webhook = WebhookClient(
            f"http://hooks.example.com:{receiver.server_port}/h?a=1", WebhookLimits(("127.0.0.0/8",))
        )
        monkeypatch.setattr(ssrf_guard.socket, "getaddrinfo", rebinding)
        assert webhook.post(b"{}", {}).status == 200
    assert [(one.path, one.headers["Host"]) for one in receiver.asked] == [
        ("/h?a=1", f"hooks.example.com:{receiver.server_port}")
    ]


@pytest.mark.parametrize(("name", "expected"), [("hooks.example.com", None), ("other.example.com", "securely")])
def test_a_checked_address_must_have_a_trusted_certificate_of_the_host_name(
    name: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    with provider(lambda handler, _: handler.reply({})) as receiver, authority.cert_pem.tempfile() as known:
        monkeypatch.setenv("SSL_CERT_FILE", known)
        receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
        url = f"https://hooks.example.com:{receiver.server_port}/"
        webhook = WebhookClient(url, WebhookLimits(("127.0.0.0/8",)))
        real = socket.getaddrinfo
        monkeypatch.setattr(
            ssrf_guard.socket, "getaddrinfo", lambda host, *more, **asked: real("127.0.0.1", *more, **asked)
        )
        if expected is None:
            assert webhook.post(b"{}", {}).status == 200
        else:
            with pytest.raises(RequestFailure, match=expected):
                webhook.post(b"{}", {})
    assert len(receiver.asked) == (expected is None)

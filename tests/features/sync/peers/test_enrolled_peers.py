"""Enrol peers by token, limit them to namespaces, and remove them."""

import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from engines import ENGINES_BY_RING
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers.request_signature import (
    WINDOW_SECONDS,
    RequestSignature,
    is_in_time,
    parse_headers,
    request_message,
    to_headers,
)
from holdfast.features.sync.peers.token import PeerToken, parse_token
from holdfast.kernel import timestamps as moment
from holdfast.kernel.context import Caller, read_clock
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, Invalid
from holdfast.kernel.net.tls import client_context, server_context

DESK = PeerToken("0123456789ab", bytes(range(32))).token


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(tmp_path / "laptop.db")) as opened:
        yield opened


def test_a_peer_is_enrolled_by_its_token_updated_and_removed(
    hold: holdfast.Holdfast, laptop: holdfast.Holdfast
) -> None:
    token = laptop.peer_token()
    added = hold.peer_add(name="laptop", token=token.token, url="https://laptop.example:9077/", tell=["team/**"])
    assert (added.node, added.public_key, added.url) == (token.node, token.public_key, "https://laptop.example:9077")
    assert (added.tell, added.take, added.admin) == (["team/**"], ["**"], False)
    changed = hold.peer_set(name="laptop", take=[""], admin=True, url="", fingerprint="AB:" * 31 + "AB")
    assert (changed.tell, changed.take, changed.admin, changed.fingerprint) == (["team/**"], [], True, "ab" * 32)
    assert changed.url is not added.url
    assert hold.peer_list().peers == [changed]
    assert hold.peer_remove(name="laptop") == changed
    assert hold.peer_list().count == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "again"}, Conflict),
        ({"name": "desk", "token": PeerToken("another", bytes(32)).token}, Conflict),
        ({"name": "cut", "token": DESK[:-1]}, Invalid),
        ({"name": "cut", "token": DESK[1:]}, Invalid),
        ({"name": "no/slashes"}, Invalid),
        ({"name": "x", "tell": ["a**"]}, Invalid),
        ({"name": "x", "take": ["/team"]}, Invalid),
        ({"name": "x", "url": "desk.example"}, Invalid),
        ({"name": "x", "url": "https://ann:secret@desk.example"}, Invalid),
        ({"name": "x", "fingerprint": "12:34"}, Invalid),
    ],
)
def test_an_invalid_peer_is_refused_and_nothing_is_stored(
    hold: holdfast.Holdfast, arguments: dict[str, object], error: type[HoldfastError]
) -> None:
    hold.peer_add(name="desk", token=DESK)
    before = hold.peer_list()
    with pytest.raises(error) as refused:
        hold.peer_add(**{"token": DESK, **arguments})
    assert "secret" not in refused.value.message
    assert hold.peer_list() == before


def test_a_store_cannot_enrol_itself_and_a_new_key_replaces_only_its_own_peer(hold: holdfast.Holdfast) -> None:
    with pytest.raises(Conflict, match="token of this store"):
        hold.peer_add(name="me", token=hold.peer_token().token)
    hold.peer_add(name="desk", token=DESK)
    with pytest.raises(Conflict, match="a different store"):
        hold.peer_set(name="desk", token=PeerToken("another", bytes(32)).token)
    renewed = hold.peer_set(name="desk", token=PeerToken("0123456789ab", bytes(32)).token)
    assert renewed.public_key == "00" * 32


def test_enrolling_requires_access_to_every_namespace(hold: holdfast.Holdfast) -> None:
    confined = Caller(agent="ai:x@y", right="admin", namespaces=("team",))
    for name, arguments in (("peer_add", {"name": "desk", "token": DESK}), ("peer_list", {}), ("peer_token", {})):
        with pytest.raises(Forbidden):
            hold.call(name, arguments, caller=confined)


def test_a_nonce_is_valid_once_and_forgotten_after_its_expiry(hold: holdfast.Holdfast) -> None:
    with hold.ctx.store.transaction() as session:
        used = [peers.use_nonce(session, "desk", "n" * 20, at, floor) for at, floor in ((5, 0), (5, 0), (20, 10))]
    assert used == [True, False, True]


def test_a_restore_brings_back_no_removed_peer_and_loses_no_new_one(hold: holdfast.Holdfast) -> None:
    hold.peer_add(name="desk", token=DESK)
    made = hold.backup()
    hold.peer_remove(name="desk")
    hold.peer_add(name="phone", token=PeerToken("phone", bytes(32)).token, tell=["team/**"])
    with hold.ctx.store.transaction() as session:
        peers.use_nonce(session, "phone", "n" * 20, 5, 0)
    hold.restore(made.snapshot)
    assert [(peer.name, peer.tell) for peer in hold.peer_list().peers] == [("phone", ["team/**"])]
    with hold.ctx.store.transaction() as session:
        assert not peers.use_nonce(session, "phone", "n" * 20, 5, 0)


def test_a_token_identifies_its_store_and_survives_copying_by_hand() -> None:
    token = PeerToken("0123456789ab", bytes(range(32)))
    assert parse_token(f"  {DESK[:20]}\n  {DESK[20:]}\n") == token
    for spoilt in ("", "hfpeer1_", DESK.lower(), DESK + "A", DESK.replace("_", "-", 1), "hfpeer1_" + "é" * 40):
        with pytest.raises(Invalid, match="incomplete or invalid"):
            parse_token(spoilt)


def test_every_part_of_a_request_is_signed() -> None:
    parts = {"method": "POST", "path": "/a?b=c", "body": b"{}", "at": 5, "nonce": "n" * 16, "to": "desk"}
    other = {"method": "PUT", "path": "/a", "body": b"{ }", "at": 6, "nonce": "m" * 16, "to": ""}
    messages = {request_message(**{**parts, name: value}) for name, value in other.items()}  # type: ignore[arg-type]
    assert len(messages | {request_message(**parts)}) == len(parts) + 1  # type: ignore[arg-type]


def test_signature_headers_are_parsed_as_written() -> None:
    signed = RequestSignature("laptop", "desk", read_clock(), "n" * 20, "00" * 32, b"\x01" * 64)
    written_down = to_headers(signed)
    assert parse_headers(written_down) == signed
    for name, bad in (("Holdfast-Time", "1e9"), ("Holdfast-Time", "-1"), ("Holdfast-Nonce", "short")):
        assert parse_headers({**written_down, name: bad}) is None
    assert parse_headers({**written_down, "Holdfast-Signature": "xyz"}) is None
    edge = WINDOW_SECONDS * moment.SECOND
    assert [is_in_time(0, now) for now in (-edge - 1, -edge, edge, edge + 1)] == [False, True, True, False]


def test_certificates_are_issued_and_trusted_by_one_signer(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    desk = hold.peer_certificate(name="desk", host=["127.0.0.1", "desk.example"], folder=str(folder))
    laptop = hold.peer_certificate(name="laptop", folder=str(folder))
    assert desk.ca == laptop.ca
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.glob("*.key")} == {0o600}
    ends = [ssl.MemoryBIO() for _ in range(2)]
    server = server_context(desk.certificate, desk.key, desk.ca).wrap_bio(ends[0], ends[1], server_side=True)
    client = client_context(laptop.ca, laptop.certificate, laptop.key).wrap_bio(
        ends[1], ends[0], server_hostname="desk.example"
    )
    shake(client, server)
    assert (server.getpeercert() or {})["subject"] == ((("commonName", "laptop"),),)
    with pytest.raises(Conflict, match="exists already"):
        hold.peer_certificate(name="desk", folder=str(folder))
    with pytest.raises(Invalid, match="neither a host name nor an IP address"):
        hold.peer_certificate(name="other", host=["a b..c"], folder=str(folder))


def shake(*sides: ssl.SSLObject) -> None:
    """Run the TLS handshake between both sides."""
    waiting = [*sides]
    for _ in range(10):
        for side in [*waiting]:
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting

"""Twelve kinds of peers that must be refused: real certificates, real sockets, and no change by any of them."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
import trustme
from msgspec.structs import replace
from serving import serve_app, with_settings

import holdfast
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.exchange import sync_with_server
from holdfast.features.sync.peers.client import PeerClient
from holdfast.features.sync.peers.request_signature import RequestSignature, body_digest, request_message, to_headers
from holdfast.features.sync.read_changes import Handshake, VectorEntry
from holdfast.features.sync.wire import FeedRequest, HelloRequest, TakeRequest
from holdfast.kernel import timestamps as moment
from holdfast.kernel.context import read_clock
from holdfast.kernel.errors import PeerFailed
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import new_key, public_key_of, sign
from holdfast.kernel.net.outbound import PeerCredentials
from holdfast.kernel.net.tls import client_context, fingerprint_of
from holdfast.kernel.records.change import Change, signed_bytes
from holdfast.settings import Settings
from holdfast.surfaces.http.app import build_app
from holdfast.surfaces.http.tls import make_tls_context
from timeouts import TIMEOUT

FAR = 30 * moment.DAY
LATE = datetime.now(UTC) - timedelta(days=1)


class Certificates(NamedTuple):
    """A signer, and the folder with its files."""

    folder: Path
    ca: trustme.CA
    other: trustme.CA

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def make(self, name: str, ca: trustme.CA, host: str = "127.0.0.1", **more: Any) -> None:
        """Write a certificate and its key to files."""
        made = ca.issue_cert(host, **more)
        made.private_key_pem.write_to_path(self.file(f"{name}.key"))
        for number, pem in enumerate(made.cert_chain_pems):
            pem.write_to_path(self.file(f"{name}.pem"), append=number > 0)

    def print_of(self, name: str) -> str:
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(Path(self.file(f"{name}.pem")).read_text()))

    def client_access(self, name: str | None, **more: Any) -> PeerCredentials:
        """Return the credentials of a client with the named certificate."""
        given = {"client_cert": self.file(f"{name}.pem"), "client_key": self.file(f"{name}.key")} if name else {}
        return PeerCredentials(**{"ca": self.file("ca.pem"), **given, **more})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"), trustme.CA(), trustme.CA())
    made.ca.cert_pem.write_to_path(made.file("ca.pem"))
    made.make("expired", made.ca, not_after=LATE)
    made.make("stranger", made.other)
    for name in ("server", "laptop", "unlisted"):
        made.make(name, made.ca)
    made.make("elsewhere", made.ca, "desk.example")
    listed = [f"sha256:{made.print_of(name).upper()}  # {name}" for name in ("laptop", "expired", "stranger")]
    Path(made.file("list")).write_text("\n".join(["# who may come", "", *listed]))
    return made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    """The served store."""
    with holdfast.open(str(tmp_path / "desk.db"), agent_id="human:ann@desk") as opened:
        opened.store(title="Known", content="Here before.", namespace="team/a")
        opened.store(title="Secret", content="For the desk alone.", namespace="private")
        yield opened


@pytest.fixture
def laptop(tmp_path: Path, desk: holdfast.Holdfast) -> Iterator[holdfast.Holdfast]:
    """A store enrolled at the served one for the namespace of a team."""
    with holdfast.open(str(tmp_path / "laptop.db"), agent_id="human:ann@laptop") as opened:
        desk.peer_add(name="laptop", token=opened.peer_token().token, tell=["team/**"], take=["team/**"])
        yield opened


@contextmanager
def serve_with_tls(hold: holdfast.Holdfast, certificates: Certificates, cert: str = "server") -> Iterator[str]:
    """Serve a store to other machines, restricted to listed clients."""
    settings = {
        "host": "0.0.0.0",
        "tls_cert": certificates.file(f"{cert}.pem"),
        "tls_key": certificates.file(f"{cert}.key"),
        "client_ca": certificates.file("ca.pem"),
        "client_fingerprints": certificates.file("list"),
    }
    seen = with_settings(hold, **settings)
    with serve_app(build_app(seen), tls=make_tls_context(seen.settings)) as url:
        yield url


@pytest.fixture
def url(desk: holdfast.Holdfast, laptop: holdfast.Holdfast, certificates: Certificates) -> Iterator[str]:
    with serve_with_tls(desk, certificates) as found:
        yield found


def replicated_state(hold: holdfast.Holdfast) -> tuple[Any, ...]:
    """Return everything that another store could change: all rows, the journal, known keys and cursors."""
    enrolled = {peer.node for peer in hold.peer_list().peers}
    with hold.ctx.reading() as session:
        authors = [row for row in session.rows("replica_list") if row[2] not in enrolled]
        rows = [session.rows(name) for name in ("peer_list", "baseline_list")]
    return hold.sync_digest().digest, hold.verify().head, hold.sync_digest().vector, authors, rows


class Peer:
    """A client that sends raw protocol messages, valid or not."""

    def __init__(self, hold: holdfast.Holdfast, url: str, certificates: Certificates) -> None:
        self.hold = hold
        self.url = url
        self._number = count()
        files = (certificates.file("laptop.pem"), certificates.file("laptop.key"))
        self._tls = client_context(certificates.file("ca.pem"), *files)
        with hold.ctx.reading() as session:
            self.key = hold.ctx.store.signing_key(session) or b""
            self.node = journal.get_head(session).node

    def sign(self, path: str, body: bytes, to: str, *, at: int = 0, nonce: str = "n" * 20) -> dict[str, str]:
        at = at or read_clock()
        signed_text = request_message("POST", path, body, at, nonce, to=to)
        return to_headers(RequestSignature(self.node, to, at, nonce, body_digest(body), sign(self.key, signed_text)))

    def post(self, path: str, body: bytes, more: dict[str, str]) -> httpx.Response:
        with httpx.Client(verify=self._tls, timeout=TIMEOUT) as client:
            return client.post(self.url + path, content=body, headers={"content-type": "application/json", **more})

    def greeting(self) -> Handshake:
        with self.hold.ctx.reading() as session:
            return telling.build_handshake(session, read_clock())

    def changes(self) -> list[Change]:
        with self.hold.ctx.reading() as session:
            return telling.read_page(session, self.key, 0, {}, 1000).changes

    def take(self, to: str, changes: list[Change], **more: Any) -> httpx.Response:
        sender = more.pop("sender", self.greeting())
        message = TakeRequest(sender=sender, changes=changes, upto=more.pop("upto", sender.seq), **more)
        body = msgspec.json.encode(message)
        return self.post(
            "/api/v1/peer/take", body, self.sign("/api/v1/peer/take", body, to, nonce=f"{next(self._number):020}")
        )


@pytest.fixture
def peer(laptop: holdfast.Holdfast, url: str, certificates: Certificates) -> Peer:
    return Peer(laptop, url, certificates)


@pytest.fixture
def node(desk: holdfast.Holdfast) -> str:
    return str(desk.peer_token().node)


def reasons(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [other["reason"] for other in answer.json()["others"]]


def meet(hold: holdfast.Holdfast, url: str, access: PeerCredentials) -> Any:
    link = PeerClient(url, access)
    try:
        return sync_with_server(hold.ctx, link, "merge")
    finally:
        link.close()


def test_a_valid_peer_is_accepted(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, url: str, certificates: Certificates
) -> None:
    laptop.store(title="Mine", content="From the road.", namespace="team/b")
    done = meet(laptop, url, certificates.client_access("laptop"))
    assert (done.pulled.memory_count, done.pushed.memory_count, done.pushed.list_rejected) == (1, 1, [])
    assert {one.title for one in desk.list(namespace="team/b").memories} == {"Mine"}
    assert {one.title for one in laptop.list().memories} == {"Known", "Mine"}


def test_an_answer_of_another_store_than_the_enrolled_one_is_refused(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, certificates: Certificates, tmp_path: Path
) -> None:
    """An impostor answers at the enrolled address, with a valid certificate and our name in its list."""
    with holdfast.open(str(tmp_path / "impostor.db")) as impostor:
        impostor.peer_add(name="laptop", token=laptop.peer_token().token)
        impostor.store(title="Trap", content="Believe me.", namespace="team/a")
        with serve_with_tls(impostor, certificates) as url:
            laptop.peer_add(name="desk", token=desk.peer_token().token, url=url)
            before = replicated_state(laptop)
            with pytest.raises(PeerFailed, match="for another store"):
                meet(laptop, url, certificates.client_access("laptop"))
            with impostor.ctx.store.transaction() as session:
                session.execute_sql("update journal_head set node = :node", [{"node": desk.peer_token().node}])
            with pytest.raises(PeerFailed, match="did not sign its response"):
                meet(laptop, url, certificates.client_access("laptop"))
    assert replicated_state(laptop) == before


def test_a_server_is_trusted_by_its_pinned_certificate(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, url: str, certificates: Certificates
) -> None:
    files = {"sync_client_cert": certificates.file("laptop.pem"), "sync_client_key": certificates.file("laptop.key")}
    laptop.peer_add(name="desk", token=desk.peer_token().token, url=url)
    with holdfast.open(settings=Settings(db=laptop.settings.db, embedder="none", **files)) as shown:
        for pinned in ("", certificates.print_of("unlisted")):
            laptop.peer_set(name="desk", fingerprint=pinned)
            with pytest.raises(PeerFailed, match="TLS handshake"):
                shown.sync(remote=url)
        laptop.peer_set(name="desk", fingerprint=certificates.print_of("server"))
        assert shown.sync(remote=url).pulled == 1


@pytest.mark.parametrize("shown", [None, "unlisted", "expired", "stranger"])
def test_a_client_with_a_missing_unlisted_expired_or_foreign_certificate_is_refused(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, url: str, certificates: Certificates, shown: str | None
) -> None:
    laptop.store(title="Mine", content="From the road.", namespace="team/b")
    before = replicated_state(desk), replicated_state(laptop)
    with pytest.raises(PeerFailed):
        meet(laptop, url, certificates.client_access(shown))
    assert (replicated_state(desk), replicated_state(laptop)) == before


def test_a_server_with_a_certificate_for_another_name_receives_nothing(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, certificates: Certificates
) -> None:
    before = replicated_state(desk), replicated_state(laptop)
    with serve_with_tls(desk, certificates, "elsewhere") as url, pytest.raises(PeerFailed, match="TLS handshake"):
        meet(laptop, url, certificates.client_access("laptop"))
    assert (replicated_state(desk), replicated_state(laptop)) == before


def test_a_replayed_request_is_refused_by_another_process_too(
    desk: holdfast.Holdfast, peer: Peer, node: str, certificates: Certificates
) -> None:
    path, body = "/api/v1/peer/feed", msgspec.json.encode(FeedRequest(after=0, known={}, limit=10))
    signed_once = peer.sign(path, body, node)
    assert peer.post(path, body, signed_once).status_code == 200
    before = replicated_state(desk)
    assert peer.post(path, body, signed_once).status_code == 401
    with holdfast.open(desk.settings.db) as again, serve_with_tls(again, certificates) as other:
        peer.url = other
        answer = peer.post(path, body, signed_once)
    assert (answer.status_code, "already used" in answer.text) == (401, True)
    assert replicated_state(desk) == before


def test_a_forged_or_altered_request_is_refused(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, peer: Peer, node: str
) -> None:
    laptop.store(title="Mine", content="From the road.", namespace="team/b")
    path, sender = "/api/v1/peer/take", peer.greeting()
    body = msgspec.json.encode(TakeRequest(sender=sender, changes=peer.changes(), upto=sender.seq))
    good, before = peer.sign(path, body, node), replicated_state(desk)
    forged = {**good, "Holdfast-Signature": "00" * 64}
    for said, more in (
        (body, forged),
        (body.replace(b"road", b"rack"), good),
        (body, {**good, "Holdfast-Body": body_digest(b"")}),
        (b"{}", {**good, "Holdfast-Body": body_digest(b"{}")}),
        (body, {**good, "Holdfast-Nonce": "m" * 20}),
        (body, {**good, "Holdfast-Time": str(read_clock())}),
        (body, {name: value for name, value in good.items() if name != "Holdfast-Time"}),
        (body, {}),
    ):
        assert peer.post(path, said, more).status_code == 401
    assert peer.post(path, body, peer.sign(path, body, "another-node")).status_code == 401
    assert peer.post(path.replace("take", "feed"), body, good).status_code == 401
    assert replicated_state(desk) == before


def test_a_change_with_a_forged_signature_is_quarantined_and_named(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, peer: Peer, node: str
) -> None:
    laptop.store(title="Mine", content="From the road.", namespace="team/b")
    before = replicated_state(desk)
    forged = [replace(change, body=(change.body or "").replace("road", "rack")) for change in peer.changes()]
    assert reasons(peer.take(node, forged)) == ["forged"]
    assert replicated_state(desk) == before
    assert [one.reason for one in desk.quarantine().quarantined] == ["forged"]


def test_changes_of_a_foreign_namespace_are_neither_accepted_nor_sent(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, peer: Peer, node: str
) -> None:
    laptop.store(title="Mine", content="Where I may not.", namespace="private")
    before = replicated_state(desk)
    assert reasons(peer.take(node, peer.changes())) == ["scope"]
    assert replicated_state(desk) == before
    path, body = "/api/v1/peer/feed", msgspec.json.encode(FeedRequest(after=0, known={}, limit=10))
    answer = peer.post(path, body, peer.sign(path, body, node))
    assert ("Known" in answer.text, "Secret" in answer.text) == (True, False)


def test_a_peer_is_limited_to_its_namespaces_over_the_ai_memory_dialect_too(
    desk: holdfast.Holdfast, peer: Peer, node: str
) -> None:
    path, before = "/api/v1/sync/push", replicated_state(desk)
    rows = [{"id": "p-1", "title": "Mine", "content": "Where I may not.", "namespace": "private"}]
    body = msgspec.json.encode({"sender_agent_id": "ai:laptop@road", "memories": rows})
    answer = peer.post(path, body, peer.sign(path, body, node))
    assert (answer.status_code, answer.json()["skipped"], answer.json()["applied"]) == (200, 1, 0)
    assert peer.post(path, body, {}).status_code == 401
    assert replicated_state(desk) == before


def test_a_peer_with_a_clock_in_the_future_is_refused_and_so_are_its_changes(
    desk: holdfast.Holdfast, peer: Peer, node: str, tmp_path: Path
) -> None:
    path, body, before = (
        "/api/v1/peer/feed",
        msgspec.json.encode(FeedRequest(after=0, known={}, limit=10)),
        replicated_state(desk),
    )
    answer = peer.post(path, body, peer.sign(path, body, node, at=read_clock() + FAR))
    assert (answer.status_code, "set both clocks right" in answer.text) == (401, True)
    with holdfast.open(peer.hold.settings.db, now=lambda: read_clock() + FAR) as ahead:
        ahead.store(title="Later", content="From a wrong year.", namespace="team/a")
    assert reasons(peer.take(node, peer.changes())) == ["future"]
    assert replicated_state(desk) == before


def test_a_peer_with_false_sequence_numbers_changes_nothing(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, peer: Peer, node: str
) -> None:
    sender, before = peer.greeting(), replicated_state(desk)
    assert peer.take(node, [], upto=sender.seq + 100).status_code == 400
    assert peer.take(node, [], sender=replace(sender, node="other", origin="other.1-0")).status_code == 403
    assert replicated_state(desk) == before
    desk.peer_set(name="laptop", tell=["**"], take=["**"])
    before = replicated_state(desk)
    assert peer.take(node, [], bases={"victim.1-0": VectorEntry(10**9, "x")}).status_code == 200
    assert replicated_state(desk) == before


def test_an_unenrolled_store_is_refused_and_so_is_a_change_of_an_unknown_author(
    desk: holdfast.Holdfast, peer: Peer, node: str, tmp_path: Path, certificates: Certificates
) -> None:
    with holdfast.open(str(tmp_path / "stranger.db")) as stranger:
        stranger.store(title="Hello", content="Let me in.", namespace="team/a")
        other = Peer(stranger, peer.url, certificates)
        before = replicated_state(desk)
        hello = msgspec.json.encode(HelloRequest(greeting=other.greeting(), kinds=[]))
        answer = other.post("/api/v1/peer/hello", hello, other.sign("/api/v1/peer/hello", hello, ""))
        assert (answer.status_code, "holdfast sync peers add" in answer.text) == (401, True)
        unknown = other.changes()
    assert reasons(peer.take(node, unknown)) == ["unsigned"]
    assert replicated_state(desk) == before


def test_a_peer_cannot_replace_the_key_of_an_enrolled_store(
    desk: holdfast.Holdfast, peer: Peer, node: str, tmp_path: Path
) -> None:
    """A peer forges a change of another store, signs it with its own key, and claims that the key is the other's."""
    key = new_key()
    with holdfast.open(str(tmp_path / "server.db")) as server:
        desk.peer_add(name="server", token=server.peer_token().token)
        server.store(title="Said", content="By the server.", namespace="team/a")
        with server.ctx.reading() as session:
            own = server.ctx.store.signing_key(session)
            (change,) = telling.read_page(session, own, 0, {}, 10).changes
    before, sender = replicated_state(desk), peer.greeting()
    made_up = replace(change, signature=sign(key, signed_bytes(change)).hex())
    claim = replace(sender, authors={**sender.authors, change.origin: public_key_of(key).hex()})
    assert reasons(peer.take(node, [made_up], sender=claim)) == ["forged"]
    assert replicated_state(desk) == before


def test_changes_of_a_newer_release_are_quarantined_and_not_applied_in_part(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, peer: Peer, node: str
) -> None:
    laptop.store(title="Mine", content="From the road.", namespace="team/b")
    (change,) = peer.changes()
    newer = replace(change, kind="hologram")
    newer = replace(newer, signature=sign(peer.key, signed_bytes(newer)).hex())
    before = replicated_state(desk)
    assert reasons(peer.take(node, [newer], protocol=99)) == ["unknown_kind"]
    assert replicated_state(desk) == before
    body = msgspec.json.encode({"protocol": 0, "after": 0, "known": {}, "limit": 1})
    answer = peer.post("/api/v1/peer/feed", body, peer.sign("/api/v1/peer/feed", body, node))
    assert (answer.status_code, "Upgrade the older" in answer.text) == (409, True)


def test_governance_changes_are_accepted_only_from_an_admin_peer(
    desk: holdfast.Holdfast, laptop: holdfast.Holdfast, peer: Peer, node: str
) -> None:
    laptop.policy_set(namespace="team", max_reflection_depth=9)
    before = replicated_state(desk)
    assert reasons(peer.take(node, peer.changes())) == ["governance"]
    assert replicated_state(desk) == before
    desk.peer_set(name="laptop", admin=True)
    assert reasons(peer.take(node, peer.changes())) == []
    assert desk.policy_get(namespace="team").rules.max_reflection_depth == 9

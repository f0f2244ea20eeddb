"""Authenticate peers: an enrolled store signs each request for this store, with a timestamp and a one-time nonce."""

from typing import NamedTuple

from starlette.types import Scope

from holdfast.app import Holdfast
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers.request_signature import (
    HEADERS,
    SIGNATURE,
    WINDOW_SECONDS,
    Signed,
    answer,
    covered,
    digest,
    in_time,
    signed_by,
)
from holdfast.features.sync.peers.store import Peer
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import Unauthenticated
from holdfast.kernel.journal import journal, signer
from holdfast.surfaces.http.authentication import authenticate, is_loopback, presented, values

PEERS_ALONE = "/api/v1/peer/"
HELLO = PEERS_ALONE + "hello"
PEERS_TOO = ("/api/v1/sync/push", "/api/v1/sync/since")


class Claim(NamedTuple):
    """The peer that claims to have signed a request; the body is not checked yet."""

    peer: Peer
    signed: Signed


def claimed(holdfast: Holdfast, scope: Scope) -> Claim | None:
    """Return the enrolled peer that signed a request, or None for an unsigned request that is allowed."""
    path, signed = scope["path"], _signed(scope)
    with holdfast.hold.reading() as session:
        peer = peers.by_node(session, signed.peer) if signed else None
        own = journal.head_of(session).node
    if signed is None or peer is None:
        _must_not_be_needed(holdfast, path)
        return None
    if signed.to != own and (signed.to or path != HELLO):
        raise Unauthenticated("This request was signed for another store than this one.")
    now = holdfast.hold.now()
    if not in_time(signed.at, now):
        apart = abs(now - signed.at) // 1_000_000
        raise Unauthenticated(
            f"This request was signed {apart} seconds from now by the clock of this server; "
            f"at most {WINDOW_SECONDS} are allowed: set both clocks right."
        )
    if not signer.verifies(peer.public_key, signed.signature, covered(scope["method"], _path(scope), signed)):
        raise Unauthenticated("The signature of this request is not that of the store that it names.")
    if presented(scope["headers"]).secret is not None:
        authenticate(holdfast, scope["headers"])
    return Claim(peer, signed)


def proven(holdfast: Holdfast, claim: Claim, body: bytes) -> Caller:
    """Return the caller of a signed request after checking its body and that its nonce is new."""
    peer, signed = claim
    if digest(body) != signed.body:
        raise Unauthenticated("The body does not match the signature.")
    floor = holdfast.hold.now() - 2 * WINDOW_SECONDS * 1_000_000
    with holdfast.hold.writing() as write:
        if not peers.use_nonce(write.session, peer.node, signed.nonce, signed.at, floor):
            raise Unauthenticated("This signed request was already used: sign each request once.")
    return Caller(agent=f"peer:{peer.name}", right="write", bound=True, source="peer", peer=peer.name)


def answered(holdfast: Holdfast, scope: Scope, content: bytes) -> dict[str, str]:
    """Return the header that signs an answer to a signed request."""
    signed = _signed(scope) if is_for_peers(scope["path"]) else None
    if signed is None:
        return {}
    key = holdfast.hold.signing_key()
    return {SIGNATURE: signer.sign(key, answer(_path(scope), content, signed)).hex()}


def is_for_peers(path: str) -> bool:
    return path.startswith(PEERS_ALONE) or path in PEERS_TOO


def _must_not_be_needed(holdfast: Holdfast, path: str) -> None:
    """Raise if this path requires a signed request because other machines can reach the server."""
    if path.startswith(PEERS_ALONE) and not is_loopback(holdfast.settings.host):
        raise Unauthenticated(
            "Only enrolled stores can sync with this one. Run `holdfast peers token` on your store, "
            "then `holdfast peers add NAME TOKEN` here."
        )


def _signed(scope: Scope) -> Signed | None:
    """Read the signature headers; None without any. A missing, repeated or malformed one is rejected."""
    given = {name: values(scope["headers"], name.lower().encode()) for name in HEADERS}
    if not any(given.values()):
        return None
    once = {name: found[0] for name, found in given.items() if len(found) == 1}
    signed = signed_by(once)
    if signed is None or max(map(len, given.values())) > 1:
        raise Unauthenticated(f"A signed request needs each of {', '.join(HEADERS)} exactly once.")
    return signed


def _path(scope: Scope) -> str:
    """Return the raw path with its query, as it was signed."""
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path

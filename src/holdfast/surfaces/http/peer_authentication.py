"""Authenticate peers: an enrolled store signs each request for this store, with a timestamp and a one-time nonce."""

from typing import NamedTuple

from starlette.types import Scope

from holdfast.app import Holdfast
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers.request_signature import (
    HEADERS,
    SIGNATURE,
    WINDOW_SECONDS,
    RequestSignature,
    answer_message,
    body_digest,
    is_in_time,
    message_of_headers,
    parse_headers,
)
from holdfast.features.sync.peers.store import Peer
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import AuthenticationRequired
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import is_valid_signature, sign
from holdfast.surfaces.http.authentication import authenticate, header_values, is_loopback, read_credentials

PEER_ONLY_PREFIX = "/api/v1/peer/"
HELLO = PEER_ONLY_PREFIX + "hello"
PEER_PATHS = ("/api/v1/sync/push", "/api/v1/sync/since")


class Claim(NamedTuple):
    """The peer that claims to have signed a request; the body is not checked yet."""

    peer: Peer
    signed: RequestSignature


def find_claim(holdfast: Holdfast, scope: Scope) -> Claim | None:
    """Return the enrolled peer that signed a request, or None for an unsigned request that is allowed."""
    path, signed = scope["path"], _read_signature(scope)
    with holdfast.ctx.reading() as session:
        peer = peers.find_by_node(session, signed.peer) if signed else None
        own = journal.get_head(session).node
    if signed is None or peer is None:
        _check_unsigned_allowed(holdfast, path)
        return None
    if signed.to != own and (signed.to or path != HELLO):
        raise AuthenticationRequired("This request was signed for another store than this one.")
    now = holdfast.ctx.now()
    if not is_in_time(signed.at, now):
        apart = abs(now - signed.at) // 1_000_000
        raise AuthenticationRequired(
            f"This request was signed {apart} seconds from now by the clock of this server; "
            f"at most {WINDOW_SECONDS} are allowed: set both clocks right."
        )
    if not is_valid_signature(
        peer.public_key, signed.signature, message_of_headers(scope["method"], _signed_path(scope), signed)
    ):
        raise AuthenticationRequired("The signature of this request is not that of the store that it names.")
    if read_credentials(scope["headers"]).secret is not None:
        authenticate(holdfast, scope["headers"])
    return Claim(peer, signed)


def verify_claim(holdfast: Holdfast, claim: Claim, body: bytes) -> Caller:
    """Return the caller of a signed request after checking its body and that its nonce is new."""
    peer, signed = claim
    if body_digest(body) != signed.body:
        raise AuthenticationRequired("The body does not match the signature.")
    floor = holdfast.ctx.now() - 2 * WINDOW_SECONDS * 1_000_000
    with holdfast.ctx.transaction() as write:
        if not peers.use_nonce(write.session, peer.node, signed.nonce, signed.at, floor):
            raise AuthenticationRequired("This signed request was already used: sign each request once.")
    return Caller(agent=f"peer:{peer.name}", right="write", has_fixed_agent=True, source="peer", peer=peer.name)


def sign_answer(holdfast: Holdfast, scope: Scope, content: bytes) -> dict[str, str]:
    """Return the header that signs an answer to a signed request."""
    signed = _read_signature(scope) if is_for_peers(scope["path"]) else None
    if signed is None:
        return {}
    key = holdfast.ctx.signing_key()
    return {SIGNATURE: sign(key, answer_message(_signed_path(scope), content, signed)).hex()}


def is_for_peers(path: str) -> bool:
    return path.startswith(PEER_ONLY_PREFIX) or path in PEER_PATHS


def _check_unsigned_allowed(holdfast: Holdfast, path: str) -> None:
    """Raise if this path requires a signed request because other machines can reach the server."""
    if path.startswith(PEER_ONLY_PREFIX) and not is_loopback(holdfast.settings.host):
        raise AuthenticationRequired(
            "Only enrolled stores can sync with this one. Run `holdfast sync peers token` on your store, "
            "then `holdfast sync peers add NAME TOKEN` here."
        )


def _read_signature(scope: Scope) -> RequestSignature | None:
    """Read the signature headers; None without any. A missing, repeated or malformed one is rejected."""
    given = {name: header_values(scope["headers"], name.lower().encode()) for name in HEADERS}
    if not any(given.values()):
        return None
    once = {name: found[0] for name, found in given.items() if len(found) == 1}
    signed = parse_headers(once)
    if signed is None or max(map(len, given.values())) > 1:
        raise AuthenticationRequired(f"A signed request needs each of {', '.join(HEADERS)} exactly once.")
    return signed


def _signed_path(scope: Scope) -> str:
    """Return the raw path with its query, as it was signed."""
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path

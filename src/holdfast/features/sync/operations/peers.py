"""Peers: the stores that this one exchanges with, enrolled by their token."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories.views import known
from holdfast.features.sync.peers import certificates
from holdfast.features.sync.peers import service as peers
from holdfast.features.sync.peers.store import Peer
from holdfast.features.sync.peers.token import written
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.operation import Effect, Example, Nothing, Request, operation
from holdfast.kernel.timestamps import to_text

Name = Annotated[str, Meta(min_length=1, max_length=64, description="What to call it.", extra={"argument": True})]
TokenText = Annotated[str, Meta(min_length=1, max_length=512, description="What `peers token` prints there.")]
Patterns = list[Annotated[str, Meta(max_length=514)]]
Tell = Annotated[Patterns, Meta(max_length=32, description="Namespaces it hears of: team/**, notes/*, ** for all.")]
Take = Annotated[Patterns, Meta(max_length=32, description="Namespaces it may tell of; '' for none.")]
Url = Annotated[str, Meta(max_length=2048, description="Where it is served: https://desk.example:9077.")]
Pin = Annotated[str, Meta(max_length=256, description="SHA-256 of the certificate that it is served with.")]
ADMIN = "Take policies, grants, standards and orders to forget somebody from it, too."
NO_TOKEN = "hfpeer1_nothing"  # noqa: S105 - an example of one that cannot be read


class PeerToken(Struct, frozen=True, kw_only=True):
    token: str
    """A line of text that the other store enrols this one by; nothing in it is secret."""
    node: str
    public_key: str


class PeerView(Struct, frozen=True, kw_only=True):
    name: str
    node: str
    public_key: str
    tell: list[str]
    take: list[str]
    admin: bool
    enrolled_at: str
    url: str | UnsetType = UNSET
    fingerprint: str | UnsetType = UNSET


class PeerPage(Struct, frozen=True, kw_only=True):
    peers: list[PeerView]
    count: int


def peer_view(peer: "Peer") -> PeerView:
    return PeerView(
        name=peer.name,
        node=peer.node,
        public_key=peer.public_key.hex(),
        tell=list(peer.tell),
        take=list(peer.take),
        admin=peer.admin,
        enrolled_at=to_text(peer.enrolled_at),
        url=known(peer.url),
        fingerprint=known(peer.fingerprint),
    )


@operation(
    Effect.READ,
    "GET /api/v1/peers/token",
    makes_store=True,
    family="other",
    admin=True,
    cli=("peers", "token"),
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer_token",
    examples=(Example({}),),
)
def peer_token(hold: Hold, request: Nothing) -> PeerToken:
    """Print the token by which another store enrols this one."""
    token = peers.own_token(hold)
    return PeerToken(token=written(token), node=token.node, public_key=token.public_key.hex())


class PeerAdd(Request, frozen=True):
    name: Name
    token: Annotated[TokenText, Meta(extra={"argument": True})]
    url: Url | None = None
    tell: Tell | None = None
    take: Take | None = None
    admin: Annotated[bool, Meta(description=ADMIN)] = False
    fingerprint: Pin | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/peers",
    family="other",
    status=201,
    admin=True,
    cli=("peers", "add"),
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer",
    examples=(
        Example({"name": "desk", "token": NO_TOKEN}, error="VALIDATION_FAILED"),
        Example({"name": "no blanks", "token": NO_TOKEN}, error="VALIDATION_FAILED"),
        Example({"name": "desk"}, error="VALIDATION_FAILED"),
    ),
)
def peer_add(hold: Hold, request: PeerAdd) -> PeerView:
    """Enrol another store: its signed requests are let in, within the namespaces that you give.

    Without patterns it hears of everything and may tell of everything, except of policies, grants and standards.
    """
    return peer_view(
        peers.add(
            hold,
            request.name,
            request.token,
            url=request.url,
            tell=request.tell,
            take=request.take,
            admin=request.admin,
            pinned=request.fingerprint,
        )
    )


@operation(
    Effect.READ,
    "GET /api/v1/peers",
    family="other",
    admin=True,
    cli=("peers", "list"),
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peers",
    examples=(Example({}),),
)
def peer_list(hold: Hold, request: Nothing) -> PeerPage:
    """List the enrolled stores and what goes over to each."""
    found = [peer_view(peer) for peer in peers.every(hold)]
    return PeerPage(peers=found, count=len(found))


class PeerSet(Request, frozen=True):
    name: Name
    url: Url | None = None
    tell: Tell | None = None
    take: Take | None = None
    admin: Annotated[bool, Meta(description=ADMIN)] | None = None
    fingerprint: Pin | None = None
    token: TokenText | None = None


@operation(
    Effect.WRITE,
    "PATCH /api/v1/peers/{name}",
    family="other",
    admin=True,
    cli=("peers", "set"),
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer",
    examples=(Example({"name": "nobody", "tell": ["team/**"]}, error="NOT_FOUND"),),
)
def peer_set(hold: Hold, request: PeerSet) -> PeerView:
    """Change what goes over to an enrolled store; what you do not name stays as it is.

    A token is needed only if the store got a new key. What comes into its namespaces by this is told to it, and what
    leaves them stays there as it was.
    """
    return peer_view(
        peers.change(
            hold,
            request.name,
            token=request.token,
            url=request.url,
            tell=request.tell,
            take=request.take,
            admin=request.admin,
            pinned=request.fingerprint,
        )
    )


class PeerRemove(Request, frozen=True):
    name: Name


@operation(
    Effect.DESTROY,
    "DELETE /api/v1/peers/{name}",
    family="other",
    admin=True,
    cli=("peers", "remove"),
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer_removal",
    examples=(Example({"name": "nobody"}, error="NOT_FOUND"),),
)
def peer_remove(hold: Hold, request: PeerRemove) -> PeerView:
    """End the enrolment of a store, at once; what it told before stays."""
    return peer_view(peers.remove(hold, request.name))


class PeerCertificate(Request, frozen=True):
    name: Name
    host: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=253)]],
            Meta(max_length=32, description="Names and addresses under which it is reached; else its name."),
        ]
        | None
    ) = None
    folder: Annotated[
        str, Meta(min_length=1, max_length=4096, description="Where the files go; the signer is kept there, too.")
    ] = "certificates"


class CertificateMade(Struct, frozen=True, kw_only=True):
    certificate: str
    key: str
    ca: str
    """The certificate of who signed it: what others believe it by."""
    fingerprint: str


@operation(
    Effect.WRITE,
    "POST /api/v1/peers/certificates",
    family="other",
    admin=True,
    cli=("peers", "certificate"),
    surfaces=("library", "cli"),
    opens_nothing=True,
    human="holdfast.features.sync.peers.render:render_peer_certificate",
    examples=(Example({"name": "no blanks"}, error="VALIDATION_FAILED"),),
)
def peer_certificate(hold: Hold, request: PeerCertificate) -> CertificateMade:
    """Make a certificate for a store, to serve with and to be known by.

    The first one in a folder makes its signer, too. Keys are readable by their owner alone and have no password.
    """
    from pathlib import Path

    made = certificates.make(hold, Path(request.folder), request.name, request.host or [])
    return CertificateMade(
        certificate=str(made.certificate), key=str(made.key), ca=str(made.ca), fingerprint=made.fingerprint
    )

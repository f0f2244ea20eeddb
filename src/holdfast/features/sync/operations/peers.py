"""Peers: stores enrolled by their token for replication."""

from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.sync.peers import certificates
from holdfast.features.sync.peers import service as peers
from holdfast.features.sync.peers.store import Peer
from holdfast.features.sync.peers.token import format_token
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_timestamp

Name = Annotated[
    str, Meta(min_length=1, max_length=64, description="A local name for the peer.", extra={"argument": True})
]
TokenText = Annotated[
    str, Meta(min_length=1, max_length=512, description="The output of `sync peers token` on the other store.")
]
Patterns = list[Annotated[str, Meta(max_length=514)]]
Tell = Annotated[Patterns, Meta(max_length=32, description="Namespaces it may read: team/**, notes/*, ** for all.")]
Take = Annotated[Patterns, Meta(max_length=32, description="Namespaces it may write; '' for none.")]
Url = Annotated[str, Meta(max_length=2048, description="Its server address: https://desk.example:9077.")]
Pin = Annotated[str, Meta(max_length=256, description="SHA-256 of its server certificate, to pin it.")]
ADMIN_DESCRIPTION = "Also accept policies, grants, standards and erasure requests from it."
NO_TOKEN = "hfpeer1_nothing"  # noqa: S105 - an example of one that cannot be read


class PeerToken(Struct, frozen=True, kw_only=True):
    token: str
    """One line of text; the other store enrols this one with it. Contains no secret."""
    node: str
    public_key: str


class PeerView(Struct, frozen=True, kw_only=True):
    name: str
    node: str
    public_key: str
    tell: list[str]
    take: list[str]
    admin: bool
    enrolled_at: TimeText
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
        enrolled_at=format_timestamp(peer.enrolled_at),
        url=value_or_unset(peer.url),
        fingerprint=value_or_unset(peer.fingerprint),
    )


@operation(
    Effect.READ,
    "GET /api/v1/peers/token",
    makes_store=True,
    cli=("sync", "peers", "token"),
    aliases=("peers token",),
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer_token",
    examples=(Example({}),),
)
def peer_token(ctx: Context, request: EmptyRequest) -> PeerToken:
    """Print the token with which another store enrols this one."""
    token = peers.get_own_token(ctx)
    return PeerToken(token=format_token(token), node=token.node, public_key=token.public_key.hex())


class PeerAdd(Request, frozen=True):
    name: Name
    token: Annotated[TokenText, Meta(extra={"argument": True})]
    url: Url | None = None
    tell: Tell | None = None
    take: Take | None = None
    admin: Annotated[bool, Meta(description=ADMIN_DESCRIPTION)] = False
    fingerprint: Pin | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/peers",
    cli=("sync", "peers", "add"),
    aliases=("peers add",),
    status=201,
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer",
    examples=(
        Example({"name": "desk", "token": NO_TOKEN}, error="VALIDATION_FAILED"),
        Example({"name": "no blanks", "token": NO_TOKEN}, error="VALIDATION_FAILED"),
        Example({"name": "desk"}, error="VALIDATION_FAILED"),
        Example(
            {
                "name": "desk",
                "token": "TOKEN",
                "url": "https://desk.example:9077",
                "tell": ["shop/**"],
                "take": ["shop/**"],
            },
            prepared=True,
        ),
        Example({"name": "desk", "token": "TOKEN", "tell": ["**"], "take": [""]}, prepared=True),
    ),
)
def peer_add(ctx: Context, request: PeerAdd) -> PeerView:
    """Enrol another store as a peer, limited to the given namespaces.

    Without patterns it may read and write every namespace. Policies, grants, standards and erasure requests need
    `admin`.
    """
    return peer_view(
        peers.add_peer(
            ctx,
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
    cli=("sync", "peers"),
    aliases=("peers list", "sync peers list"),
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peers",
    examples=(Example({}),),
)
def peer_list(ctx: Context, request: EmptyRequest) -> PeerPage:
    """List enrolled peers and the namespaces each may read and write."""
    views = [peer_view(peer) for peer in peers.list_peers(ctx)]
    return PeerPage(peers=views, count=len(views))


class PeerSet(Request, frozen=True):
    name: Name
    url: Url | None = None
    tell: Tell | None = None
    take: Take | None = None
    admin: Annotated[bool, Meta(description=ADMIN_DESCRIPTION)] | None = None
    fingerprint: Pin | None = None
    token: TokenText | None = None


@operation(
    Effect.WRITE,
    "PATCH /api/v1/peers/{name}",
    cli=("sync", "peers", "set"),
    aliases=("peers set",),
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer",
    examples=(
        Example({"name": "nobody", "tell": ["team/**"]}, error="NOT_FOUND"),
        Example({"name": "laptop", "tell": ["shop/**"]}, prepared=True),
    ),
)
def peer_set(ctx: Context, request: PeerSet) -> PeerView:
    """Change the settings of a peer; omitted fields keep their values.

    A token is needed only if the peer has a new key. Records that enter its namespaces are sent to it; records that
    leave them stay there unchanged.
    """
    return peer_view(
        peers.change_peer(
            ctx,
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
    cli=("sync", "peers", "remove"),
    aliases=("peers remove",),
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.peers.render:render_peer_removal",
    examples=(Example({"name": "nobody"}, error="NOT_FOUND"), Example({"name": "laptop"}, prepared=True)),
)
def peer_remove(ctx: Context, request: PeerRemove) -> PeerView:
    """Remove a peer immediately; data it sent before stays."""
    return peer_view(peers.remove_peer(ctx, request.name))


class PeerCertificate(Request, frozen=True):
    name: Name
    host: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=253)]],
            Meta(max_length=32, description="Host names and addresses of the server [default: its name]."),
        ]
        | None
    ) = None
    folder: Annotated[
        str, Meta(min_length=1, max_length=4096, description="Directory for the files and the signing CA.")
    ] = "certificates"


class CertificateResult(Struct, frozen=True, kw_only=True):
    certificate: str
    key: str
    ca: str
    """The CA certificate that signed it; peers verify with it."""
    fingerprint: str


@operation(
    Effect.WRITE,
    "POST /api/v1/peers/certificates",
    cli=("sync", "peers", "certificate"),
    aliases=("peers certificate",),
    admin=True,
    surfaces=("library", "cli"),
    opens_nothing=True,
    human="holdfast.features.sync.peers.render:render_peer_certificate",
    examples=(
        Example({"name": "no blanks"}, error="VALIDATION_FAILED"),
        Example({"name": "desk"}, prepared=True),
        Example({"name": "desk", "host": ["desk.example", "192.0.2.7"]}, prepared=True),
    ),
)
def peer_certificate(ctx: Context, request: PeerCertificate) -> CertificateResult:
    """Create a server and client certificate for a store.

    The first one in a folder also creates its signing CA. Key files are readable by their owner only and have no
    password.
    """
    files = certificates.make_certificate(ctx, Path(request.folder), request.name, request.host or [])
    return CertificateResult(
        certificate=str(files.certificate), key=str(files.key), ca=str(files.ca), fingerprint=files.fingerprint
    )

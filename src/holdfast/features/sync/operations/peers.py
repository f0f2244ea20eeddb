"""Peers: stores enrolled by their token for replication."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.sync.peers import certificates
from holdfast.features.sync.peers import service as peers
from holdfast.features.sync.peers.certificates import CertificateResult
from holdfast.features.sync.peers.store import Peer
from holdfast.features.sync.peers.token import PeerToken
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation

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


class PeerPage(Struct, frozen=True, kw_only=True):
    peers: list[Peer]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/peers/token",
    makes_store=True,
    cli=("sync", "peers", "token"),
    aliases=("peers token",),
    admin=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.render:render_peer_token",
    examples=(Example({}),),
)
def peer_token(ctx: Context, request: EmptyRequest) -> PeerToken:
    """Print the token with which another store enrols this one."""
    return peers.get_own_token(ctx)


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
    human="holdfast.features.sync.render:render_peer",
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
def peer_add(ctx: Context, request: PeerAdd) -> Peer:
    """Enrol another store as a peer, limited to the given namespaces.

    Without patterns it may read and write every namespace. Policies, grants, standards and erasure requests need
    `admin`.
    """
    return peers.add_peer(
        ctx,
        request.name,
        request.token,
        url=request.url,
        tell=request.tell,
        take=request.take,
        admin=request.admin,
        pinned=request.fingerprint,
    )


@operation(
    Effect.READ,
    "GET /api/v1/peers",
    cli=("sync", "peers"),
    aliases=("peers list", "sync peers list"),
    admin=True,
    surfaces=("library", "cli", "http"),
    columns=("name", "tell", "take", "admin", "url", "node"),
    empty="No peers. Add one with `holdfast sync peers add NAME TOKEN`.",
    examples=(Example({}),),
)
def peer_list(ctx: Context, request: EmptyRequest) -> PeerPage:
    """List enrolled peers and the namespaces each may read and write."""
    enrolled = peers.list_peers(ctx)
    return PeerPage(peers=enrolled, count=len(enrolled))


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
    human="holdfast.features.sync.render:render_peer",
    examples=(
        Example({"name": "nobody", "tell": ["team/**"]}, error="NOT_FOUND"),
        Example({"name": "laptop", "tell": ["shop/**"]}, prepared=True),
    ),
)
def peer_set(ctx: Context, request: PeerSet) -> Peer:
    """Change the settings of a peer; omitted fields keep their values.

    A token is needed only if the peer has a new key. Records that enter its namespaces are sent to it; records that
    leave them stay there unchanged.
    """
    return peers.change_peer(
        ctx,
        request.name,
        token=request.token,
        url=request.url,
        tell=request.tell,
        take=request.take,
        admin=request.admin,
        pinned=request.fingerprint,
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
    human="holdfast.features.sync.render:render_peer_removal",
    examples=(Example({"name": "nobody"}, error="NOT_FOUND"), Example({"name": "laptop"}, prepared=True)),
)
def peer_remove(ctx: Context, request: PeerRemove) -> Peer:
    """Remove a peer immediately; data it sent before stays."""
    return peers.remove_peer(ctx, request.name)


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


@operation(
    Effect.WRITE,
    "POST /api/v1/peers/certificates",
    cli=("sync", "peers", "certificate"),
    aliases=("peers certificate",),
    admin=True,
    surfaces=("library", "cli"),
    opens_nothing=True,
    human="holdfast.features.sync.render:render_peer_certificate",
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
    return certificates.make_certificate(ctx, Path(request.folder), request.name, request.host or [])

"""Sync with another store, and the status of all peers."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.admin.backup import must_reach_all
from holdfast.features.memories.views import known
from holdfast.features.sync import conflicts as settling
from holdfast.features.sync import read_changes as exchange
from holdfast.features.sync import service as syncing
from holdfast.features.sync import status
from holdfast.features.sync.exchange import Synced
from holdfast.features.sync.receive_changes import Taken
from holdfast.features.sync.status import Standing
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.registry.operation import Effect, Example, Nothing, Request, operation
from holdfast.kernel.timestamps import to_text

MOST_TOLD = 100
"""Rejected changes listed in a response; all of them are in quarantine."""


class Sync(Request, frozen=True):
    remote: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="The other store: a path, postgresql://USER:PASSWORD@HOST/DATABASE, or https://HOST:PORT.",
            extra={"argument": True},
        ),
    ]
    direction: Annotated[
        Literal["pull", "push", "merge"],
        Meta(description="pull: get missing changes; push: send them; merge: both.", extra={"short": "d"}),
    ] = "merge"
    trust_source: Annotated[bool, Meta(description="Keep the owners of pulled memories; otherwise you own them.")] = (
        False
    )
    dry_run: Annotated[bool, Meta(description="Report what would change; change nothing.")] = False


class Planned(Struct, frozen=True, kw_only=True):
    """What a sync would do to memories and links in one direction."""

    new: int
    update: int
    noop: int
    links: int


class NotTaken(Struct, frozen=True, kw_only=True):
    """A change that one of the stores rejected."""

    by: Literal["here", "there"]
    kind: str
    record: str
    origin: str
    number: int
    reason: str
    detail: str


class SyncDone(Struct, frozen=True, kw_only=True):
    direction: str
    deletes: int
    """Memories deleted on either side by this sync, or that arrived deleted."""
    links: int
    conflicts: int
    rejected: int
    errors: list[NotTaken]
    forked: list[str]
    """Forked origins of third stores: the two stores have different changes with the same numbers, because a database
    file was copied. The store that owns the origin repairs it when it syncs."""
    given_again: int | UnsetType = UNSET
    """Changes that a restored store reissued under a new incarnation."""
    dry_run: bool | UnsetType = UNSET
    imported: int | UnsetType = UNSET
    exported: int | UnsetType = UNSET
    pulled: int | UnsetType = UNSET
    pushed: int | UnsetType = UNSET
    pull: Planned | UnsetType = UNSET
    push: Planned | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/sync",
    family="other",
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.sync.render:render_sync",
    examples=(
        Example({"remote": "no/such/memory.db"}, error="STORE_NOT_FOUND"),
        Example({"remote": "x.db", "direction": "sideways"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
    ),
)
def sync(hold: Hold, request: Sync, progress: Progress) -> SyncDone:
    """Exchange missing changes with another store.

    Concurrent edits keep both values: the newer is shown, the other becomes a conflict. If interrupted, run it again
    to continue.
    """
    done = syncing.sync_with(
        hold, request.remote, request.direction, dry_run=request.dry_run, trust_source=request.trust_source
    )
    sides = (done.pulled, done.pushed)
    errors = [not_taken("here", done.pulled), not_taken("there", done.pushed)]
    return SyncDone(
        direction=request.direction,
        deletes=sum(len(side.deleted) for side in sides),
        links=sum(len(side.links) for side in sides),
        conflicts=done.conflicts,
        rejected=sum(len(side.rejected) for side in sides),
        errors=[one for many in errors for one in many][:MOST_TOLD],
        forked=sorted(done.forked),
        given_again=sum(one.again for one in done.mended) if done.mended else UNSET,
        **(_planned(request.direction, done) if request.dry_run else _counted(request.direction, done)),
    )


def not_taken(by: Literal["here", "there"], taken: "Taken") -> list[NotTaken]:
    return [
        NotTaken(
            by=by,
            kind=one.change.kind,
            record=one.change.record,
            origin=one.change.origin,
            number=one.change.n,
            reason=one.reason,
            detail=one.detail,
        )
        for one in taken.rejected[:MOST_TOLD]
    ]


def _counted(direction: str, done: "Synced") -> dict[str, Any]:
    match direction:
        case "pull":
            return {"imported": done.pulled.memories}
        case "push":
            return {"exported": done.pushed.memories}
        case _:
            return {"pulled": done.pulled.memories, "pushed": done.pushed.memories}


def _planned(direction: str, done: "Synced") -> dict[str, Any]:
    plans = {"pull": done.pulled, "push": done.pushed}
    asked = plans if direction == "merge" else {direction: plans[direction]}
    return {"dry_run": True} | {
        name: Planned(
            new=len(taken.new),
            update=taken.memories - len(taken.new),
            noop=len(taken.same - taken.updated - taken.new),
            links=len(taken.links),
        )
        for name, taken in asked.items()
    }


class Digest(Struct, frozen=True, kw_only=True):
    node: str
    origin: str
    seq: int
    digest: str
    """Equal on two stores if and only if all replicated data is equal."""
    vector: dict[str, int]
    quarantined: int
    conflicts: int


@operation(
    Effect.READ, "GET /api/v1/sync/digest", family="other", admin=True, cli=("sync-digest",), examples=(Example({}),)
)
def sync_digest(hold: Hold, request: Nothing) -> Digest:
    """Print the digest of this store, to compare it with another."""
    must_reach_all(hold)
    with hold.reading() as session:
        greeting = exchange.greet(session, hold.now())
        return Digest(
            node=greeting.node,
            origin=greeting.origin,
            seq=greeting.seq,
            digest=exchange.digest(session),
            vector={origin: reached.n for origin, reached in greeting.vector.items()},
            quarantined=len(session.rows("quarantine_list")),
            conflicts=settling.browse(hold, session, limit=1, skip=0)[1],
        )


class PeerStanding(Struct, frozen=True, kw_only=True):
    """Replication state of one peer, as far as known."""

    peer: str
    """Its name as a peer, else its address, else its node."""
    state: Literal["ok", "failing", "unheard"]
    url: str | UnsetType = UNSET
    node: str | UnsetType = UNSET
    release: str | UnsetType = UNSET
    unknown_there: list[str] | UnsetType = UNSET
    """Record kinds here that its release does not know; it quarantines them until it is upgraded."""
    behind_here: int | UnsetType = UNSET
    """Changes on the peer not yet pulled, as of the last contact."""
    behind_there: int | UnsetType = UNSET
    """Changes here that the peer has not pulled, as of the last contact."""
    last_heard: str | UnsetType = UNSET
    last_success: str | UnsetType = UNSET
    last_failure: str | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    """Why the last exchange failed; absent after a success."""
    failures: int
    """Consecutive failures."""
    pulled: int
    pushed: int
    conflicts: int
    """All conflicts met in exchanges with it, resolved ones included. Open conflicts are counted for the whole store
    only."""
    quarantined: int
    clock_ahead_secs: float | UnsetType = UNSET
    """How far its clock is ahead of the local one, if more than two minutes."""


class SyncStatus(Struct, frozen=True, kw_only=True):
    node: str
    seq: int
    peers: list[PeerStanding]
    conflicts: int
    """Open conflicts of the whole store."""
    quarantined: int
    pending_replication: int
    """Changes of this store with too few acknowledgements, under quorum writes."""
    pending_since: str | UnsetType = UNSET


@operation(
    Effect.READ,
    "GET /api/v1/sync/status",
    family="other",
    admin=True,
    human="holdfast.features.sync.render:render_sync_status",
    examples=(Example({}),),
)
def sync_status(hold: Hold, request: Nothing) -> SyncStatus:
    """Show how far this store and its peers lag, and the last exchanges."""
    must_reach_all(hold)
    found = status.overview(hold)
    return SyncStatus(
        node=found.node,
        seq=found.seq,
        peers=[_peer_standing(one) for one in found.peers],
        conflicts=found.conflicts,
        quarantined=found.quarantined,
        pending_replication=found.pending,
        pending_since=_moment(found.pending_since),
    )


WORTH_TELLING = 120 * 10**6
"""Microseconds of clock difference from which it is reported."""


def _peer_standing(one: "Standing") -> PeerStanding:
    seen, made = one.seen, one.attempts
    ahead = seen.ahead if seen else 0
    return PeerStanding(
        peer=one.name,
        state=_state(one),
        url=known(one.url),
        node=known(one.node),
        release=seen.release if seen else UNSET,
        unknown_there=list(seen.unknown) if seen and seen.unknown else UNSET,
        behind_here=known(one.behind_here),
        behind_there=known(one.behind_there),
        last_heard=_moment(seen.at if seen else None),
        last_success=_moment(made.succeeded_at if made else None),
        last_failure=_moment(made.failed_at if made else None),
        last_error=known(made.error) if made else UNSET,
        failures=made.failures if made else 0,
        pulled=made.pulled if made else 0,
        pushed=made.pushed if made else 0,
        conflicts=made.conflicts if made else 0,
        quarantined=one.quarantined,
        clock_ahead_secs=round(ahead / 10**6, 1) if abs(ahead) > WORTH_TELLING else UNSET,
    )


def _state(one: "Standing") -> Literal["ok", "failing", "unheard"]:
    if one.attempts is not None and one.attempts.error is not None:
        return "failing"
    return "ok" if one.seen is not None else "unheard"


def _moment(at: int | None) -> str | UnsetType:
    return UNSET if at is None else to_text(at)

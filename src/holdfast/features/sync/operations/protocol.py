"""What one store asks another, as docs/protocol.md says it."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.sync import server as hosting
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

MOST_BYTES = 32 * 1024 * 1024


class Message(Request, frozen=True):
    message: Annotated[
        dict[str, Any], Meta(description="What the other store says, in the form that the protocol gives it.")
    ]


NOTHING_SAID = Example({"message": {}}, error="VALIDATION_FAILED")
STRANGER = {"node": "elsewhere", "origin": "elsewhere.1", "seq": 0, "now": 0, "vector": {}, "authors": {}}


class PeerHello(Struct, frozen=True, kw_only=True):
    protocol: int
    release: str
    kinds: list[str]
    greeting: Any
    followed: int
    """Up to where the asker's journal was taken here."""
    doubted: list[str]
    """Names of which there are other changes here than the asker has."""


@operation(
    Effect.WRITE,
    "POST /api/v1/peer/hello",
    family="other",
    surfaces=("library", "http"),
    whole="message",
    most_bytes=MOST_BYTES,
    examples=(Example({"message": {"greeting": STRANGER, "kinds": ["memory"]}}), NOTHING_SAID),
)
def peer_hello(hold: Hold, request: Message) -> PeerHello:
    """Tell another store who this one is, what it has, and how far it has followed the other."""
    return PeerHello(**asdict(hosting.hello(hold, request.message)))


class PeerFeed(Struct, frozen=True, kw_only=True):
    protocol: int
    origin: str
    seq: int
    authors: dict[str, str]
    changes: list[Any]
    upto: int
    more: bool
    files: dict[str, bytes]
    states: list[Any]
    """Records whole, whose changes are folded here."""
    bases: dict[str, Any]
    """Up to which number the changes of some origins are in what was told up to here."""


@operation(
    Effect.READ,
    "POST /api/v1/peer/feed",
    family="other",
    surfaces=("library", "http"),
    whole="message",
    most_bytes=MOST_BYTES,
    examples=(Example({"message": {"after": 0, "known": {}, "limit": 10}}), NOTHING_SAID),
)
def peer_feed(hold: Hold, request: Message) -> PeerFeed:
    """Tell another store what it misses of this one."""
    return PeerFeed(**asdict(hosting.feed(hold, request.message)))


class PeerTaken(Struct, frozen=True, kw_only=True):
    protocol: int
    followed: int
    outcomes: list[str]
    """What became of each change, in their order: new, updated, noop, conflict, known or rejected."""
    others: list[Any]
    """The rejected ones with their reasons, and what had waited for this page."""
    entered: tuple[int, int] | None
    """The first and the last place in the journal here that the page took, if it took any."""
    conflicts: list[str] | None
    """Which stand that did not before."""
    settled: list[str]
    """Which stood before, and do not any more."""
    deleted: list[str] | None
    """Memories that are deleted now and were not before, or were not here."""
    restored: list[str]
    """Memories that were deleted before, and are not any more."""


@operation(
    Effect.WRITE,
    "POST /api/v1/peer/take",
    family="other",
    surfaces=("library", "http"),
    whole="message",
    most_bytes=MOST_BYTES,
    examples=(Example({"message": {"sender": STRANGER, "changes": [], "upto": 0}}), NOTHING_SAID),
)
def peer_take(hold: Hold, request: Message) -> PeerTaken:
    """Take what another store tells, in one transaction, with an outcome for each change."""
    return PeerTaken(**asdict(hosting.take(hold, request.message)))

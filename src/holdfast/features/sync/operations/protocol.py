"""Server side of the sync protocol; see docs/protocol.md."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.sync import server as sync_server
from holdfast.kernel.context import Context
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

MAX_MESSAGE_BYTES = 32 * 1024 * 1024


class Message(Request, frozen=True):
    message: Annotated[dict[str, Any], Meta(description="The request message, as the sync protocol defines it.")]


EMPTY_MESSAGE = Example({"message": {}}, error="VALIDATION_FAILED")
STRANGER = {"node": "elsewhere", "origin": "elsewhere.1", "seq": 0, "now": 0, "vector": {}, "authors": {}}


class PeerHello(Struct, frozen=True, kw_only=True):
    protocol: int
    release: str
    kinds: list[str]
    greeting: Any
    followed: int
    """The cursor here in the journal of the sender."""
    doubted: list[str]
    """Forked origins: their changes here differ from those of the sender."""


@operation(
    Effect.WRITE,
    "POST /api/v1/peer/hello",
    surfaces=("library", "http"),
    whole="message",
    most_bytes=MAX_MESSAGE_BYTES,
    examples=(Example({"message": {"greeting": STRANGER, "kinds": ["memory"]}}), EMPTY_MESSAGE),
)
def peer_hello(ctx: Context, request: Message) -> PeerHello:
    """Exchange identities, version vectors and cursors with another store."""
    return PeerHello(**asdict(sync_server.answer_hello(ctx, request.message)))


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
    """Full records whose changes are compacted here."""
    bases: dict[str, Any]
    """Per origin, the number up to which the feed contains all changes so far."""


@operation(
    Effect.READ,
    "POST /api/v1/peer/feed",
    surfaces=("library", "http"),
    whole="message",
    most_bytes=MAX_MESSAGE_BYTES,
    examples=(Example({"message": {"after": 0, "known": {}, "limit": 10}}), EMPTY_MESSAGE),
)
def peer_feed(ctx: Context, request: Message) -> PeerFeed:
    """Return the changes that another store is missing."""
    return PeerFeed(**asdict(sync_server.answer_feed(ctx, request.message)))


class PeerTakeResult(Struct, frozen=True, kw_only=True):
    protocol: int
    followed: int
    outcomes: list[str]
    """The outcome of each change, in order: new, updated, noop, conflict, known or rejected."""
    others: list[Any]
    """Rejected changes with their reasons, and earlier changes that waited for this page."""
    entered: tuple[int, int] | None
    """The first and last journal entry written here for the page, if any."""
    conflicts: list[str] | None
    """New conflicts."""
    settled: list[str]
    """Conflicts that are resolved now."""
    deleted: list[str] | None
    """Memories deleted by the page, or that arrived deleted."""
    restored: list[str]
    """Memories that were deleted and are live again."""


@operation(
    Effect.WRITE,
    "POST /api/v1/peer/take",
    surfaces=("library", "http"),
    whole="message",
    most_bytes=MAX_MESSAGE_BYTES,
    examples=(Example({"message": {"sender": STRANGER, "changes": [], "upto": 0}}), EMPTY_MESSAGE),
)
def peer_take(ctx: Context, request: Message) -> PeerTakeResult:
    """Apply a page of changes in one transaction, with an outcome for each."""
    return PeerTakeResult(**asdict(sync_server.answer_take(ctx, request.message)))

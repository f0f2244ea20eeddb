"""Server side of the sync protocol: answer hello, feed and take requests."""

from contextlib import nullcontext
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.features.sync import status
from holdfast.features.sync import wire as messages
from holdfast.features.sync.endpoint import StoreEnd
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.read_changes import Greeting
from holdfast.features.sync.receive_changes import must_be_another
from holdfast.features.sync.wire import Feed, FeedAnswer, Hello, HelloAnswer, Noted, Take, TakeAnswer
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden, Invalid
from holdfast.kernel.records.change import node_of

M = TypeVar("M", Hello, Feed, Take)
MOST_LIMIT = 10_000


def hello(hold: Hold, message: dict[str, Any]) -> HelloAnswer:
    """Return the handshake of this store and its cursor for the sender."""
    said = _read(message, Hello)
    protocol = messages.must_speak(said.protocol, "The requesting store")
    hold.signing_key()  # a copy without its key gets a new replica id first
    end = _end(hold, said.greeting)
    greeting, asker = end.greet(), said.greeting
    if asker.origin != greeting.origin:
        reached = said.reached.get(greeting.origin, 0)
        status.heard(hold, asker, reached, release=said.release, kinds=said.kinds)
    return HelloAnswer(
        protocol=protocol,
        greeting=replace(greeting, authors={}),
        kinds=messages.kinds(),
        followed=end.followed(asker),
        doubted=sorted(end.doubts(asker)),
    )


def feed(hold: Hold, message: dict[str, Any]) -> FeedAnswer:
    """Return a page of changes that the sender is missing."""
    asked = _read(message, Feed)
    protocol = messages.must_speak(asked.protocol, "The requesting store")
    if asked.after < 0 or not 0 < asked.limit <= MOST_LIMIT:
        raise Invalid(f"after must be at least 0, limit 1 to {MOST_LIMIT:,}", fields=["after", "limit"])
    end = _end(hold)
    page = end.tell(asked.after, asked.known, asked.limit)
    greeting = messages.introduced(end.greet(), page.changes)
    return FeedAnswer(
        protocol=protocol,
        origin=greeting.origin,
        seq=greeting.seq,
        authors=greeting.authors,
        changes=page.changes,
        upto=page.upto,
        more=page.more,
        files=page.files,
        states=page.states,
        bases=page.bases,
    )


def take(hold: Hold, message: dict[str, Any]) -> TakeAnswer:
    """Apply a page, durable when this returns (unless a dry run), and return the outcome of each change."""
    told = _read(message, Take)
    protocol = messages.must_speak(told.protocol, "The requesting store")
    own, noted, page = _end(hold, told.sender), Noted(), told.page()
    must_be_another(own.greet(), told.sender)
    if not 0 <= told.upto <= told.sender.seq:
        raise Invalid("upto: must be within the sender's journal", fields=["upto"])
    with own.rehearsing() if told.dry_run else nullcontext(own) as end:
        end.take(page, told.sender, noted)
        return messages.answered(page, noted, end.followed(told.sender), protocol, own.entered)


def _read(message: dict[str, Any], form: type[M]) -> M:
    try:
        return messages.read(message, form)
    except msgspec.ValidationError as error:
        raise Invalid(f"The message is malformed: {error}") from None


def _end(hold: Hold, sender: Greeting | None = None) -> StoreEnd:
    """Return the local endpoint limited to what the caller may read and write; a peer may only act as itself."""
    caller = hold.caller
    if caller.peer is not None:
        with hold.reading() as session:
            peer = peers.by_name(session, caller.peer)
        if peer is None or (sender and {sender.node, node_of(sender.origin)} != {peer.node}):
            raise Forbidden("A peer may only exchange under its own identity.")
        return StoreEnd(hold, scope=peer.scope)
    if not caller.may("admin") or "*" not in caller.namespaces:
        raise Forbidden("Sync needs an enrolled peer or an admin key for all namespaces.")
    return StoreEnd(hold)

"""What a store answers to another that asks it over a network."""

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
    """Who this store is, what it has, and how far it has followed the one that asks."""
    said = _read(message, Hello)
    protocol = messages.must_speak(said.protocol, "The store that asks")
    hold.signing_key()  # under the name it tells by: a copy without a key gets a new one
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
    """What is behind a place in the journal here, and not known there."""
    asked = _read(message, Feed)
    protocol = messages.must_speak(asked.protocol, "The store that asks")
    if asked.after < 0 or not 0 < asked.limit <= MOST_LIMIT:
        raise Invalid(f"after: from 0 on; limit: 1 to {MOST_LIMIT:,}", fields=["after", "limit"])
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
    """What became of each change of a page: durable when this is answered, unless it was a rehearsal."""
    told = _read(message, Take)
    protocol = messages.must_speak(told.protocol, "The store that asks")
    own, noted, page = _end(hold, told.sender), Noted(), told.page()
    must_be_another(own.greet(), told.sender)
    if not 0 <= told.upto <= told.sender.seq:
        raise Invalid("upto: a place in the sender's journal", fields=["upto"])
    with own.rehearsing() if told.dry_run else nullcontext(own) as end:
        end.take(page, told.sender, noted)
        return messages.answered(page, noted, end.followed(told.sender), protocol, own.entered)


def _read(message: dict[str, Any], form: type[M]) -> M:
    try:
        return messages.read(message, form)
    except msgspec.ValidationError as error:
        raise Invalid(f"The message cannot be read: {error}") from None


def _end(hold: Hold, sender: Greeting | None = None) -> StoreEnd:
    """This store, as far as whoever asks may see and change it; a peer speaks for itself alone."""
    caller = hold.caller
    if caller.peer is not None:
        with hold.reading() as session:
            peer = peers.by_name(session, caller.peer)
        if peer is None or (sender and {sender.node, node_of(sender.origin)} != {peer.node}):
            raise Forbidden("A store exchanges under its own name alone.")
        return StoreEnd(hold, scope=peer.scope)
    if not caller.may("admin") or "*" not in caller.namespaces:
        raise Forbidden("Only an enrolled store, or a key with every right, may exchange with this one.")
    return StoreEnd(hold)

"""Server side of the sync protocol: answer hello, feed and take requests."""

from contextlib import nullcontext
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.features.sync import status, wire
from holdfast.features.sync.apply_changes import require_different_stores
from holdfast.features.sync.exchange import LocalEndpoint
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.read_changes import Handshake
from holdfast.features.sync.wire import (
    FeedAnswer,
    FeedRequest,
    HelloAnswer,
    HelloRequest,
    NamedSyncResult,
    TakeAnswer,
    TakeRequest,
)
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Forbidden, Invalid
from holdfast.kernel.records.change import node_of

M = TypeVar("M", HelloRequest, FeedRequest, TakeRequest)
MAX_LIMIT = 10_000


def answer_hello(ctx: Context, message: dict[str, Any]) -> HelloAnswer:
    """Return the handshake of this store and its cursor for the sender."""
    request = _decode_message(message, HelloRequest)
    protocol = wire.agree_on_protocol(request.protocol, "The requesting store")
    ctx.signing_key()  # a copy without its key gets a new replica id first
    end = _open_endpoint(ctx, request.greeting)
    greeting, asker = end.read_handshake(), request.greeting
    if asker.origin != greeting.origin:
        reached = request.reached.get(greeting.origin, 0)
        status.record_peer(ctx, asker, reached, release=request.release, kinds=request.kinds)
    return HelloAnswer(
        protocol=protocol,
        greeting=replace(greeting, authors={}),
        kinds=wire.list_kinds(),
        followed=end.get_cursor(asker),
        doubted=sorted(end.find_forked_origins(asker)),
    )


def answer_feed(ctx: Context, message: dict[str, Any]) -> FeedAnswer:
    """Return a page of changes that the sender is missing."""
    request = _decode_message(message, FeedRequest)
    protocol = wire.agree_on_protocol(request.protocol, "The requesting store")
    if request.after < 0 or not 0 < request.limit <= MAX_LIMIT:
        raise Invalid(f"after must be at least 0, limit 1 to {MAX_LIMIT:,}", fields=["after", "limit"])
    end = _open_endpoint(ctx)
    page = end.read_changes(request.after, request.known, request.limit)
    greeting = wire.trim_handshake(end.read_handshake(), page.changes)
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


def answer_take(ctx: Context, message: dict[str, Any]) -> TakeAnswer:
    """Apply a page, durable when this returns (unless a dry run), and return the outcome of each change."""
    request = _decode_message(message, TakeRequest)
    protocol = wire.agree_on_protocol(request.protocol, "The requesting store")
    own, noted, page = _open_endpoint(ctx, request.sender), NamedSyncResult(), request.page()
    require_different_stores(own.read_handshake(), request.sender)
    if not 0 <= request.upto <= request.sender.seq:
        raise Invalid("upto: must be within the sender's journal", fields=["upto"])
    with own.open_dry_run() if request.dry_run else nullcontext(own) as end:
        end.apply_changes(page, request.sender, noted)
        return wire.build_take_answer(page, noted, end.get_cursor(request.sender), protocol, own.last_positions)


def _decode_message(message: dict[str, Any], form: type[M]) -> M:
    try:
        return wire.decode_message(message, form)
    except msgspec.ValidationError as error:
        raise Invalid(f"The message is malformed: {error}") from None


def _open_endpoint(ctx: Context, sender: Handshake | None = None) -> LocalEndpoint:
    """Return the local endpoint limited to what the caller may read and write; a peer may only act as itself."""
    caller = ctx.caller
    if caller.peer is not None:
        with ctx.reading() as session:
            peer = peers.find_by_name(session, caller.peer)
        if peer is None or (sender and {sender.node, node_of(sender.origin)} != {peer.node}):
            raise Forbidden("A peer may only exchange under its own identity.")
        return LocalEndpoint(ctx, scope=peer.scope)
    if not caller.has_right("admin") or "*" not in caller.namespaces:
        raise Forbidden("Sync needs an enrolled peer or an admin key for all namespaces.")
    return LocalEndpoint(ctx)

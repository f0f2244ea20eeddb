"""A peer that signs and sends arbitrary changes."""

from typing import Any

import msgspec
from msgspec.structs import replace

import holdfast
from holdfast.features.sync import read_changes
from holdfast.features.sync.read_changes import Handshake, Page
from holdfast.features.sync.wire import TakeRequest
from holdfast.kernel.context import Caller
from holdfast.kernel.journal.journal import sign
from holdfast.kernel.records.change import SIGNATURE_VERSION, Change, digest

Json = dict[str, Any]
NAMED = ("origin", "n", "at", "actor", "op", "kind", "record", "about")


def key_of(store: holdfast.Holdfast) -> bytes:
    with store.ctx.reading() as session:
        key = store.ctx.store.signing_key(session)
    assert key is not None
    return key


def page_of(store: holdfast.Holdfast, after: int = 0) -> tuple[Handshake, Page]:
    """Return the handshake of a store and a page of its journal."""
    with store.ctx.reading() as session:
        return read_changes.build_handshake(session, store.ctx.now()), read_changes.read_page(
            session, key_of(store), after, {}, 1000
        )


def wire(change: Change, **altered: Any) -> Json:
    """Return a change as JSON, with altered fields."""
    said: Json = msgspec.to_builtins(change)
    return {**said, **altered}


def sign_change(store: holdfast.Holdfast, said: Json) -> Json:
    """Sign any change with the key of a store."""
    words = said.get("erased") or digest(said.get("body"), said.get("delta"))
    text = msgspec.json.encode([SIGNATURE_VERSION, *(said.get(name) for name in NAMED), words])
    return {**said, "signature": sign(key_of(store), text).hex()}


def send(
    here: holdfast.Holdfast,
    store: holdfast.Holdfast,
    changes: list[Json],
    states: list[Json] | None = None,
    authors: dict[str, str] | None = None,
    files: dict[str, bytes] | None = None,
) -> Any:
    """Send a page from another store, enrolled or not, and return the response."""
    sender, page = page_of(store)
    sender = replace(sender, authors={**sender.authors, **(authors or {})})
    told: Json = msgspec.to_builtins(TakeRequest(sender=sender, changes=[], upto=page.upto, files=files or {}))
    message = {**told, "changes": changes, "states": states or []}
    names = {peer.node: peer.name for peer in here.peer_list().peers}
    more = {"caller": Caller("ai:peer@x", peer=names[sender.node])} if sender.node in names else {}
    return here.call("peer_take", {"message": msgspec.json.decode(msgspec.json.encode(message))}, **more)


def send_all(here: holdfast.Holdfast, store: holdfast.Holdfast, after: int = 0) -> Any:
    """Send all changes of a store after a position, as a peer would."""
    _, page = page_of(store, after)
    return send(here, store, [wire(change) for change in page.changes], files=page.files)

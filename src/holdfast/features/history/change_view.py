"""The public view of a journalled change, and its event name."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.features.history import event
from holdfast.features.memories import store as memories
from holdfast.kernel.context import Context
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import KINDS, LINK, MEMORY, body_of
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import TimeText, format_timestamp


class Change(Struct, frozen=True, kw_only=True):
    """One committed change."""

    seq: int
    op: str
    kind: str
    record: str
    actor: str
    at: TimeText
    """When this store committed it."""
    origin: str
    number: int
    batch: int
    hash: str
    event: str
    """Event name: memory_store, memory_link_created, ..."""
    version: int | UnsetType = UNSET
    memory: dict[str, Any] | UnsetType = UNSET
    """The record after the change. Omitted if it was purged, or if the caller could not see it at that time."""


def build_change(entry: journal.Entry) -> Change:
    body: Any = body_of(KINDS[entry.kind], entry) if entry.body is not None else None
    return Change(
        seq=entry.seq,
        event=find_event_name(entry),
        op=entry.op,
        kind=entry.kind,
        record=entry.record,
        actor=entry.actor,
        at=format_timestamp(entry.recorded_at),
        origin=entry.origin,
        number=entry.n,
        batch=entry.batch,
        hash=entry.hash.hex(),
        version=body.version if body else UNSET,
        memory=_render_record(body) if body else UNSET,
    )


_TIMESTAMP_FIELDS = ("created_at", "updated_at", "expires_at", "valid_from", "valid_until", "occurred_at")


def _render_record(record: Any) -> dict[str, Any]:
    plain = msgspec.to_builtins(record)
    for name in _TIMESTAMP_FIELDS:
        if plain.get(name) is not None:
            plain[name] = format_timestamp(plain[name])
    return {name: value for name, value in plain.items() if value is not None}


def find_event_name(entry: journal.Entry) -> str:
    """Find the event name of a journal entry."""
    state, ended = None, False
    if entry.body is not None and entry.kind == MEMORY.name:
        state = body_of(MEMORY, entry).state
    elif entry.body is not None and entry.kind == LINK.name:
        ended = entry.delta is not None and body_of(LINK, entry).valid_until is not None
    return event.derive_event_name(event.ChangeTraits(entry.kind, entry.op, entry.delta is None, state, ended))


def find_namespace(ctx: Context, session: Session, entry: journal.Entry) -> str | None:
    """Find the namespace of a change: that of its record, or of the memory it is about."""
    if entry.kind == "policy":
        return entry.record
    if entry.body is not None and hasattr(body := body_of(KINDS[entry.kind], entry), "namespace"):
        return str(body.namespace)
    if entry.about is None:
        return None
    found = memories.by_ids(session, ctx.caller, [entry.about], ctx.now(), view="any")
    return found[entry.about].namespace if entry.about in found else None


def matches_filter(ctx: Context, session: Session, entry: journal.Entry, filter: event.EventFilter) -> bool:
    if filter == event.EventFilter():
        return True
    if not (filter.matches_actor(entry.actor) and filter.matches_event(find_event_name(entry))):
        return False
    return filter.namespace is None or filter.matches_namespace(find_namespace(ctx, session, entry))

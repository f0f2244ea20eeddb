"""Import conversations, their messages and their summaries."""

from msgspec.structs import replace

from holdfast.features.conversations import store as conversations
from holdfast.features.conversations.service import IDLE_AFTER
from holdfast.features.conversations.store import CONVERSATIONS, Conversation, Scope
from holdfast.features.importers.model import split_text
from holdfast.integrations.kernex.import_state import ImportState
from holdfast.integrations.kernex.rows import Row
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory


def order_messages(state: ImportState) -> None:
    """Number the messages of every conversation by time, then by row order."""
    spoken: dict[str, list[tuple[str, int, int]]] = {}
    for number, values in state.read_rows("messages"):
        content = (values or {}).get("content")
        if values is not None and isinstance(content, str):
            many = sum(1 for _ in split_text(content)) or 1
            at = str(values.get("timestamp"))
            spoken.setdefault(str(values["conversation_id"]), []).append((at, number, many))
    for conversation, said in spoken.items():
        for _, number, many in sorted(said):
            state.first_places[number] = state.turn_counts[conversation] + 1
            state.turn_counts[conversation] += many


def import_conversation(state: ImportState, write: Transaction, row: Row) -> str | None:
    fresh = _to_conversation(state, row)
    state.conversations[fresh.id] = row
    there = CONVERSATIONS.get(write.session, fresh.id)
    if there is None:
        CONVERSATIONS.put(write.session, _with_state(state, write, row, fresh))
        return fresh.id
    turns, last = max(fresh.turns, there.turns), max(fresh.last_at, there.last_at)
    CONVERSATIONS.put(write.session, replace(there, turns=turns, last_at=last))
    return None


def _to_conversation(state: ImportState, row: Row) -> Conversation:
    return Conversation(
        id=row.label("id"),
        channel=row.label("channel", ""),
        principal=row.sender,
        agent=state.ctx.caller.agent,
        namespace=state.namespace_of(row),
        state="closing",
        started_at=row.timestamp("started_at"),
        last_at=row.optional_timestamp("last_activity") or row.timestamp("updated_at"),
        closed_at=row.timestamp("updated_at"),
        turns=state.turn_counts[row.text("id")],
    )


def _with_state(state: ImportState, write: Transaction, row: Row, fresh: Conversation) -> Conversation:
    """Set the state: active, closed, or closing, which `conversation close-idle` summarises later."""
    summary = row.optional_text("summary")
    if summary is not None and summary.strip():
        stored = _store_summary(state, write, fresh, summary)
        return replace(fresh, state="closed", covered=fresh.turns, summary=stored.id)
    if not fresh.turns:
        return replace(fresh, state="closed")
    scope = Scope(fresh.channel, fresh.principal, fresh.namespace)
    goes_on = row.text("status", "active") == "active" and fresh.last_at > write.now - IDLE_AFTER
    alone = goes_on and not conversations.list_active(write.session, scope)
    return replace(fresh, state="active" if alone else "closing", closed_at=None)


def _store_summary(state: ImportState, write: Transaction, one: Conversation, text: str) -> Memory:
    metadata = {"conversation": one.id, "covered": one.turns, "principal": one.principal, "channel": one.channel}
    title = f"Summary of {one.channel or 'conversation'} {one.id}"
    return state.store_memory(
        write, title, text, one.namespace, kind="summary", metadata={**metadata, "method": "given"}
    )


def import_message(state: ImportState, write: Transaction, row: Row) -> str | None:
    conversation = state.conversations.get(row.text("conversation_id"))
    if conversation is None:
        raise Invalid("conversation_id: the conversation was not imported")
    channel, sender = conversation.text("channel"), conversation.text("sender_id")
    at, role = row.timestamp("timestamp"), row.one_of("role", ("user", "assistant"))
    about = {"principal": sender, "channel": channel, "kernex": row.other_values("conversation_id", "role", "content")}
    pieces = list(split_text(row.text("content")))
    if not pieces:
        raise Invalid("content: must not be empty")
    kept = [
        state.store_memory(
            write,
            f"{channel or 'conversation'} {conversation.text('id')} turn {place}",
            piece.text,
            state.namespace_of(conversation),
            on_conflict="error",
            kind="conversation",
            speaker=role,
            thread=conversation.text("id"),
            place=place,
            occurred_at=at,
            metadata=about,
        )
        for place, piece in enumerate(pieces, state.first_places[row.number])
    ]
    return kept[0].id

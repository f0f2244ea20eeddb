"""Append turns to conversations, summarise and close idle ones, and archive turns that a summary covers."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.conversations import store as conversation_store
from holdfast.features.conversations.model import Conversation, ConversationFilter, Scope
from holdfast.features.conversations.store import CONVERSATIONS
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.store_memory import store_draft
from holdfast.features.memories.update_memory import write_update
from holdfast.features.people import facts
from holdfast.features.people.model import validate_name
from holdfast.features.people.resolve_names import list_names
from holdfast.features.reflections.summarise import MAX_SENTENCES, summarise_memories
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Invalid, NotFound
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.leases import JobLease
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.extract_summary import extract_content_words, extract_summary
from holdfast.kernel.text.idf import word_weights
from holdfast.kernel.timestamps import DAY, SECOND

Role = Literal["user", "assistant", "system", "tool"]
IDLE_AFTER = 120 * 60 * SECOND
"""After this idle time the next turn starts a new conversation."""
SUMMARY_BATCH = 100
"""Turns summarised at a time."""
RECENT_TURNS = 50
"""Last turns of an active conversation that the rolling summary leaves out."""
MAX_UNSUMMARISED = 25
"""Further turns before the rolling summary is updated."""
MAX_ROLLING_TURNS = 300
"""Turns that a rolling summary adds at once."""
MAX_TURN_CHARS = 1000
"""Characters of a turn that a rolling summary reads."""
REAPER = JobLease("reaper", 300 * SECOND, "Another reaper is running. Try again later.")
PRUNE_REASON = "told by the summary of its conversation"
"""Archive reason of a pruned turn."""


class Turn(NamedTuple):
    """One turn of a conversation."""

    role: Role
    content: str
    at: int | None = None
    metadata: dict[str, Any] = {}


class AppendResult(NamedTuple):
    """The stored turns and their conversation."""

    conversation: Conversation
    turns: list[Memory]
    began: bool


class ReapResult(Struct, frozen=True, kw_only=True):
    """Ids of the conversations that a reaper closed and pruned."""

    closed: list[str]
    pruned: list[str]


def append_turns(ctx: Context, scope: Scope, turns: Sequence[Turn]) -> AppendResult:
    """Append turns to the active conversation, or to a new one, in one transaction."""
    if not turns:
        raise Invalid("turns: at least one is required", fields=["turns"])
    validate_name(scope.principal)
    ctx.caller.require_access(scope.namespace)
    rolled = _roll_summary(ctx, scope, turns)
    with ctx.transaction() as write:
        going, began = _find_or_start(ctx, write, scope)
        stored = [_store_turn(ctx, write, going, going.turns + place, turn) for place, turn in enumerate(turns, 1)]
        after = replace(going, turns=going.turns + len(turns), last_at=write.now)
        CONVERSATIONS.put(write.session, after)
        if rolled is not None and rolled.base == (None if began else going):
            after = _save_summary(ctx, write, after, rolled.text, rolled.covered, ROLLING_METHOD)
    return AppendResult(after, stored, began)


class RollingSummary(NamedTuple):
    """A rolling summary of the earlier turns of an active conversation."""

    base: Conversation | None
    """The conversation it was computed from; if that has changed since, the summary is discarded."""
    text: str
    covered: int


ROLLING_METHOD = {"method": "rules", "rolling": True}
"""Metadata of a rolling summary. It uses rules, so storing a turn never waits for a model."""


def _roll_summary(ctx: Context, scope: Scope, coming: Sequence[Turn]) -> RollingSummary | None:
    """Summarise all but the last turns if enough came since the last summary. Runs before the transaction."""
    going = find_current(ctx, scope)
    turns, covered = (0, 0) if going is None else (going.turns, going.covered)
    if turns + len(coming) - covered < RECENT_TURNS + MAX_UNSUMMARISED:
        return None
    summary, unsummarised = (None, []) if going is None else _read_unsummarised(ctx, going, MAX_ROLLING_TURNS)
    placed = [(turn.place or 0, turn.content) for turn in unsummarised]
    if len(unsummarised) < MAX_ROLLING_TURNS:
        placed += enumerate((turn.content for turn in coming), turns + 1)
    covered_turns = [one for one in placed if one[0] <= turns + len(coming) - RECENT_TURNS]
    texts = [text[:MAX_TURN_CHARS] for _, text in covered_turns]
    text = "\n".join(texts if summary is None else [summary.content, *texts])
    with ctx.reading() as session:
        summary_text = extract_summary(text, MAX_SENTENCES, word_weights(session, extract_content_words(text)))
    return RollingSummary(going, summary_text, covered_turns[-1][0]) if covered_turns and summary_text else None


def _read_unsummarised(ctx: Context, one: Conversation, limit: int) -> tuple[Memory | None, list[Memory]]:
    """Return the summary of a conversation and the first turns it does not cover."""
    with ctx.reading() as session:
        turns = conversation_store.list_turns(session, ctx.caller, one, ctx.now(), after=one.covered, limit=limit)
        return _get_summary(ctx, session, one), turns


def _find_or_start(ctx: Context, write: Transaction, scope: Scope) -> tuple[Conversation, bool]:
    """Return the active conversation of a scope, or a new one; mark idle ones as closing for the reaper."""
    found = conversation_store.list_active(write.session, scope)
    for one in found:
        if one.last_at <= write.now - IDLE_AFTER:
            CONVERSATIONS.put(write.session, replace(one, state="closing"))
    fresh = [one for one in found if one.last_at > write.now - IDLE_AFTER]
    if fresh:
        return fresh[0], False
    fresh_one = Conversation(
        id=ctx.new_id(),
        channel=scope.channel,
        principal=scope.principal,
        agent=ctx.caller.agent,
        namespace=scope.namespace,
        state="active",
        started_at=write.now,
        last_at=write.now,
        turns=0,
    )
    return fresh_one, True


def _store_turn(ctx: Context, write: Transaction, conversation: Conversation, place: int, turn: Turn) -> Memory:
    draft = Draft(
        title=f"{conversation.channel or 'conversation'} {conversation.id} turn {place}",
        content=turn.content,
        namespace=conversation.namespace,
        kind="conversation",
        tier="long",
        source=ctx.caller.source,
        speaker=turn.role,
        thread=conversation.id,
        place=place,
        occurred_at=write.now if turn.at is None else turn.at,
        metadata={**turn.metadata, "principal": conversation.principal, "channel": conversation.channel},
    )
    return store_draft(ctx, write, draft, "error", force=True).memory


def find_current(ctx: Context, scope: Scope) -> Conversation | None:
    """Return the active conversation of a scope, or None."""
    with ctx.reading() as session:
        found = conversation_store.list_active(session, scope)
    return next((one for one in found if one.last_at > ctx.now() - IDLE_AFTER), None)


def count_turns_to_read(one: Conversation) -> int:
    """Return how many of the last turns to read so that they and the summary cover the conversation."""
    return max(RECENT_TURNS, min(one.turns - one.covered, RECENT_TURNS + MAX_UNSUMMARISED))


def read_summary(ctx: Context, one: Conversation) -> Memory | None:
    """Return the summary of a conversation, or None if there is none or the caller may not see it."""
    with ctx.reading() as session:
        return _get_summary(ctx, session, one)


def read_last_turns(ctx: Context, one: Conversation, limit: int) -> list[Memory]:
    """Read the last turns of a conversation, oldest first."""
    with ctx.reading() as session:
        return conversation_store.list_last_turns(session, ctx.caller, one, ctx.now(), limit)


def show_conversation(
    ctx: Context, id: str, after: int, limit: int
) -> tuple[Conversation, list[Memory], Memory | None]:
    """Return a conversation, its turns after a given one, and its summary."""
    with ctx.reading() as session:
        one = conversation_store.get_visible(session, ctx.caller, id)
        turns = conversation_store.list_turns(
            session, ctx.caller, one, ctx.now(), after=after, limit=limit, archived=True
        )
        summary = _get_summary(ctx, session, one)
    return one, turns, summary


def _get_summary(ctx: Context, session: Session, one: Conversation) -> Memory | None:
    if one.summary is None:
        return None
    return memories.by_ids(session, ctx.caller, [one.summary], ctx.now()).get(one.summary)


def list_conversations(
    ctx: Context, which: ConversationFilter, limit: int, skip: int
) -> list[tuple[Conversation, Memory | None]]:
    with ctx.reading() as session:
        found = conversation_store.select_conversations(session, ctx.caller, which, limit, skip)
        summaries = memories.by_ids(session, ctx.caller, [one.summary for one in found if one.summary], ctx.now())
    return [(one, summaries.get(one.summary or "")) for one in found]


def close_conversation(ctx: Context, id: str, summary: str | None) -> Conversation:
    """Close a conversation with the given summary or a generated one."""
    with ctx.transaction() as write:
        one = conversation_store.get_visible(write.session, ctx.caller, id)
        if one.state == "closed":
            raise Conflict(f"The conversation {id} is already closed.")
        CONVERSATIONS.put(write.session, replace(one, state="closing"))
        if summary is not None:
            closing = _save_summary(ctx, write, one, summary, one.turns, {"method": "given"})
            return CONVERSATIONS.put(write.session, replace(closing, state="closed", closed_at=write.now))
    return _summarise_and_close(ctx, one)


def _summarise_and_close(ctx: Context, one: Conversation) -> Conversation:
    """Summarise the uncovered turns in batches, then close. Each batch is committed before the next is read."""
    if ctx.model is not None:
        _restart_summary(ctx, one)
    while True:
        with ctx.reading() as session:
            one = CONVERSATIONS.get(session, one.id) or one
            turns = conversation_store.list_turns(
                session, ctx.caller, one, ctx.now(), after=one.covered, limit=SUMMARY_BATCH
            )
        if not turns:
            with ctx.transaction() as write:
                closed = replace(one, state="closed", closed_at=write.now, covered=one.turns)
                return CONVERSATIONS.put(write.session, closed)
        before = [one.summary] if one.summary is not None else []
        text, how = summarise_memories(ctx, [*before, *(turn.id for turn in turns)])
        covered = max(turn.place or 0 for turn in turns)
        with ctx.transaction() as write:
            closing = replace(one, state="closing")
            one = _save_summary(ctx, write, closing, text, covered, {"method": how.method, "model": how.model})


def _restart_summary(ctx: Context, one: Conversation) -> None:
    """Discard the progress of a rolling summary, so that a model summarises from the first turn."""
    with ctx.transaction() as write:
        summary = write.get(MEMORY, one.summary) if one.summary is not None else None
        if summary is not None and summary.metadata.get("rolling"):
            CONVERSATIONS.put(write.session, replace(one, covered=0))


def _save_summary(
    ctx: Context, write: Transaction, one: Conversation, text: str, covered: int, how: dict[str, Any]
) -> Conversation:
    """Store or replace the summary and the number of the last turn it covers."""
    metadata = {"conversation": one.id, "covered": covered, "principal": one.principal, "channel": one.channel}
    metadata |= {name: value for name, value in how.items() if value is not None}
    existing = write.get(MEMORY, one.summary) if one.summary is not None else None
    if existing is not None and existing.state == "live":
        summary = write_update(ctx, write, existing, replace(existing, content=text, metadata=metadata), "summary")
    else:
        draft = Draft(
            title=f"Summary of {one.channel or 'conversation'} {one.id}",
            content=text,
            namespace=one.namespace,
            kind="summary",
            tier="long",
            source=ctx.caller.source,
            metadata=metadata,
        )
        summary = store_draft(ctx, write, draft, "version", force=True).memory
    return CONVERSATIONS.put(write.session, replace(one, covered=covered, summary=summary.id))


def close_idle(ctx: Context, limit: int, prune_days: int | None) -> ReapResult:
    """Close idle conversations with a summary; optionally archive turns that a summary covers.

    Only one reaper runs at a time. Resumes what a crashed reaper began.
    """
    owner = ctx.new_id()
    with REAPER.hold(ctx, owner):
        with ctx.reading() as session:
            idle = conversation_store.list_idle(session, ctx.now() - IDLE_AFTER, limit)
        found = [one for one in idle if ctx.caller.can_access(one.namespace)]
        closed = []
        for number, one in enumerate(found):
            ctx.progress(number, len(found), "closing")
            REAPER.renew(ctx, owner)
            closed.append(_summarise_and_close(ctx, replace(one, state="closing")).id)
        pruned = [] if prune_days is None else _prune_turns(ctx, owner, prune_days, limit)
    return ReapResult(closed=closed, pruned=pruned)


def _prune_turns(ctx: Context, owner: str, days: int, limit: int) -> list[str]:
    """Archive the turns of conversations that were closed some days ago; return the ids of those."""
    with ctx.reading() as session:
        found = conversation_store.list_prunable(session, ctx.now() - days * DAY, limit)
    pruned = []
    for one in found:
        if not ctx.caller.can_access(one.namespace):
            continue
        REAPER.renew(ctx, owner)
        with ctx.transaction() as write:
            for turn in conversation_store.list_turns(
                write.session, ctx.caller, one, write.now, after=0, limit=one.turns + 1
            ):
                archive_memory(write, turn, PRUNE_REASON, "archive")
            CONVERSATIONS.put(write.session, replace(one, pruned=True))
        pruned.append(one.id)
    return pruned


def resolve_id(ctx: Context, id: str | None, scope: Scope) -> str:
    """Return the given id, or that of the active conversation."""
    if id is not None:
        return id
    going = find_current(ctx, scope)
    if going is None:
        raise NotFound("No active conversation there.")
    return going.id


class PrincipalStats(Struct, frozen=True, kw_only=True):
    """Numbers of live records that you may see."""

    principal: str
    conversations: int
    messages: int
    observations: int
    """Observations that they stored themselves."""
    facts: int


def count_principal_records(ctx: Context, name: str) -> PrincipalStats:
    """Count the records of a principal under all its names."""
    with ctx.reading() as session:
        names = list_names(session, validate_name(name))
        return PrincipalStats(
            principal=names[0],
            conversations=conversation_store.count_conversations(session, ctx.caller, names),
            messages=conversation_store.count_turns(session, ctx.caller, names, ctx.now()),
            observations=memories.count_observations(session, ctx.caller, names, ctx.now()),
            facts=len(facts.list_facts(ctx, name)),
        )

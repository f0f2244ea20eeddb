"""Append turns to conversations, summarise and close idle ones, and archive turns that a summary covers."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from holdfast.features.conversations import store as conversations
from holdfast.features.conversations.store import Conversation, Scope, Which
from holdfast.features.curation.summarise import SENTENCES, summarise
from holdfast.features.curation.summary import meant
from holdfast.features.curation.summary import summary as weightiest
from holdfast.features.memories import store as memories
from holdfast.features.memories.lifecycle import put_away
from holdfast.features.memories.store_memory import put
from holdfast.features.memories.update_memory import keep
from holdfast.features.people.principal import admit_name
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Invalid, NotFound
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage import leases
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.idf import rarity
from holdfast.kernel.timestamps import DAY, SECOND

Role = Literal["user", "assistant", "system", "tool"]
IDLE = 120 * 60 * SECOND
"""After this idle time the next turn starts a new conversation."""
CHUNK = 100
"""Turns summarised at a time."""
SHOWN = 50
"""Last turns of an active conversation that the rolling summary leaves out."""
BEHIND = 25
"""Further turns before the rolling summary is updated."""
MOST_ROLLED = 300
"""Turns that a rolling summary adds at once."""
LONGEST_TURN = 1000
"""Characters of a turn that a rolling summary reads."""
REAPER = "reaper"
LEASE = 300 * SECOND
PRUNED = "told by the summary of its conversation"
"""Archive reason of a pruned turn."""


class Turn(NamedTuple):
    """One turn of a conversation."""

    role: Role
    content: str
    at: int | None = None
    metadata: dict[str, Any] = {}


class Said(NamedTuple):
    """The stored turns and their conversation."""

    conversation: Conversation
    turns: list[Memory]
    began: bool


class Reaped(NamedTuple):
    """Conversations that a reaper closed and pruned."""

    closed: list[Conversation]
    pruned: list[Conversation]


def say(hold: Hold, scope: Scope, turns: Sequence[Turn]) -> Said:
    """Append turns to the active conversation, or to a new one, in one transaction."""
    if not turns:
        raise Invalid("turns: at least one is required", fields=["turns"])
    admit_name(scope.principal)
    hold.caller.must_reach(scope.namespace)
    rolled = _rolled(hold, scope, turns)
    with hold.writing() as write:
        going, began = _going_on(hold, write, scope)
        kept = [_keep(hold, write, going, going.turns + place, turn) for place, turn in enumerate(turns, 1)]
        after = going._replace(turns=going.turns + len(turns), last_at=write.now)
        conversations.put(write.session, after)
        if rolled is not None and rolled.before == (None if began else going):
            after = _told(hold, write, after, rolled.text, rolled.covered, ROLLING)
    return Said(after, kept, began)


class Rolled(NamedTuple):
    """A rolling summary of the earlier turns of an active conversation."""

    before: Conversation | None
    """The conversation it was computed from; if that has changed since, the summary is discarded."""
    text: str
    covered: int


ROLLING = {"method": "rules", "rolling": True}
"""Metadata of a rolling summary. It uses rules, so storing a turn never waits for a model."""


def _rolled(hold: Hold, scope: Scope, coming: Sequence[Turn]) -> Rolled | None:
    """Summarise all but the last turns if enough came since the last summary. Runs before the transaction."""
    going = current(hold, scope)
    turns, covered = (0, 0) if going is None else (going.turns, going.covered)
    if turns + len(coming) - covered < SHOWN + BEHIND:
        return None
    known, said = (None, []) if going is None else _untold(hold, going, MOST_ROLLED)
    placed = [(turn.place or 0, turn.content) for turn in said]
    if len(said) < MOST_ROLLED:
        placed += enumerate((turn.content for turn in coming), turns + 1)
    told = [one for one in placed if one[0] <= turns + len(coming) - SHOWN]
    texts = [text[:LONGEST_TURN] for _, text in told]
    text = "\n".join(texts if known is None else [known.content, *texts])
    with hold.reading() as session:
        made = weightiest(text, SENTENCES, rarity(session, meant(text)))
    return Rolled(going, made, told[-1][0]) if told and made else None


def _untold(hold: Hold, one: Conversation, limit: int) -> tuple[Memory | None, list[Memory]]:
    """Return the summary of a conversation and the first turns it does not cover."""
    with hold.reading() as session:
        said = conversations.turns(session, hold.caller, one, hold.now(), after=one.covered, limit=limit)
        return _summary(hold, session, one), said


def _going_on(hold: Hold, write: Transaction, scope: Scope) -> tuple[Conversation, bool]:
    """Return the active conversation of a scope, or a new one; mark idle ones as closing for the reaper."""
    found = conversations.going_on(write.session, scope)
    for one in found:
        if one.last_at <= write.now - IDLE:
            conversations.put(write.session, one._replace(state="closing"))
    fresh = [one for one in found if one.last_at > write.now - IDLE]
    if fresh:
        return fresh[0], False
    id = hold.new_id()
    return Conversation(id, *scope[:2], hold.caller.agent, scope.namespace, "active", write.now, write.now, *_NEW), True


_NEW: tuple[Any, ...] = (None, 0, 0, None, False)
"""closed_at, turns, covered, summary, pruned."""


def _keep(hold: Hold, write: Transaction, conversation: Conversation, place: int, turn: Turn) -> Memory:
    draft = Draft(
        title=f"{conversation.channel or 'conversation'} {conversation.id} turn {place}",
        content=turn.content,
        namespace=conversation.namespace,
        kind="conversation",
        tier="long",
        source=hold.caller.source,
        speaker=turn.role,
        thread=conversation.id,
        place=place,
        occurred_at=write.now if turn.at is None else turn.at,
        metadata={**turn.metadata, "principal": conversation.principal, "channel": conversation.channel},
    )
    return put(hold, write, draft, "error", force=True).memory


def current(hold: Hold, scope: Scope) -> Conversation | None:
    """Return the active conversation of a scope, or None."""
    with hold.reading() as session:
        found = conversations.going_on(session, scope)
    return next((one for one in found if one.last_at > hold.now() - IDLE), None)


def untold(one: Conversation) -> int:
    """Return how many of the last turns to read so that they and the summary cover the conversation."""
    return max(SHOWN, min(one.turns - one.covered, SHOWN + BEHIND))


def told_so_far(hold: Hold, one: Conversation) -> Memory | None:
    """Return the summary of a conversation, or None if there is none or the caller may not see it."""
    with hold.reading() as session:
        return _summary(hold, session, one)


def show(hold: Hold, id: str, after: int, limit: int) -> tuple[Conversation, list[Memory], Memory | None]:
    """Return a conversation, its turns after a given one, and its summary."""
    with hold.reading() as session:
        one = conversations.seen(session, hold.caller, id)
        said = conversations.turns(session, hold.caller, one, hold.now(), after=after, limit=limit, archived=True)
        told = _summary(hold, session, one)
    return one, said, told


def _summary(hold: Hold, session: Session, one: Conversation) -> Memory | None:
    if one.summary is None:
        return None
    return memories.by_ids(session, hold.caller, [one.summary], hold.now()).get(one.summary)


def browse(hold: Hold, which: Which, limit: int, skip: int) -> list[tuple[Conversation, Memory | None]]:
    with hold.reading() as session:
        found = conversations.select(session, hold.caller, which, limit, skip)
        told = memories.by_ids(session, hold.caller, [one.summary for one in found if one.summary], hold.now())
    return [(one, told.get(one.summary or "")) for one in found]


def close(hold: Hold, id: str, summary: str | None) -> Conversation:
    """Close a conversation with the given summary or a generated one."""
    with hold.writing() as write:
        one = conversations.seen(write.session, hold.caller, id)
        if one.state == "closed":
            raise Conflict(f"The conversation {id} is already closed.")
        conversations.put(write.session, one._replace(state="closing"))
        if summary is not None:
            return _closed(hold, write, one, summary, one.turns, {"method": "given"})
    return _finish(hold, one)


def _finish(hold: Hold, one: Conversation) -> Conversation:
    """Summarise the uncovered turns in batches, then close. Each batch is committed before the next is read."""
    if hold.model is not None:
        _tell_anew(hold, one)
    while True:
        with hold.reading() as session:
            row = session.row("conversation_get", id=one.id)
            one = conversations.of_row(row) if row else one
            said = conversations.turns(session, hold.caller, one, hold.now(), after=one.covered, limit=CHUNK)
        if not said:
            with hold.writing() as write:
                closed = one._replace(state="closed", closed_at=write.now, covered=one.turns)
                conversations.put(write.session, closed)
            return closed
        before = [one.summary] if one.summary is not None else []
        text, how = summarise(hold, [*before, *(turn.id for turn in said)])
        covered = max(turn.place or 0 for turn in said)
        with hold.writing() as write:
            closing = one._replace(state="closing")
            one = _told(hold, write, closing, text, covered, {"method": how.method, "model": how.model})


def _tell_anew(hold: Hold, one: Conversation) -> None:
    """Discard the progress of a rolling summary, so that a model summarises from the first turn."""
    with hold.writing() as write:
        known = write.get(MEMORY, one.summary) if one.summary is not None else None
        if known is not None and known.metadata.get("rolling"):
            conversations.put(write.session, one._replace(covered=0))


def _closed(
    hold: Hold, write: Transaction, one: Conversation, text: str, covered: int, how: dict[str, Any]
) -> Conversation:
    told = _told(hold, write, one, text, covered, how)._replace(state="closed", closed_at=write.now)
    conversations.put(write.session, told)
    return told


def _told(
    hold: Hold, write: Transaction, one: Conversation, text: str, covered: int, how: dict[str, Any]
) -> Conversation:
    """Store or replace the summary and the number of the last turn it covers."""
    metadata = {"conversation": one.id, "covered": covered, "principal": one.principal, "channel": one.channel}
    metadata |= {name: value for name, value in how.items() if value is not None}
    known = write.get(MEMORY, one.summary) if one.summary is not None else None
    if known is not None and known.state == "live":
        summary = keep(hold, write, known, replace(known, content=text, metadata=metadata), "summary")
    else:
        draft = Draft(
            title=f"Summary of {one.channel or 'conversation'} {one.id}",
            content=text,
            namespace=one.namespace,
            kind="summary",
            tier="long",
            source=hold.caller.source,
            metadata=metadata,
        )
        summary = put(hold, write, draft, "version", force=True).memory
    after = one._replace(covered=covered, summary=summary.id)
    conversations.put(write.session, after)
    return after


def reap(hold: Hold, limit: int, prune_days: int | None) -> Reaped:
    """Close idle conversations with a summary; optionally archive turns that a summary covers.

    Only one reaper runs at a time. Resumes what a crashed reaper began.
    """
    owner = hold.new_id()
    _take(hold, owner)
    try:
        with hold.reading() as session:
            found = [one for one in conversations.idle(session, hold.now() - IDLE, limit) if _within(hold, one)]
        closed = []
        for number, one in enumerate(found):
            hold.progress(number, len(found), "closing")
            _take(hold, owner)
            closed.append(_finish(hold, one._replace(state="closing")))
        pruned = [] if prune_days is None else _prune(hold, owner, prune_days, limit)
    finally:
        with hold.store.writing() as session:
            leases.release(session, REAPER, owner)
    return Reaped(closed, pruned)


def _within(hold: Hold, one: Conversation) -> bool:
    return hold.caller.reaches(one.namespace)


def _take(hold: Hold, owner: str) -> None:
    with hold.store.writing(hold.progress.commit) as session:
        if not leases.take(session, REAPER, owner, hold.now() + LEASE, hold.now()):
            raise Conflict("Another reaper is running. Try again later.", retryable=True)


def _prune(hold: Hold, owner: str, days: int, limit: int) -> list[Conversation]:
    with hold.reading() as session:
        found = [one for one in conversations.old(session, hold.now() - days * DAY, limit) if _within(hold, one)]
    pruned = []
    for one in found:
        _take(hold, owner)
        with hold.writing() as write:
            last = one._replace(pruned=True)
            for turn in conversations.turns(write.session, hold.caller, one, write.now, after=0, limit=one.turns + 1):
                put_away(write, turn, PRUNED, "archive")
            conversations.put(write.session, last)
            pruned.append(last)
    return pruned


def one_of(hold: Hold, id: str | None, scope: Scope) -> str:
    """Return the given id, or that of the active conversation."""
    if id is not None:
        return id
    going = current(hold, scope)
    if going is None:
        raise NotFound("No active conversation there.")
    return going.id

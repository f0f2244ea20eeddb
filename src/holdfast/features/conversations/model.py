"""Conversations, and filters of them."""

from typing import Annotated, Literal, NamedTuple

from msgspec import Struct

from holdfast.kernel.records.fields import (
    SPARSE,
    Agent,
    Count,
    Mark,
    Named,
    OptionalShortText,
    ShortText,
    Text,
    Timestamp,
)

State = Literal["active", "closing", "closed"]


STATES: tuple[State, ...] = ("active", "closing", "closed")
"""In the order in which a conversation passes through them."""


class Scope(NamedTuple):
    """Channel, principal and namespace that identify an active conversation."""

    channel: str
    principal: str
    namespace: str


class Conversation(Struct, frozen=True, kw_only=True):
    """Turns of one person on a channel, with a summary of the earlier ones."""

    id: Text
    channel: Annotated[OptionalShortText, Mark.FIXED] = ""
    principal: Annotated[ShortText, Mark.FIXED]
    agent: Annotated[Agent, Mark.FIXED]
    namespace: Annotated[str, Mark.FIXED]
    state: State
    started_at: Annotated[Timestamp, Mark.FIXED]
    last_at: Timestamp
    closed_at: Timestamp | None = None
    turns: Count
    """Number of turns; they are numbered from 1."""
    covered: Count = 0
    """Number of the last turn that the summary covers."""
    summary: Annotated[Text, Mark.MEMORY, Named("summary_id")] | None = None
    """Id of the summary memory."""
    pruned: Annotated[bool, SPARSE] = False
    """Whether its turns are archived."""


class SummarizedConversation(Conversation, frozen=True, kw_only=True):
    """A conversation and the text of its summary."""

    summary_text: Annotated[str, Named("summary")] | None = None


class ConversationFilter(NamedTuple):
    principals: tuple[str, ...] = ()
    channel: str | None = None
    namespace: str | None = None
    state: State | None = None

"""Detect echoes: text that repeats what the same agent recalled recently."""

import re
from contextlib import suppress
from itertools import islice

from holdfast.features.importers.model import remove_recalled
from holdfast.features.memories import store as memories
from holdfast.features.recall import recall_log
from holdfast.features.recall.recall_log import RecallLog
from holdfast.kernel.context import Context
from holdfast.kernel.errors import AmbiguousId, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import find_echoes, have_distinct_subjects, preselect_echoes
from holdfast.kernel.timestamps import SECOND

MIN_WORDS = 8
"""Shorter texts are never duplicates: they may match by chance, and their title carries the meaning."""
RECALL_WINDOW = 3600 * SECOND
"""Text that repeats a recall within this window is an echo."""
MAX_RECALLS = 50
MAX_RECALLED_HITS = 300
"""The latest recalls, and hits of them, that are checked for echoes."""
MAX_CITED = 30


def list_echoed(ctx: Context, write: Transaction, memory: Memory) -> list[Memory]:
    """List the memories that the agent recalled recently, if the new text only repeats them."""
    own = strip_pasted_blocks(memory.content)
    if not own.strip():
        return find_cited(ctx, write.session, memory.content, write.now)
    if not is_significant(own):
        return []
    found = RecentRecalls(ctx, write.session, write.now).find_repeated(memory.title, own)
    read = memories.by_ids(write.session, ctx.caller, found, write.now) if found else {}
    return [read[id] for id in found if id in read]


def is_significant(text: str) -> bool:
    return len(text.split()) >= MIN_WORDS or not text.isascii()


class RecentRecalls:
    """Memories that the caller's agent recalled within the last hour, for echo detection."""

    def __init__(self, ctx: Context, session: Session, now: int, but_from: str | None = None) -> None:
        """Leave out memories of the source `but_from`, if given."""
        read = memories.read_texts(session, ctx.caller, _list_recalled_ids(ctx, session, now), now)
        self._memories = [one for one in read if but_from is None or one.source_uri != but_from]
        self._texts = [f"{one.title}\n{one.content}" for one in self._memories]

    def find_repeated(self, title: str, content: str) -> list[str]:
        """Ids of the recalled memories that a text repeats; empty if it adds anything."""
        if not self._memories or not is_significant(content):
            return []
        near = preselect_echoes(self._texts, content)
        candidates = [self._memories[index] for index in near]
        found = find_echoes([self._texts[index] for index in near], content, candidates) if near else []
        if found and have_distinct_subjects(found[0].title, title, content, strict=False):
            return []
        return [one.id for one in found]


def strip_pasted_blocks(text: str) -> str:
    """Remove pasted context blocks from a text."""
    if "</" not in text:
        return text
    return remove_recalled(text)


def find_cited(ctx: Context, session: Session, text: str, now: int) -> list[Memory]:
    """Read the visible memories that pasted context blocks cite."""
    found: dict[str, Memory] = {}
    for id in dict.fromkeys(one[1] for one in islice(_CITED.finditer(text), MAX_CITED)):
        with suppress(NotFound, AmbiguousId):
            one = memories.resolve(session, ctx.caller, id, now)
            found[one.id] = one
    return [*found.values()]


_CITED = re.compile(r"\[([0-9a-f]{8}[0-9a-f-]{0,28})\]")


def _list_recalled_ids(ctx: Context, session: Session, now: int) -> list[str]:
    """Ids of this agent's latest recall hits, newest first, including those not yet flushed."""
    agent, since = ctx.caller.agent, now - RECALL_WINDOW
    recent = [one for one in list(ctx.local[RecallLog]) if one.agent == agent and one.asked_at >= since]
    unflushed = [[hit.id for hit in one.hits] for one in recent]
    stored = (
        recall_log.list_recent_hits(session, agent, since=since, limit=MAX_RECALLS)
        if len(unflushed) < MAX_RECALLS
        else []
    )
    ids = [id for hits in (unflushed[::-1] + stored)[:MAX_RECALLS] for id in hits]
    return list(dict.fromkeys(ids))[:MAX_RECALLED_HITS]

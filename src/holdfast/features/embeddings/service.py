"""Compute the embeddings of memories after their transaction, since models are slow."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.embeddings import store as embedding_store
from holdfast.features.embeddings.store import REPLY, TITLE, DueMemory, PassageEmbedding, Watermark
from holdfast.kernel.context import Context
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.index_terms import parse_head, split_passages
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import split_words
from holdfast.kernel.vector import Vector


class EmbeddingCache:
    """LRU cache of embeddings that may not be stored yet, so that none is computed twice."""

    def __init__(self, max_memories: int = 512) -> None:
        self._lock = threading.Lock()
        self._max_memories = max_memories
        self._embeddings: OrderedDict[tuple[str, str, str], list[PassageEmbedding]] = OrderedDict()

    def get(self, model: str, due: DueMemory) -> list[PassageEmbedding] | None:
        with self._lock:
            return self._embeddings.get((model, due.id, due.text_hash))

    def put(self, model: str, due: DueMemory, embeddings: list[PassageEmbedding]) -> None:
        with self._lock:
            self._embeddings[model, due.id, due.text_hash] = embeddings
            while len(self._embeddings) > self._max_memories:
                self._embeddings.popitem(last=False)


PROBE = "A text that any model can read."
MAX_REPLY_WORDS = 24
"""Last words of the previous message that are embedded with a reply."""
BATCH = 64
"""Memories whose embeddings are written together."""
MAX_FRESH = 32
"""Maximum number of memories that recall embeds itself."""
TEXTS_PER_CHECK = 64
"""Number of texts between checks for cancellation."""
MIN_SKIPPED_ENTRIES = 100
"""Number of journal entries without work after which the watermark is written anyway."""
MAX_ENTRIES = 2000
"""Journal entries read at once."""


class FailedMemory(NamedTuple):
    """A memory that the model could not embed."""

    id: str
    error: str


class EmbedResult(NamedTuple):
    memories: int
    passages: int
    failed: list[FailedMemory]

    def add(self, other: EmbedResult) -> EmbedResult:
        return EmbedResult(self.memories + other.memories, self.passages + other.passages, self.failed + other.failed)


NO_RESULT = EmbedResult(0, 0, [])


def list_texts(title: str, content: str) -> list[tuple[int, int, str]]:
    """List the texts of a memory to embed: its passages, and its title if that adds words."""
    found = [(passage.start, passage.end, content[passage.start : passage.end]) for passage in split_passages(content)]
    content_words = set(split_words(content))
    new = [
        word
        for word in dict.fromkeys(split_words(title))
        if word not in content_words and word.isalpha() and len(word) > 2
    ]
    return [(TITLE, TITLE, title), *found] if new else found


def build_reply_text(previous: str, content: str) -> tuple[int, int, str]:
    """Join the end of the previous message and the whole reply."""
    end = " ".join(previous[parse_head(previous).end :].split()[-MAX_REPLY_WORDS:])
    return REPLY, REPLY, f"{end} {content[parse_head(content).end :]}"


def embed_memories(
    ctx: Context, embedder: Embedder, due: Sequence[DueMemory], now: int, *, renewed: int = -1
) -> dict[str, list[PassageEmbedding]]:
    """Embed memories and return the embeddings by id; cached ones are not computed again."""
    recent = {one.id: kept for one in due if (kept := ctx.local[EmbeddingCache].get(embedder.model, one)) is not None}
    known = {id: kept for id, kept in recent.items() if all(one.made_at > renewed for one in kept)}
    fresh = [one for one in due if one.id not in known]
    with ctx.reading() as session:
        previous_texts = embedding_store.read_reply_targets(session, [one.id for one in fresh])
    texts_due = [
        (one, *passage)
        for one in fresh
        for passage in (
            *list_texts(one.title, one.content),
            *([build_reply_text(previous_texts[one.id], one.content)] if one.id in previous_texts else ()),
        )
    ]
    embedded = _embed_texts(ctx, embedder, [text for *_, text in texts_due])
    found: dict[str, list[PassageEmbedding]] = {one.id: [] for one in fresh}
    for (one, begins, ends, _), vector in zip(texts_due, embedded, strict=True):
        found[one.id].append(
            PassageEmbedding(one.id, embedder.model, begins, ends, vector.dim, one.text_hash, now, vector)
        )
    for one in fresh:
        ctx.local[EmbeddingCache].put(embedder.model, one, found[one.id])
    return known | found


def _embed_texts(ctx: Context, embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    computed: list[Vector] = []
    for start in range(0, len(texts), TEXTS_PER_CHECK):
        ctx.progress.check()
        computed += embedder.embed(texts[start : start + TEXTS_PER_CHECK])
    return computed


def embed_all_due(ctx: Context, embedder: Embedder) -> EmbedResult:
    """Compute all embeddings that are due. Can be interrupted and continued."""
    done = NO_RESULT
    while True:
        ctx.progress(done.memories, done.memories + count_waiting(ctx, embedder), "embeddings")
        made = embed_next(ctx, embedder)
        if made is None:
            return done
        done = done.add(made)


def flush_embeddings(ctx: Context, embedder: Embedder, *, all_due: bool) -> None:
    """Compute embeddings if more are due than recall computes itself: all, or the next batch."""
    if count_waiting(ctx, embedder) <= MAX_FRESH:
        return
    if all_due:
        embed_all_due(ctx, embedder)
    else:
        embed_next(ctx, embedder)


def count_waiting(ctx: Context, embedder: Embedder) -> int:
    """Estimate how many memories have no embeddings; never 0 if there are any."""
    with ctx.reading() as session:
        mark = embedding_store.get_watermark(session, embedder.model) or Watermark(0, 0)
        if not mark.whole:
            return max(0, session.newest_row() - mark.row)
        return len(embedding_store.list_changed(session, mark.seq, MAX_ENTRIES))


def embed_next(ctx: Context, embedder: Embedder) -> EmbedResult | None:
    """Compute the next batch of embeddings; None if none are due."""
    with ctx.reading() as session:
        before = embedding_store.get_watermark(session, embedder.model)
        begun = before or Watermark(0, journal.get_head(session).seq)
        due, after = _find_next(session, embedder.model, begun)
    if not due and after == before:
        return None
    computed, failed = _embed_each(ctx, embedder, due, begun.renewed)
    with ctx.store.transaction() as session:
        _check_dimension(session, embedder.model, computed)
        still = embedding_store.filter_due(session, embedder.model, [one.id for one in due], renewed=begun.renewed)
        current = {(one.id, one.text_hash) for one in still}
        current_embeddings = [
            one for many in computed.values() for one in many if (one.memory, one.text_hash) in current
        ]
        embedding_store.put_embeddings(session, current_embeddings)
        if embedding_store.get_watermark(session, embedder.model) == before:
            embedding_store.set_watermark(session, embedder.model, after)
    return EmbedResult(len({one.memory for one in current_embeddings}), len(current_embeddings), failed)


def _check_dimension(session: Session, model: str, embeddings: Mapping[str, Sequence[PassageEmbedding]]) -> None:
    """Raise unless vectors have the dimension of the stored ones of their model."""
    dim = embedding_store.get_dimension(session, model)
    if wrong := next((one.dim for many in embeddings.values() for one in many if dim not in (None, one.dim)), None):
        raise EmbedderFailed(
            f"{model} returned {wrong} dimensions; its stored embeddings have {dim}. "
            "Run `holdfast admin reembed --everything` to recompute all of them."
        )


def _find_next(session: Session, model: str, mark: Watermark) -> tuple[list[DueMemory], Watermark]:
    """Return the next memories to embed, and the watermark after them."""
    if not mark.whole:
        due = embedding_store.list_due_after(session, model, mark.row, BATCH, renewed=mark.renewed)
        return due, replace(mark, row=due[-1].row) if due else Watermark(mark.row, mark.seq, whole=True)
    head = journal.get_head(session).seq
    if head <= mark.seq:
        return [], mark
    due = embedding_store.filter_due(session, model, embedding_store.list_changed(session, mark.seq, MAX_ENTRIES))
    if len(due) > BATCH:
        return due[:BATCH], mark
    upto = min(head, mark.seq + MAX_ENTRIES)
    return due, Watermark(mark.row, upto, whole=True) if due or upto - mark.seq >= MIN_SKIPPED_ENTRIES else mark


def _embed_each(
    ctx: Context, embedder: Embedder, due: Sequence[DueMemory], renewed: int
) -> tuple[dict[str, list[PassageEmbedding]], list[FailedMemory]]:
    """Embed all; if the model refuses some text permanently, embed each memory that it accepts."""
    try:
        return embed_memories(ctx, embedder, due, ctx.now(), renewed=renewed), []
    except EmbedderFailed as error:
        if error.retryable:
            raise
        if len(due) == 1:
            embedder.embed([PROBE])  # raises if the text is not the cause
            return {}, [FailedMemory(due[0].id, error.message)]
    parted = [_embed_each(ctx, embedder, [one], renewed) for one in due]
    failed = [refused for _, many in parted for refused in many]
    if len(failed) == len(due):
        raise EmbedderFailed(f"The embedding model refused every text. {failed[0].error}")
    return {id: kept for made, _ in parted for id, kept in made.items()}, failed


def restart_embeddings(ctx: Context, embedder: Embedder) -> int:
    """Restart the embedding of all memories, or continue a restart. Return the number of dropped embeddings.

    Nothing changes before the model has answered. Old embeddings are used until they are replaced; they are dropped at
    once only if the model now has another dimension, because dimensions are never mixed.
    """
    (probe,) = embedder.embed([PROBE])
    with ctx.store.transaction() as session:
        dim = embedding_store.get_dimension(session, embedder.model)
        mark = embedding_store.get_watermark(session, embedder.model)
        dropped = 0 if dim in (None, probe.dim) else embedding_store.drop_model(session, embedder.model)
        if dropped or mark is None or mark.renewed < 0:
            embedding_store.set_watermark(
                session, embedder.model, Watermark(0, journal.get_head(session).seq, renewed=ctx.now())
            )
    return dropped


def check_model_loads(embedder: Embedder) -> None:
    """Raise if the local model does not work. Providers are not called."""
    if not embedder.remote:
        embedder.embed([PROBE])

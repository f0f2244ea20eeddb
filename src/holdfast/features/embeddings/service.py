"""Compute missing embeddings: after the transaction of a memory, never inside one, because models are slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.embeddings import store as vectors
from holdfast.features.embeddings.cache import Recent
from holdfast.features.embeddings.store import REPLY, TITLE, Due, Kept, Mark
from holdfast.kernel.context import Hold
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.passages import head, passages
from holdfast.kernel.text.words import runs
from holdfast.kernel.vector import Vector

PROBE = "A text that any model can read."
SAID_BEFORE = 24
"""Last words of the previous message that are embedded with a reply."""
BATCH = 64
"""Memories whose embeddings are written together."""
FRESH = 32
"""Maximum number of memories that recall embeds itself."""
TEXTS = 64
"""Number of texts between checks for cancellation."""
STALE = 100
"""Number of journal entries without work after which the watermark is written anyway."""
ENTRIES = 2000
"""Journal entries read at once."""


class Failed(NamedTuple):
    """A memory that the model could not embed."""

    id: str
    error: str


class Made(NamedTuple):
    memories: int
    passages: int
    failed: list[Failed]

    def plus(self, other: Made) -> Made:
        return Made(self.memories + other.memories, self.passages + other.passages, self.failed + other.failed)


NOTHING = Made(0, 0, [])


def texts(title: str, content: str) -> list[tuple[int, int, str]]:
    """List the texts of a memory to embed: its passages, and its title if that adds words."""
    found = [(passage.start, passage.end, content[passage.start : passage.end]) for passage in passages(content)]
    said = set(runs(content))
    new = [word for word in dict.fromkeys(runs(title)) if word not in said and word.isalpha() and len(word) > 2]
    return [(TITLE, TITLE, title), *found] if new else found


def reply(said: str, content: str) -> tuple[int, int, str]:
    """Join the end of the previous message and the whole reply."""
    end = " ".join(said[head(said).end :].split()[-SAID_BEFORE:])
    return REPLY, REPLY, f"{end} {content[head(content).end :]}"


def made_of(
    hold: Hold, embedder: Embedder, due: Sequence[Due], now: int, *, renewed: int = -1
) -> dict[str, list[Kept]]:
    """Embed memories and return the embeddings by id; cached ones are not computed again."""
    recent = {one.id: kept for one in due if (kept := hold.local(Recent).get(embedder.model, one)) is not None}
    known = {id: kept for id, kept in recent.items() if all(one.made_at > renewed for one in kept)}
    fresh = [one for one in due if one.id not in known]
    with hold.reading() as session:
        said = vectors.replies(session, [one.id for one in fresh])
    asked = [
        (one, *passage)
        for one in fresh
        for passage in (*texts(one.title, one.content), *([reply(said[one.id], one.content)] if one.id in said else ()))
    ]
    made = _embedded(hold, embedder, [text for *_, text in asked])
    found: dict[str, list[Kept]] = {one.id: [] for one in fresh}
    for (one, begins, ends, _), vector in zip(asked, made, strict=True):
        found[one.id].append(Kept(one.id, embedder.model, begins, ends, vector.dim, one.text_hash, now, vector))
    for one in fresh:
        hold.local(Recent).put(embedder.model, one, found[one.id])
    return known | found


def _embedded(hold: Hold, embedder: Embedder, many: Sequence[str]) -> list[Vector]:
    made: list[Vector] = []
    for start in range(0, len(many), TEXTS):
        hold.progress.check()
        made += embedder.embed(many[start : start + TEXTS])
    return made


def catch_up(hold: Hold, embedder: Embedder) -> Made:
    """Compute all embeddings that are due. Can be interrupted and continued."""
    done = NOTHING
    while True:
        hold.progress(done.memories, done.memories + waiting(hold, embedder), "embeddings")
        made = step(hold, embedder)
        if made is None:
            return done
        done = done.plus(made)


def settle(hold: Hold, embedder: Embedder, *, wholly: bool) -> None:
    """Compute embeddings if more are due than recall computes itself: all, or the next batch."""
    if waiting(hold, embedder) <= FRESH:
        return
    if wholly:
        catch_up(hold, embedder)
    else:
        step(hold, embedder)


def waiting(hold: Hold, embedder: Embedder) -> int:
    """Estimate how many memories have no embeddings; never 0 if there are any."""
    with hold.reading() as session:
        mark = vectors.mark(session, embedder.model) or Mark(0, 0)
        if not mark.whole:
            return max(0, session.newest_row() - mark.row)
        return len(vectors.changed(session, mark.seq, ENTRIES))


def step(hold: Hold, embedder: Embedder) -> Made | None:
    """Compute the next batch of embeddings; None if none are due."""
    with hold.reading() as session:
        before = vectors.mark(session, embedder.model)
        begun = before or Mark(0, journal.head_of(session).seq)
        due, after = _next(session, embedder.model, begun)
    if not due and after == before:
        return None
    made, failed = _each(hold, embedder, due, begun.renewed)
    with hold.store.writing() as session:
        _must_fit(session, embedder.model, made)
        still = vectors.due_among(session, embedder.model, [one.id for one in due], renewed=begun.renewed)
        current = {(one.id, one.text_hash) for one in still}
        kept = [one for many in made.values() for one in many if (one.memory, one.text_hash) in current]
        vectors.put_all(session, kept)
        if vectors.mark(session, embedder.model) == before:
            vectors.set_mark(session, embedder.model, after)
    return Made(len({one.memory for one in kept}), len(kept), failed)


def _must_fit(session: Session, model: str, made: Mapping[str, Sequence[Kept]]) -> None:
    """Raise unless vectors have the dimension of the stored ones of their model."""
    dim = vectors.dim_of(session, model)
    if wrong := next((one.dim for many in made.values() for one in many if dim not in (None, one.dim)), None):
        raise EmbedderFailed(
            f"{model} returned {wrong} dimensions; its stored embeddings have {dim}. "
            "Run `holdfast reembed --everything` to recompute all of them."
        )


def _next(session: Session, model: str, mark: Mark) -> tuple[list[Due], Mark]:
    """Return the next memories to embed, and the watermark after them."""
    if not mark.whole:
        due = vectors.due_rows(session, model, mark.row, BATCH, renewed=mark.renewed)
        return due, replace(mark, row=due[-1].row) if due else Mark(mark.row, mark.seq, whole=True)
    head = journal.head_of(session).seq
    if head <= mark.seq:
        return [], mark
    due = vectors.due_among(session, model, vectors.changed(session, mark.seq, ENTRIES))
    if len(due) > BATCH:
        return due[:BATCH], mark
    upto = min(head, mark.seq + ENTRIES)
    return due, Mark(mark.row, upto, whole=True) if due or upto - mark.seq >= STALE else mark


def _each(
    hold: Hold, embedder: Embedder, due: Sequence[Due], renewed: int
) -> tuple[dict[str, list[Kept]], list[Failed]]:
    """Embed all; if the model refuses some text permanently, embed each memory that it accepts."""
    try:
        return made_of(hold, embedder, due, hold.now(), renewed=renewed), []
    except EmbedderFailed as error:
        if error.retryable:
            raise
        if len(due) == 1:
            embedder.embed([PROBE])  # raises if the text is not the cause
            return {}, [Failed(due[0].id, error.message)]
    parted = [_each(hold, embedder, [one], renewed) for one in due]
    failed = [refused for _, many in parted for refused in many]
    if len(failed) == len(due):
        raise EmbedderFailed(f"The embedding model refused every text. {failed[0].error}")
    return {id: kept for made, _ in parted for id, kept in made.items()}, failed


def again(hold: Hold, embedder: Embedder) -> int:
    """Restart the embedding of all memories, or continue a restart. Return the number of dropped embeddings.

    Nothing changes before the model has answered. Old embeddings are used until they are replaced; they are dropped at
    once only if the model now has another dimension, because dimensions are never mixed.
    """
    (probe,) = embedder.embed([PROBE])
    with hold.store.writing() as session:
        dim = vectors.dim_of(session, embedder.model)
        mark = vectors.mark(session, embedder.model)
        dropped = 0 if dim in (None, probe.dim) else vectors.forget(session, embedder.model)
        if dropped or mark is None or mark.renewed < 0:
            vectors.set_mark(session, embedder.model, Mark(0, journal.head_of(session).seq, renewed=hold.now()))
    return dropped


def must_load(embedder: Embedder) -> None:
    """Raise if the local model does not work. Providers are not called."""
    if not embedder.remote:
        embedder.embed([PROBE])

"""Split a long memory into atoms: verbatim pieces that can be found separately. The source is archived."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.graph import read_links as links
from holdfast.features.graph.depth import with_origin
from holdfast.features.graph.service import add_link
from holdfast.features.llm.assist import (
    BY_RULES,
    MethodInfo,
    MethodUsed,
    ask_or_fallback,
    method_fields,
    method_metadata,
    rejected_answer,
)
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.read_memories import require_write_access
from holdfast.features.memories.store_memory import MAX_VERSIONS, find_title_holder, number_title
from holdfast.features.reflections.propagate import ChangeSet
from holdfast.kernel.context import Context
from holdfast.kernel.errors import AlreadyAtomised, Conflict, Forbidden, SourceTooSmall, VersionConflict
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory, Span
from holdfast.kernel.records.validate import Draft, memory_from_draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.sentences import Span as TextSpan
from holdfast.kernel.text.sentences import split_sentences
from holdfast.kernel.text.token_count import count_tokens
from holdfast.kernel.timestamps import Time, uuid7

_WORD = re.compile(r"\S+\s*")
MAX_TITLE_LENGTH = 60


def split_into_atoms(text: str, max_tokens: int, breaks: Collection[int] = ()) -> list[TextSpan]:
    """Return the spans of the atoms: as many whole sentences as fit into `max_tokens`.

    `breaks` are the numbers of sentences that start a new topic.
    """
    found: list[TextSpan] = []
    for place, span in enumerate(_split_sentences(text, max_tokens)):
        sentence, piece = span
        joined = (found[-1][0], piece[1]) if found else piece
        if place and sentence not in breaks and count_tokens(text[slice(*joined)], max_tokens) <= max_tokens:
            found[-1] = joined
        else:
            found.append(piece)
    return found


def _split_sentences(text: str, max_tokens: int) -> Iterator[tuple[int, TextSpan]]:
    """Yield sentences with their number; long ones in parts, where continuing parts have the number -1."""
    for number, (start, end) in enumerate(split_sentences(text)):
        for part, span in enumerate(_split_sentence(text, start, end, max_tokens)):
            yield (-1 if part else number), span


def _split_sentence(text: str, start: int, end: int, max_tokens: int) -> Iterator[TextSpan]:
    if count_tokens(text[start:end], max_tokens) <= max_tokens:
        yield start, end
        return
    begin = start
    for word in _WORD.finditer(text, start, end):
        if count_tokens(text[begin : word.end()].rstrip(), max_tokens) > max_tokens and word.start() > begin:
            yield begin, begin + len(text[begin : word.start()].rstrip())
            begin = word.start()
        while count_tokens(text[begin : word.end()].rstrip(), max_tokens) > max_tokens:
            cut = _find_longest_fit(text, begin, word.end(), max_tokens)
            yield begin, cut
            begin = cut
    if text[begin:end].strip():
        yield begin, begin + len(text[begin:end].rstrip())


def _find_longest_fit(text: str, start: int, end: int, max_tokens: int) -> int:
    """Find the longest fitting prefix of a run without spaces; at least one character."""
    width = max_tokens
    while start + width < end and count_tokens(text[start : start + width], max_tokens) <= max_tokens:
        width *= 2
    low, high = start + 1, min(end, start + width)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[start:middle], max_tokens) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return low


def build_atom_title(source: str, number: int, of: int, text: str) -> str:
    """Build the title of an atom: source title, number and first words."""
    begins = " ".join(text.split())
    begins = begins if len(begins) <= MAX_TITLE_LENGTH else begins[: MAX_TITLE_LENGTH - 1].rstrip() + "…"
    behind = f" ({number}/{of}): {begins}"
    room = 512 - len(behind.encode())
    return source.encode()[:room].decode(errors="ignore").rstrip() + behind


ATOMISED = "atomised"
"""Archive reason of a memory that was split into atoms."""
SUPERSEDED = "superseded"
MAX_SENTENCES_ASKED = 400
"""Longest text, in sentences, for which a model is asked where topics start."""


class AtomiseResult(MethodInfo, frozen=True, kw_only=True):
    source_id: str
    atom_ids: list[str]
    """In text order."""
    atom_count: int
    archived_at: Time
    superseded_ids: list[str]
    """Atoms of an earlier split, now archived."""
    kept_ids: list[str]
    """Atoms of an earlier split that were edited since and are kept."""


class TopicStarts(Struct, frozen=True):
    """The numbers of the sentences that start a new topic."""

    begins: list[int]


def split_memory(ctx: Context, id: str, *, max_tokens: int = 200, force: bool = False) -> AtomiseResult:
    """Split a memory into atoms in one transaction. The same source and size always give the same atoms."""
    with ctx.reading() as session:
        read = _find_source(ctx, session, id, ctx.now(), force=force)
    _check_divisible(read, max_tokens)
    breaks, how = _find_topic_breaks(ctx, read)
    with ctx.transaction() as write:
        source = _find_source(ctx, write.session, read.id, write.now, force=force)
        if source.content != read.content:
            raise VersionConflict
        _check_ownership(ctx, write, source)
        new_atoms = [
            _store_atom(ctx, write, atom) for atom in _build_atoms(ctx, write, source, max_tokens, breaks, how)
        ]
        archived, edited = _replace_older_atoms(ctx, write, source, new_atoms)
        for atom in new_atoms:
            add_link(ctx, write, atom.id, source.id, "derives_from")
        source = _archive_source(write, source)
        return AtomiseResult(
            source_id=source.id,
            atom_ids=[atom.id for atom in new_atoms],
            atom_count=len(new_atoms),
            archived_at=source.updated_at,
            superseded_ids=archived,
            kept_ids=edited,
            **method_fields(how),
        )


def _archive_source(write: Transaction, source: Memory) -> Memory:
    """Archive the source, unless an earlier split did."""
    if source.state == "live":
        return archive_memory(write, source, ATOMISED, "atomise")
    write.local[ChangeSet].arrived_unavailable.add(source.id)
    return source


def _find_source(ctx: Context, session: Session, id: str, now: int, *, force: bool) -> Memory:
    """Find the memory to split: live, or, with `force`, archived by an earlier split."""
    found = memories.resolve(session, ctx.caller, id, now, view="kept")
    if found.state != "archived" or found.reason != ATOMISED:
        return memories.resolve(session, ctx.caller, found.id, now)
    if not force:
        raise AlreadyAtomised(
            f"The memory {found.id} was already split into atoms: use force to split it again.",
            id=found.id,
            atom_ids=[atom.id for atom in _list_older_atoms(ctx, session, found, now)],
        )
    return found


def _check_divisible(source: Memory, max_tokens: int) -> None:
    if len(split_into_atoms(source.content, max_tokens)) < 2:
        raise SourceTooSmall(
            f"The memory {source.id} fits into one atom of {max_tokens} tokens: nothing to split.", id=source.id
        )


def _check_ownership(ctx: Context, write: Transaction, source: Memory) -> None:
    """Raise unless the caller may change the source and could see its atoms, which keep its owner."""
    require_write_access(ctx, write, source)
    if source.scope == "private" and source.agent != ctx.caller.agent:
        raise Forbidden(f"The memory {source.id} is private to another agent: only that agent can split it.")


def _find_topic_breaks(ctx: Context, source: Memory) -> tuple[list[int], MethodUsed]:
    """Ask a model where topics start. Invalid answers are ignored."""
    spans = split_sentences(source.content)
    if ctx.model is None or len(spans) > MAX_SENTENCES_ASKED:
        return [], BY_RULES
    task = Task(
        "atomise",
        "The material is a text with one numbered sentence per line. Return the numbers of the sentences that start a "
        "new topic, in ascending order, without the first sentence. Return an empty list if the text has one topic.",
        TopicStarts,
    )
    lines = "\n".join(f"{number}: {source.content[slice(*span)]}" for number, span in enumerate(spans))
    answer, how = ask_or_fallback(ctx, task, [Material("text", lines)])
    if answer is None:
        return [], how
    if answer.begins != sorted(set(answer.begins)) or any(not 0 < one < len(spans) for one in answer.begins):
        return [], rejected_answer("the model returned sentence numbers that do not exist")
    return answer.begins, how


def _build_atoms(
    ctx: Context, write: Transaction, source: Memory, max_tokens: int, breaks: list[int], how: MethodUsed
) -> list[Memory]:
    spans = split_into_atoms(source.content, max_tokens, breaks)
    titles = [
        build_atom_title(source.title, number, len(spans), source.content[slice(*span)])
        for number, span in enumerate(spans, 1)
    ]
    return [_build_atom(ctx, write, source, span, title, how) for span, title in zip(spans, titles, strict=True)]


def _build_atom(
    ctx: Context, write: Transaction, source: Memory, span: tuple[int, int], title: str, how: MethodUsed
) -> Memory:
    """Build an atom: the source's properties, with its own text and span."""
    content = source.content[slice(*span)]
    uri, place = _locate_span(source, span)
    draft = Draft(
        title=title,
        content=content,
        namespace=source.namespace,
        tier=source.tier,
        kind=source.kind,
        category=source.category,
        priority=source.priority,
        confidence=source.confidence,
        source=source.source,
        scope=source.scope,
        tags=source.tags,
        metadata={"atom_of": source.id, **method_metadata(how)},
        citations=source.citations,
        source_uri=uri,
        source_span=place,
        valid_from=source.valid_from,
        valid_until=source.valid_until,
        speaker=source.speaker,
        occurred_at=source.occurred_at,
        thread=source.thread,
        place=source.place,
    )
    fresh = memory_from_draft(
        draft,
        id=_derive_id(source, span, content),
        agent=source.agent,
        origin=write.origin,
        now=write.now,
        lifetimes=ctx.lifetimes,
    )
    if source.expires_at is None or source.expires_at > write.now:
        fresh = replace(fresh, expires_at=source.expires_at)
    depth = source.reflection_depth
    return with_origin(replace(fresh, reflection_depth=depth), depth) if depth else fresh


def _derive_id(source: Memory, span: tuple[int, int], content: str) -> str:
    """Derive the id from the source and the piece: the same on every node and for every split."""
    digest = sha256(f"atom\x00{source.id}\x00{span[0]}\x00{content}".encode()).digest()
    return uuid7(source.created_at, digest[:8])


def _locate_span(source: Memory, span: tuple[int, int]) -> tuple[str, Span]:
    """Locate a piece in bytes: in the document if the source is an exact span of it, else in the source."""
    start = len(source.content[: span[0]].encode())
    end = start + len(source.content[slice(*span)].encode())
    whole = source.source_span
    if source.source_uri and whole and whole.end - whole.start == len(source.content.encode()):
        return source.source_uri, Span(whole.start + start, whole.start + end)
    return f"doc:{source.id}", Span(start, end)


def _store_atom(ctx: Context, write: Transaction, atom: Memory) -> Memory:
    """Write an atom. A live one is left unchanged; an archived or deleted one is revived."""
    existing = write.get(MEMORY, atom.id)
    if existing is not None and existing.state == "live":
        return existing
    atom = replace(atom, title=_find_free_title(write, atom))
    if existing is None:
        return write.add(MEMORY, atom, "atomise")
    again: dict[str, Any] = {
        name: getattr(atom, name) for name in ("title", "content", "tags", "metadata", "citations")
    }
    there = {"source_uri": atom.source_uri, "source_span": atom.source_span, "expires_at": atom.expires_at}
    return write.change(MEMORY, existing, replace(existing, **again, **there, state="live", reason=None), "atomise")


def _find_free_title(write: Transaction, atom: Memory) -> str:
    """Find a free title for an atom, numbered if another memory has it."""
    for number in range(1, MAX_VERSIONS + 1):
        title = atom.title if number == 1 else number_title(atom.title, number)
        holder = find_title_holder(write, atom.namespace, title)
        if holder is None or holder.id == atom.id:
            return title
    raise Conflict(f"{MAX_VERSIONS} memories already have the title {atom.title!r}: rename some of them.")


def _list_older_atoms(ctx: Context, session: Session, source: Memory, now: int) -> list[Memory]:
    """List the live atoms of a memory, in text order."""
    which = links.LinkFilter(relations=("derives_from",))
    edges = links.list_incoming(session, ctx.caller, [source.id], which, now, limit=10_000)
    found = memories.by_ids(session, ctx.caller, [edge.id for edge in edges], now).values()
    mine = [memory for memory in found if memory.metadata.get("atom_of") == source.id]
    return sorted(mine, key=lambda atom: (atom.source_span.start if atom.source_span else 0, atom.id))


def _replace_older_atoms(
    ctx: Context, write: Transaction, source: Memory, made: list[Memory]
) -> tuple[list[str], list[str]]:
    """Archive the atoms of an earlier split, superseded by the new atoms that overlap them; edited ones are kept."""
    fresh = {atom.id for atom in made}
    archived, edited = list[str](), list[str]()
    for old in _list_older_atoms(ctx, write.session, source, write.now):
        if old.id in fresh:
            continue
        if not _is_unedited(source, old) or not memories.can_write(write.session, ctx.caller, old.id):
            edited.append(old.id)
            continue
        archive_memory(write, old, SUPERSEDED, "atomise")
        for atom in made:
            if _is_overlapping(atom, old):
                add_link(ctx, write, atom.id, old.id, "supersedes")
        archived.append(old.id)
    return archived, edited


def _is_unedited(source: Memory, atom: Memory) -> bool:
    """Whether an atom still has the exact text of its span."""
    if atom.source_span is None:
        return False
    base = source.source_span.start if source.source_span and atom.source_uri == source.source_uri else 0
    piece = source.content.encode()[atom.source_span.start - base : atom.source_span.end - base]
    return piece == atom.content.encode()


def _is_overlapping(one: Memory, other: Memory) -> bool:
    a, b = one.source_span, other.source_span
    return a is not None and b is not None and a.start < b.end and b.start < a.end

"""Split a long memory into atoms: verbatim pieces that can be found separately. The source is archived."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.curation.split import atoms, title_of
from holdfast.features.graph import store as links
from holdfast.features.graph.service import tie
from holdfast.features.llm.assist import BY_RULES, How, aid, told, unfit
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.features.memories.lifecycle import put_away
from holdfast.features.memories.store_memory import MOST_VERSIONS, must_change, numbered, title_holder
from holdfast.features.reflections.invalidation import ChangeSet
from holdfast.features.reflections.model import with_origin
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import AlreadyAtomised, Conflict, Forbidden, SourceTooSmall, VersionConflict
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory, Span
from holdfast.kernel.records.validate import Draft, admit
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.sentences import sentences

ATOMISED = "atomised"
"""Archive reason of a memory that was split into atoms."""
SUPERSEDED = "superseded"
MOST_ASKED = 400
"""Longest text, in sentences, for which a model is asked where topics start."""


class Atomised(NamedTuple):
    source: Memory
    atoms: list[Memory]
    superseded: list[str]
    """Atoms of an earlier split, now archived."""
    kept: list[str]
    """Atoms of an earlier split that were edited since and are kept."""
    how: How


class Beginnings(Struct, frozen=True):
    """The numbers of the sentences that start a new topic."""

    begins: list[int]


def atomise(hold: Hold, id: str, *, most_tokens: int = 200, force: bool = False) -> Atomised:
    """Split a memory into atoms in one transaction. The same source and size always give the same atoms."""
    with hold.reading() as session:
        read = _source(hold, session, id, hold.now(), force=force)
    _must_be_cut(read, most_tokens)
    breaks, how = _breaks(hold, read)
    with hold.writing() as write:
        source = _source(hold, write.session, read.id, write.now, force=force)
        if source.content != read.content:
            raise VersionConflict
        _must_be_ours(hold, write, source)
        new_atoms = [_keep(hold, write, atom) for atom in _atoms(hold, write, source, most_tokens, breaks, how)]
        archived, edited = _replace_older(hold, write, source, new_atoms)
        for atom in new_atoms:
            tie(hold, write, atom.id, source.id, "derives_from")
        source = _put_away(write, source)
        return Atomised(source, new_atoms, archived, edited, how)


def _put_away(write: Transaction, source: Memory) -> Memory:
    """Archive the source, unless an earlier split did."""
    if source.state == "live":
        return put_away(write, source, ATOMISED, "atomise")
    write.local(ChangeSet).arrived.add(source.id)
    return source


def _source(hold: Hold, session: Session, id: str, now: int, *, force: bool) -> Memory:
    """Find the memory to split: live, or, with `force`, archived by an earlier split."""
    found = memories.resolve(session, hold.caller, id, now, view="kept")
    if found.state != "archived" or found.reason != ATOMISED:
        return memories.resolve(session, hold.caller, found.id, now)
    if not force:
        raise AlreadyAtomised(
            f"The memory {found.id} was already split into atoms: use force to split it again.",
            id=found.id,
            atom_ids=[atom.id for atom in _older(hold, session, found, now)],
        )
    return found


def _must_be_cut(source: Memory, most_tokens: int) -> None:
    if len(atoms(source.content, most_tokens)) < 2:
        raise SourceTooSmall(
            f"The memory {source.id} fits into one atom of {most_tokens} tokens: nothing to split.", id=source.id
        )


def _must_be_ours(hold: Hold, write: Transaction, source: Memory) -> None:
    """Raise unless the caller may change the source and could see its atoms, which keep its owner."""
    must_change(hold, write, source)
    if source.scope == "private" and source.agent != hold.caller.agent:
        raise Forbidden(f"The memory {source.id} is private to another agent: only that agent can split it.")


def _breaks(hold: Hold, source: Memory) -> tuple[list[int], How]:
    """Ask a model where topics start. Invalid answers are ignored."""
    spans = sentences(source.content)
    if hold.model is None or len(spans) > MOST_ASKED:
        return [], BY_RULES
    task = Task(
        "atomise",
        "The material is a text with one numbered sentence per line. Return the numbers of the sentences that start a "
        "new topic, in ascending order, without the first sentence. Return an empty list if the text has one topic.",
        Beginnings,
    )
    lines = "\n".join(f"{number}: {source.content[slice(*span)]}" for number, span in enumerate(spans))
    answer, how = aid(hold, task, [Material("text", lines)])
    if answer is None:
        return [], how
    if answer.begins != sorted(set(answer.begins)) or any(not 0 < one < len(spans) for one in answer.begins):
        return [], unfit("the model returned sentence numbers that do not exist")
    return answer.begins, how


def _atoms(
    hold: Hold, write: Transaction, source: Memory, most_tokens: int, breaks: list[int], how: How
) -> list[Memory]:
    spans = atoms(source.content, most_tokens, breaks)
    titles = [
        title_of(source.title, number, len(spans), source.content[slice(*span)]) for number, span in enumerate(spans, 1)
    ]
    return [_atom(hold, write, source, span, title, how) for span, title in zip(spans, titles, strict=True)]


def _atom(hold: Hold, write: Transaction, source: Memory, span: tuple[int, int], title: str, how: How) -> Memory:
    """Build an atom: the source's properties, with its own text and span."""
    content = source.content[slice(*span)]
    uri, place = _place(source, span)
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
        metadata={"atom_of": source.id, **told(how)},
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
    fresh = admit(
        draft,
        id=_id(source, span, content),
        agent=source.agent,
        origin=write.origin,
        now=write.now,
        lifetimes=hold.lifetimes,
    )
    if source.expires_at is None or source.expires_at > write.now:
        fresh = replace(fresh, expires_at=source.expires_at)
    depth = source.reflection_depth
    return with_origin(replace(fresh, reflection_depth=depth), depth) if depth else fresh


def _id(source: Memory, span: tuple[int, int], content: str) -> str:
    """Derive the id from the source and the piece: the same on every node and for every split."""
    digest = sha256(f"atom\x00{source.id}\x00{span[0]}\x00{content}".encode()).digest()
    return ids.uuid7(source.created_at, digest[:8])


def _place(source: Memory, span: tuple[int, int]) -> tuple[str, Span]:
    """Locate a piece in bytes: in the document if the source is an exact span of it, else in the source."""
    start = len(source.content[: span[0]].encode())
    end = start + len(source.content[slice(*span)].encode())
    whole = source.source_span
    if source.source_uri and whole and whole.end - whole.start == len(source.content.encode()):
        return source.source_uri, Span(whole.start + start, whole.start + end)
    return f"doc:{source.id}", Span(start, end)


def _keep(hold: Hold, write: Transaction, atom: Memory) -> Memory:
    """Write an atom. A live one is left unchanged; an archived or deleted one is revived."""
    existing = write.get(MEMORY, atom.id)
    if existing is not None and existing.state == "live":
        return existing
    atom = replace(atom, title=_free_title(write, atom))
    if existing is None:
        return write.add(MEMORY, atom, "atomise")
    again: dict[str, Any] = {
        name: getattr(atom, name) for name in ("title", "content", "tags", "metadata", "citations")
    }
    there = {"source_uri": atom.source_uri, "source_span": atom.source_span, "expires_at": atom.expires_at}
    return write.change(MEMORY, existing, replace(existing, **again, **there, state="live", reason=None), "atomise")


def _free_title(write: Transaction, atom: Memory) -> str:
    """Find a free title for an atom, numbered if another memory has it."""
    for number in range(1, MOST_VERSIONS + 1):
        title = atom.title if number == 1 else numbered(atom.title, number)
        holder = title_holder(write, atom.namespace, title)
        if holder is None or holder.id == atom.id:
            return title
    raise Conflict(f"{MOST_VERSIONS} memories already have the title {atom.title!r}: rename some of them.")


def _older(hold: Hold, session: Session, source: Memory, now: int) -> list[Memory]:
    """List the live atoms of a memory, in text order."""
    which = links.Which(relations=("derives_from",))
    edges = links.entering(session, hold.caller, [source.id], which, now, limit=10_000)
    found = memories.by_ids(session, hold.caller, [edge.id for edge in edges], now).values()
    mine = [memory for memory in found if memory.metadata.get("atom_of") == source.id]
    return sorted(mine, key=lambda atom: (atom.source_span.start if atom.source_span else 0, atom.id))


def _replace_older(hold: Hold, write: Transaction, source: Memory, made: list[Memory]) -> tuple[list[str], list[str]]:
    """Archive the atoms of an earlier split, superseded by the new atoms that overlap them; edited ones are kept."""
    fresh = {atom.id for atom in made}
    archived, edited = list[str](), list[str]()
    for old in _older(hold, write.session, source, write.now):
        if old.id in fresh:
            continue
        if not _as_cut(source, old) or not memories.may_change(write.session, hold.caller, old.id):
            edited.append(old.id)
            continue
        put_away(write, old, SUPERSEDED, "atomise")
        for atom in made:
            if _overlap(atom, old):
                tie(hold, write, atom.id, old.id, "supersedes")
        archived.append(old.id)
    return archived, edited


def _as_cut(source: Memory, atom: Memory) -> bool:
    """Whether an atom still has the exact text of its span."""
    if atom.source_span is None:
        return False
    base = source.source_span.start if source.source_span and atom.source_uri == source.source_uri else 0
    piece = source.content.encode()[atom.source_span.start - base : atom.source_span.end - base]
    return piece == atom.content.encode()


def _overlap(one: Memory, other: Memory) -> bool:
    a, b = one.source_span, other.source_span
    return a is not None and b is not None and a.start < b.end and b.start < a.end

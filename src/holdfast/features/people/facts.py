"""Facts about people: one value per key, with history, in a namespace of the person."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import lifecycle
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.memories.store_memory import must_change, put, title_holder
from holdfast.features.memories.update_memory import keep
from holdfast.features.people.person_namespace import ROOT, place_of
from holdfast.features.people.principal import admit_name
from holdfast.features.people.store import known_as
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.journal import transaction as records
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import to_text

CONTRADICTED = "contradicted"
"""Metadata key of a fact's earlier, contradicted values."""
MOST_CONTRADICTED = 20
MOST_FACTS = 1000
DELETED = "fact deleted"
"""Archive reason of a deleted fact."""


class Given(NamedTuple):
    """A fact to set."""

    principal: str
    key: str
    value: str
    confidence: float = 1.0
    source: str | None = None
    """Where it was learned: the id of a message, or a URL."""


class Told(NamedTuple):
    """A fact and its previous value."""

    memory: Memory
    before: str | None
    created: bool


class Past(NamedTuple):
    """A value of a fact and when it was set."""

    value: str | None
    """None if the fact was deleted."""
    at: int
    agent: str
    confidence: float | None


def tell(hold: Hold, given: Given) -> Told:
    """Set a fact; the previous value stays in the history, and is listed as contradicted if it differs."""
    given = given._replace(key=door.title(given.key, "key"))
    with hold.writing() as write:
        return tell_in(hold, write, given)


def tell_in(hold: Hold, write: Transaction, given: Given) -> Told:
    """Set a fact inside a transaction."""
    names = known_as(write.session, admit_name(given.principal))
    known = _held(write, names, given.key) or _taken_back(hold, write, given)
    if known is None:
        return Told(put(hold, write, _draft(hold, given, names[0]), "error", force=True).memory, None, created=True)
    must_change(hold, write, known)
    same = known.content == given.value
    metadata = known.metadata if same else _with_contradicted(known, write.now)
    if given.source is not None:
        metadata = {**metadata, "learned_from": given.source}
    changed = replace(known, content=given.value, confidence=given.confidence, metadata=metadata)
    return Told(keep(hold, write, known, changed, "fact"), known.content, created=False)


def _draft(hold: Hold, given: Given, principal: str) -> Draft:
    learned = {} if given.source is None else {"learned_from": given.source}
    return Draft(
        title=given.key,
        content=given.value,
        namespace=place_of(principal),
        kind="fact",
        tier="long",
        confidence=given.confidence,
        source=hold.caller.source,
        metadata={"principal": principal, **learned},
    )


def _with_contradicted(known: Memory, now: int) -> dict[str, Any]:
    before = {"value": known.content, "until": to_text(now), "agent_id": known.agent, "confidence": known.confidence}
    return {**known.metadata, CONTRADICTED: [*known.metadata.get(CONTRADICTED, []), before][-MOST_CONTRADICTED:]}


def _held(write: Transaction, names: tuple[str, ...], key: str) -> Memory | None:
    """Find the fact under any name of the principal; the latest of several."""
    held = [title_holder(write, place_of(name), key) for name in names]
    facts = [memory for memory in held if memory is not None]
    if any(memory.kind != "fact" for memory in facts):
        raise Conflict(f"key: {key!r} is the title of another memory in the namespace of {names[0]!r}")
    return max(facts, key=lambda memory: memory.updated_at, default=None)


def _taken_back(hold: Hold, write: Transaction, given: Given) -> Memory | None:
    """Restore the most recently deleted fact of a key, with its history."""
    gone = _facts(hold, write.session, given.principal, given.key, deleted=True)
    last = max(gone, key=lambda memory: memory.updated_at, default=None)
    return None if last is None else lifecycle.bring_back(hold, write, last)


def known(hold: Hold, principal: str, key: str | None = None, *, deleted: bool = False) -> list[Memory]:
    """List facts by key, the latest of several; or all deleted ones."""
    with hold.reading() as session:
        found = _facts(hold, session, principal, key, deleted=deleted)
    latest: dict[str, Memory] = {}
    for memory in sorted(found, key=lambda memory: memory.updated_at):
        latest[memory.id if deleted else memory.title] = memory
    return sorted(latest.values(), key=lambda memory: (memory.title, memory.id))


def _facts(hold: Hold, session: Session, principal: str, key: str | None, *, deleted: bool) -> list[Memory]:
    places = tuple(place_of(name) for name in known_as(session, admit_name(principal)))
    which = Filter(namespaces=places, kinds=("fact",))
    found = memories.select(
        session, hold.caller, which, hold.now(), limit=MOST_FACTS, skip=0, view="put_away" if deleted else "live"
    )
    return [memory for memory in found if key is None or memory.title == key]


def of_everybody(hold: Hold, key: str | None, limit: int, skip: int) -> list[Memory]:
    """List facts of all people that the caller may see, by person and key."""
    which = Filter(under=ROOT, kinds=("fact",))
    with hold.reading() as session:
        return memories.titled(session, hold.caller, which, hold.now(), key, limit=limit, skip=skip)


def one(hold: Hold, principal: str, key: str) -> Memory:
    found = known(hold, principal, key)
    if not found:
        raise NotFound(f"No fact {key!r} about {principal!r}.")
    return found[0]


def delete(hold: Hold, principal: str, key: str | None) -> list[Memory]:
    """Archive a fact, or all of them."""
    with hold.reading() as session:
        found = _facts(hold, session, principal, key, deleted=False)
    if key is not None and not found:
        raise NotFound(f"No fact {key!r} about {principal!r}.")
    put = lifecycle.archive(hold, [memory.id for memory in found], DELETED)
    if put.refused:
        raise put.refused[0][1]
    return put.done


def restore(hold: Hold, principal: str, key: str) -> Memory:
    """Restore the most recently deleted fact of a key."""
    found = [memory for memory in known(hold, principal, deleted=True) if memory.title == key]
    if not found:
        raise NotFound(f"No deleted fact {key!r} about {principal!r}.")
    return lifecycle.restore(hold, max(found, key=lambda memory: memory.updated_at).id)


def past(hold: Hold, principal: str, key: str) -> list[Past]:
    """List the values of a fact in order, under all names of the principal."""
    with hold.reading() as session:
        held = [memory for gone in (False, True) for memory in _facts(hold, session, principal, key, deleted=gone)]
        if not held:
            raise NotFound(f"No fact {key!r} about {principal!r} was ever set.")
        rows = [row for memory in held for row in session.rows("journal_known", record=memory.id, known_at=hold.now())]
    entries = sorted((journal.Entry(*row) for row in rows), key=lambda entry: entry.kept_at)
    return [_past(entry) for entry in entries if entry.kind == "memory" and entry.body is not None]


def _past(entry: journal.Entry) -> Past:
    memory = records.body_of(MEMORY, entry)
    gone = memory.state != "live"
    return Past(None if gone else memory.content, entry.kept_at, entry.actor, None if gone else memory.confidence)

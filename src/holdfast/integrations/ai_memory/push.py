"""Apply a push from an ai-memory peer: every item is checked with the sender's rights and gets an outcome."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.history.service import places_of
from holdfast.features.memories import lifecycle
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import must_be_free, must_change, title_holder
from holdfast.features.namespaces.model import STANDARD
from holdfast.features.namespaces.service import must_govern
from holdfast.features.transfer import importer as intake
from holdfast.features.transfer import schema_v1 as envelope
from holdfast.features.transfer.model import Options
from holdfast.integrations.ai_memory import cursor as places
from holdfast.integrations.ai_memory import feed as told
from holdfast.integrations.ai_memory.since import scope_of, sender_of
from holdfast.kernel.caller import admit_agent
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid, NotFound, StoreError
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.msgspec_lock import learn
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import normal
from holdfast.kernel.registry.stages import Parts, Stage

MOST = 1000
SHARED = "Another memory has this title: both are shown as one."
Outcome = Literal["applied", "noop", "conflict", "rejected"]
LISTS = (
    "memories",
    "deletions",
    "archives",
    "restores",
    "links",
    "pendings",
    "pending_decisions",
    "namespace_meta",
    "namespace_meta_clears",
)
"""In the order in which they are applied."""


STAGES: dict[str, Stage] = {"memories": "store", "deletions": "delete", "restores": "store", "links": "link"}
"""The hook stage of the items of each list."""


class Push(Struct, frozen=True, kw_only=True):
    """A batch as sent; unknown fields are listed in the answer."""

    sender_agent_id: str
    sender_clock: Any = None
    sender_wall_clock: Any = None
    memories: list[Any] = []
    deletions: list[Any] = []
    archives: list[Any] = []
    restores: list[Any] = []
    links: list[Any] = []
    pendings: list[Any] = []
    pending_decisions: list[Any] = []
    namespace_meta: list[Any] = []
    namespace_meta_clears: list[Any] = []
    dry_run: bool = False


class Item(NamedTuple):
    """The outcome of one item."""

    array: str
    place: int
    id: str | None
    outcome: Outcome
    reason: str | None = None
    code: str | None = None


def read(given: dict[str, Any]) -> Push:
    """Parse and validate a batch before anything is applied."""
    learn(Push)
    try:
        push = msgspec.convert(given, Push)
    except msgspec.ValidationError as error:
        raise Invalid(f"The batch is not valid: {error}") from None
    if long := [name for name in LISTS if len(getattr(push, name)) > MOST]:
        raise Invalid(f"{', '.join(long)}: at most {MOST} items per batch", fields=long)
    admit_agent(push.sender_agent_id, "sender_agent_id")
    return push


def take(hold: Hold, push: Push) -> list[Item]:
    """Apply a batch in one transaction; a rejected item does not affect the others. A dry run is rolled back."""
    items: list[Item] = []
    try:
        with hold.writing() as write:
            items = list(Receiving(hold, write, push).items())
            if push.dry_run:
                raise intake.Rehearsed
    except intake.Rehearsed:
        pass
    return items


def parts_of_push(hold: Hold, push: Push) -> Parts:
    """Return the stages and namespaces that a batch touches, for hooks."""
    parts = Parts()
    if push.dry_run:
        return parts
    with hold.reading() as session:
        for name, stage in STAGES.items():
            if items := getattr(push, name):
                named = [id for raw in items for id in _ids(raw)]
                targets = [_place(hold, raw) for raw in items if name == "memories"]
                parts.add(stage, [*targets, *places_of(hold, session, named)])
    return parts


def _place(hold: Hold, raw: Any) -> str:
    """Return the namespace of a pushed memory."""
    said = raw.get("namespace") if isinstance(raw, dict) else None
    return normal(said) if isinstance(said, str) and said else hold.namespace


class Receiving:
    """The application of one batch."""

    def __init__(self, hold: Hold, write: Transaction, push: Push) -> None:
        self._hold = hold
        self._write = write
        self._push = push
        self._scope = scope_of(hold, write.session)
        options = Options(trust_source=hold.caller.may("admin"), check_rights=True, scope=self._scope)
        self._intake = intake.Intake(hold, write, options)
        self._lists: dict[str, Callable[[Any], tuple[Outcome, str | None]]] = {
            "memories": self._memory,
            "deletions": self._deletion,
            "archives": self._archive,
            "restores": self._restore,
            "links": lambda raw: self._row("links", raw),
            "pendings": self._undecided,
            "pending_decisions": self._undecided,
            "namespace_meta": self._standard,
            "namespace_meta_clears": self._clear,
        }

    def items(self) -> Iterator[Item]:
        for name in LISTS:
            for index, raw in enumerate(getattr(self._push, name)):
                id = _id(raw)
                try:
                    yield Item(name, index, id, *self._lists[name](raw))
                except StoreError:
                    raise
                except HoldfastError as error:
                    yield Item(name, index, id, "rejected", error.message, error.code)

    def _memory(self, raw: Any) -> tuple[Outcome, str | None]:
        """Apply a memory if it is later than the stored one; skip an echo of what this store sent."""
        row, _ = envelope.read(envelope.MemoryRow, raw)
        at = places.read(row.updated_at or "", "updated_at") if row.updated_at else places.Since(0, None)
        stored = self._write.get(MEMORY, row.id)
        if stored is None:
            return self._new(row, raw, at.at)
        if at.seq is not None:
            return "noop", "This state was sent from here."
        must_change(self._hold, self._write, stored)
        self._intake.must_reach(stored.namespace)
        raw = {**raw, "namespace": row.namespace or stored.namespace, "scope": row.scope or stored.scope}
        self._intake.must_reach(normal(raw["namespace"]))
        if not self._is_later(stored, at.at):
            return self._earlier(stored, row)
        return self._later(stored, row, raw, at.at)

    def _new(self, row: envelope.MemoryRow, raw: dict[str, Any], at: int) -> tuple[Outcome, str | None]:
        namespace = normal(row.namespace or self._hold.namespace)
        self._intake.must_reach(namespace)
        holder = title_holder(self._write, namespace, row.title)
        outcome = self._row("memories", raw) if holder is None else self._beside(raw)
        self._note(row.id, at)
        return outcome

    def _beside(self, raw: dict[str, Any]) -> tuple[Outcome, str | None]:
        """Add a memory whose title exists here; both are kept and shown as one, as between any two stores."""
        memory = self._intake.read_memory(raw)
        titles.add_beside(self._write, memory, "import")
        return "applied", SHARED

    def _is_later(self, stored: Memory, at: int) -> bool:
        """Compare by the sender's clock if only it changed the memory since, else by this store's."""
        before = told.said(self._write.session, stored.id)
        if before is not None and before.version == stored.version:
            return at > before.updated_at
        return at > stored.updated_at

    def _earlier(self, stored: Memory, row: envelope.MemoryRow) -> tuple[Outcome, str | None]:
        if stored.state == "deleted":
            return "conflict", "It has been deleted here since."
        same = (stored.title, stored.content) == (row.title, row.content)
        return ("noop", None) if same else ("conflict", "A later state exists here.")

    def _later(
        self, stored: Memory, row: envelope.MemoryRow, raw: dict[str, Any], at: int
    ) -> tuple[Outcome, str | None]:
        taken = row.title != stored.title and stored.namespace == normal(raw["namespace"])
        holder = title_holder(self._write, stored.namespace, row.title) if taken else None
        if holder is None or holder.id == stored.id:
            outcome = self._row("memories", raw)
        else:
            self._row("memories", {**raw, "title": stored.title})
            titles.rename_one(self._write, stored.id, row.title, "import")
            outcome = "applied", SHARED
        self._note(row.id, at)
        return outcome

    def _row(self, array: str, raw: Any) -> tuple[Outcome, str | None]:
        match self._intake.outcome(array, raw):
            case "imported" | "merged":
                return "applied", None
            case "older":
                return "conflict", "A later state exists here."
            case _:
                return "noop", None

    def _note(self, id: str, at: int) -> None:
        memory = self._write.get(MEMORY, id)
        if memory is not None:
            sender = sender_of(self._hold.caller, self._push.sender_agent_id)
            told.note(self._write.session, id, sender, told.Said(memory.version, at))

    def _named(self, raw: Any) -> Memory | None:
        """Return the memory an item names, if it exists; only full ids are accepted, since it may be removed."""
        id = _id(raw)
        if id is None:
            raise Invalid("id: required, as a string or in an object")
        memory = memories.by_ids(self._write.session, self._hold.caller, [id], self._write.now, "any").get(id)
        if memory is not None:
            must_change(self._hold, self._write, memory)
            self._intake.must_reach(memory.namespace)
        return memory

    def _deletion(self, raw: Any) -> tuple[Outcome, str | None]:
        """Delete a memory; the tombstone replicates. A dated deletion loses to a later edit."""
        memory = self._named(raw)
        if memory is None or memory.state == "deleted":
            return "noop", "There is no such memory." if memory is None else None
        said = raw.get("deleted_at") if isinstance(raw, dict) else None
        if isinstance(said, str) and places.read(said, "deleted_at").at < memory.updated_at:
            return "conflict", "It has been changed here since."
        self._write.change(MEMORY, memory, replace(memory, state="deleted"), "delete")
        return "applied", None

    def _archive(self, raw: Any) -> tuple[Outcome, str | None]:
        memory = self._named(raw)
        if memory is None or memory.state != "live":
            return "noop", "There is no such memory." if memory is None else None
        lifecycle.put_away(self._write, memory, "archive", "archive")
        return "applied", None

    def _restore(self, raw: Any) -> tuple[Outcome, str | None]:
        memory = self._named(raw)
        if memory is None:
            raise NotFound("There is no such memory.")
        if memory.state != "archived":
            return "noop", None
        must_be_free(self._hold, self._write, memory)
        lifecycle.bring_back(self._hold, self._write, memory)
        return "applied", None

    def _standard(self, raw: Any) -> tuple[Outcome, str | None]:
        self._must_govern()
        return self._row("namespaces", raw)

    def _clear(self, raw: Any) -> tuple[Outcome, str | None]:
        self._must_govern()
        if not isinstance(raw, str):
            raise Invalid("A namespace name is required.")
        self._intake.must_reach(raw)
        known = self._write.get(STANDARD, raw)
        if known is None or known.state != "live":
            return "noop", None
        must_govern(self._hold, self._write, known)
        self._write.change(STANDARD, known, replace(known, state="deleted"), "standard")
        return "applied", None

    def _must_govern(self) -> None:
        caller = self._hold.caller
        if not (self._scope.admin if caller.peer else caller.may("admin")):
            raise Forbidden("Namespace standards are accepted from admin peers only.")

    def _undecided(self, _: Any) -> tuple[Outcome, str | None]:
        raise Forbidden("Approvals are decided in the store that requires them; peers cannot push them.")


def _ids(raw: Any) -> list[str]:
    """Return the memory ids in an item: its own, or both ends of a link."""
    ends = [raw.get("source_id"), raw.get("target_id")] if isinstance(raw, dict) else []
    return [id for id in (_id(raw), *ends) if isinstance(id, str)]


def _id(raw: Any) -> str | None:
    """Return the id of an item, if any."""
    id = raw.get("id") if isinstance(raw, dict) else raw
    return id if isinstance(id, str) else None

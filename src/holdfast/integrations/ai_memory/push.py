"""Apply a push from an ai-memory peer: every item is checked with the sender's rights and gets an outcome."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import lifecycle
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import find_namespaces, require_write_access
from holdfast.features.memories.store_memory import find_title_holder, require_free_title
from holdfast.features.namespaces.model import STANDARD
from holdfast.features.namespaces.service import require_standard_access
from holdfast.features.transfer import importer, schema_v1
from holdfast.features.transfer.import_state import Options
from holdfast.integrations.ai_memory import cursor, feed
from holdfast.integrations.ai_memory.changes import peer_scope, sender_name
from holdfast.kernel.context import Context, validate_agent_id
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid, NotFound, StoreError
from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import normalize_name
from holdfast.kernel.registry.stages import Stage, StageEffects

MAX_ITEMS = 1000
SHARED_TITLE_REASON = "Another memory has this title: both are shown as one."
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


class ItemResult(NamedTuple):
    """The outcome of one item."""

    array: str
    place: int
    id: str | None
    outcome: Outcome
    reason: str | None = None
    code: str | None = None


def parse_push(given: dict[str, Any]) -> Push:
    """Parse and validate a batch before anything is applied."""
    register_type(Push)
    try:
        push = msgspec.convert(given, Push)
    except msgspec.ValidationError as error:
        raise Invalid(f"The batch is not valid: {error}") from None
    if long := [name for name in LISTS if len(getattr(push, name)) > MAX_ITEMS]:
        raise Invalid(f"{', '.join(long)}: at most {MAX_ITEMS} items per batch", fields=long)
    validate_agent_id(push.sender_agent_id, "sender_agent_id")
    return push


def apply_push(ctx: Context, push: Push) -> list[ItemResult]:
    """Apply a batch in one transaction; a rejected item does not affect the others. A dry run is rolled back."""
    items: list[ItemResult] = []
    try:
        with ctx.transaction() as write:
            items = list(PushReceiver(ctx, write, push).items())
            if push.dry_run:
                raise importer.DryRunRollback
    except importer.DryRunRollback:
        pass
    return items


def parts_of_push(ctx: Context, push: Push) -> StageEffects:
    """Return the stages and namespaces that a batch touches, for hooks."""
    parts = StageEffects()
    if push.dry_run:
        return parts
    with ctx.reading() as session:
        for name, stage in STAGES.items():
            if items := getattr(push, name):
                named = [id for raw in items for id in _named_ids(raw)]
                targets = [_namespace_of(ctx, raw) for raw in items if name == "memories"]
                parts.add(stage, [*targets, *find_namespaces(ctx, session, named)])
    return parts


def _namespace_of(ctx: Context, raw: Any) -> str:
    """Return the namespace of a pushed memory."""
    said = raw.get("namespace") if isinstance(raw, dict) else None
    return normalize_name(said) if isinstance(said, str) and said else ctx.namespace


class PushReceiver:
    """The application of one batch."""

    def __init__(self, ctx: Context, write: Transaction, push: Push) -> None:
        self._ctx = ctx
        self._write = write
        self._push = push
        self._scope = peer_scope(ctx, write.session)
        options = Options(trust_source=ctx.caller.has_right("admin"), check_rights=True, scope=self._scope)
        self._intake = importer.Importer(ctx, write, options)
        self._lists: dict[str, Callable[[Any], tuple[Outcome, str | None]]] = {
            "memories": self._memory,
            "deletions": self._delete,
            "archives": self._archive,
            "restores": self._restore,
            "links": lambda raw: self._row("links", raw),
            "pendings": self._reject_pending,
            "pending_decisions": self._reject_pending,
            "namespace_meta": self._standard,
            "namespace_meta_clears": self._clear,
        }

    def items(self) -> Iterator[ItemResult]:
        for name in LISTS:
            for index, raw in enumerate(getattr(self._push, name)):
                id = _named_id(raw)
                try:
                    yield ItemResult(name, index, id, *self._lists[name](raw))
                except StoreError:
                    raise
                except HoldfastError as error:
                    yield ItemResult(name, index, id, "rejected", error.message, error.code)

    def _memory(self, raw: Any) -> tuple[Outcome, str | None]:
        """Apply a memory if it is later than the stored one; skip an echo of what this store sent."""
        row, _ = schema_v1.read_row(schema_v1.MemoryRow, raw)
        at = cursor.parse_cursor(row.updated_at or "", "updated_at") if row.updated_at else cursor.Cursor(0, None)
        stored = self._write.get(MEMORY, row.id)
        if stored is None:
            return self._new(row, raw, at.at)
        if at.seq is not None:
            return "noop", "This state was sent from here."
        require_write_access(self._ctx, self._write, stored)
        self._intake.must_reach(stored.namespace)
        raw = {**raw, "namespace": row.namespace or stored.namespace, "scope": row.scope or stored.scope}
        self._intake.must_reach(normalize_name(raw["namespace"]))
        if not self._is_later(stored, at.at):
            return self._keep_stored(stored, row)
        return self._apply_newer(stored, row, raw, at.at)

    def _new(self, row: schema_v1.MemoryRow, raw: dict[str, Any], at: int) -> tuple[Outcome, str | None]:
        namespace = normalize_name(row.namespace or self._ctx.namespace)
        self._intake.must_reach(namespace)
        holder = find_title_holder(self._write, namespace, row.title)
        outcome = self._row("memories", raw) if holder is None else self._add_beside(raw)
        self._record_peer_state(row.id, at)
        return outcome

    def _add_beside(self, raw: dict[str, Any]) -> tuple[Outcome, str | None]:
        """Add a memory whose title exists here; both are kept and shown as one, as between any two stores."""
        memory = self._intake.read_memory(raw)
        title_groups.add_to_group(self._write, memory, "import")
        return "applied", SHARED_TITLE_REASON

    def _is_later(self, stored: Memory, at: int) -> bool:
        """Compare by the sender's clock if only it changed the memory since, else by this store's."""
        before = feed.get_peer_state(self._write.session, stored.id)
        if before is not None and before.version == stored.version:
            return at > before.updated_at
        return at > stored.updated_at

    def _keep_stored(self, stored: Memory, row: schema_v1.MemoryRow) -> tuple[Outcome, str | None]:
        if stored.state == "deleted":
            return "conflict", "It has been deleted here since."
        same = (stored.title, stored.content) == (row.title, row.content)
        return ("noop", None) if same else ("conflict", "A later state exists here.")

    def _apply_newer(
        self, stored: Memory, row: schema_v1.MemoryRow, raw: dict[str, Any], at: int
    ) -> tuple[Outcome, str | None]:
        taken = row.title != stored.title and stored.namespace == normalize_name(raw["namespace"])
        holder = find_title_holder(self._write, stored.namespace, row.title) if taken else None
        if holder is None or holder.id == stored.id:
            outcome = self._row("memories", raw)
        else:
            self._row("memories", {**raw, "title": stored.title})
            title_groups.rename_member(self._write, stored.id, row.title, "import")
            outcome = "applied", SHARED_TITLE_REASON
        self._record_peer_state(row.id, at)
        return outcome

    def _row(self, array: str, raw: Any) -> tuple[Outcome, str | None]:
        match self._intake.import_row(array, raw):
            case "imported" | "merged":
                return "applied", None
            case "older":
                return "conflict", "A later state exists here."
            case _:
                return "noop", None

    def _record_peer_state(self, id: str, at: int) -> None:
        memory = self._write.get(MEMORY, id)
        if memory is not None:
            sender = sender_name(self._ctx.caller, self._push.sender_agent_id)
            feed.put_peer_state(self._write.session, id, sender, feed.PeerState(memory.version, at))

    def _find_memory(self, raw: Any) -> Memory | None:
        """Return the memory an item names, if it exists; only full ids are accepted, since it may be removed."""
        id = _named_id(raw)
        if id is None:
            raise Invalid("id: required, as a string or in an object")
        memory = memories.by_ids(self._write.session, self._ctx.caller, [id], self._write.now, "any").get(id)
        if memory is not None:
            require_write_access(self._ctx, self._write, memory)
            self._intake.must_reach(memory.namespace)
        return memory

    def _delete(self, raw: Any) -> tuple[Outcome, str | None]:
        """Delete a memory; the tombstone replicates. A dated deletion loses to a later edit."""
        memory = self._find_memory(raw)
        if memory is None or memory.state == "deleted":
            return "noop", "There is no such memory." if memory is None else None
        said = raw.get("deleted_at") if isinstance(raw, dict) else None
        if isinstance(said, str) and cursor.parse_cursor(said, "deleted_at").at < memory.updated_at:
            return "conflict", "It has been changed here since."
        self._write.change(MEMORY, memory, replace(memory, state="deleted"), "delete")
        return "applied", None

    def _archive(self, raw: Any) -> tuple[Outcome, str | None]:
        memory = self._find_memory(raw)
        if memory is None or memory.state != "live":
            return "noop", "There is no such memory." if memory is None else None
        lifecycle.archive_memory(self._write, memory, "archive", "archive")
        return "applied", None

    def _restore(self, raw: Any) -> tuple[Outcome, str | None]:
        memory = self._find_memory(raw)
        if memory is None:
            raise NotFound("There is no such memory.")
        if memory.state != "archived":
            return "noop", None
        require_free_title(self._ctx, self._write, memory)
        lifecycle.restore_memory(self._ctx, self._write, memory)
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
        require_standard_access(self._ctx, self._write, known)
        self._write.change(STANDARD, known, replace(known, state="deleted"), "standard")
        return "applied", None

    def _must_govern(self) -> None:
        caller = self._ctx.caller
        if not (self._scope.admin if caller.peer else caller.has_right("admin")):
            raise Forbidden("Namespace standards are accepted from admin peers only.")

    def _reject_pending(self, _: Any) -> tuple[Outcome, str | None]:
        raise Forbidden("Approvals are decided in the store that requires them; peers cannot push them.")


def _named_ids(raw: Any) -> list[str]:
    """Return the memory ids in an item: its own, or both ends of a link."""
    ends = [raw.get("source_id"), raw.get("target_id")] if isinstance(raw, dict) else []
    return [id for id in (_named_id(raw), *ends) if isinstance(id, str)]


def _named_id(raw: Any) -> str | None:
    """Return the id of an item, if any."""
    id = raw.get("id") if isinstance(raw, dict) else raw
    return id if isinstance(id, str) else None

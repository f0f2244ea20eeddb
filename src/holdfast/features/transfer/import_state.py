"""Options and state of an import: checks of rights, ids resolved in this store, and the write of a record."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.grant import GRANT
from holdfast.features.memories.read_memories import require_write_access
from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.features.transfer import schema_v1
from holdfast.features.transfer.exporter import Row, make_extra_key
from holdfast.features.transfer.schema_v1 import read_timestamp
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Forbidden, NotFound
from holdfast.kernel.journal.kinds import MEMORY, Kind
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.memory import Memory, OnConflict
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope

Outcome = Literal["imported", "merged", "unchanged", "older"]
"""imported: new. merged: changed an existing record. unchanged: identical. older: a later state exists."""


class Options(Struct, frozen=True, kw_only=True):
    preserve_timestamps: bool = True
    trust_source: bool = True
    """Keep the owners from the file; otherwise the importer becomes the owner."""
    on_conflict: OnConflict = "merge"
    check_rights: bool = False
    """Require the caller's write permission for every record, not only reach."""
    scope: PeerScope = FULL_SCOPE
    """Namespaces accepted from the sending peer."""


R = TypeVar("R", bound=Struct)


class ImportState:
    """State of one import, shared by all its rows."""

    def __init__(self, ctx: Context, write: Transaction | None, options: Options) -> None:
        self.ctx = ctx
        self.options = options
        self.restamped = 0
        """Number of memories whose owner became the importer."""
        self.merged_ids: dict[str, str] = {}
        """Ids of the file, mapped to the memories that they were merged into."""
        self._found_ids: set[str] = set()
        if write is not None:
            self.use_transaction(write)

    def use_transaction(self, write: Transaction) -> None:
        """Continue in another transaction."""
        self.write = write

    def must_reach(self, namespace: str) -> None:
        """Raise unless the caller can write to a namespace. The error does not reveal its name to a peer."""
        self.ctx.caller.require_access(namespace)
        if not self.options.scope.can_receive(namespace):
            raise Forbidden("Its namespace is not accepted from this peer.")

    def set_times(self, record: R) -> R:
        """Keep the times and version of a record, or reset them to now."""
        if self.options.preserve_timestamps:
            return record
        return replace(record, created_at=self.write.now, updated_at=self.write.now, version=1)

    def put_record(
        self, kind: Kind[R], known: R | None, incoming: R, check: Callable[[Any], object] = lambda wanted: None
    ) -> Outcome:
        """Add a record, or replace an older state. Restores a deleted record, except a grant."""
        if known is None:
            check(incoming)
            self.write.add(kind, incoming, "import")
            return "imported"
        before: Any = known
        after: Any = replace(known, **{name: getattr(incoming, name) for name in _mutable_fields(kind)})
        if not field_versions.diff_fields(kind.merge_schema, before, after):
            return "unchanged"
        revived = before.state == "deleted" and kind.name != GRANT.name
        if incoming.updated_at < before.updated_at and not revived:  # type: ignore[attr-defined]
            return "older"
        if self.options.on_conflict == "error":
            raise Conflict(f"The {kind.name} {before.id} exists with other contents.", id=before.id)
        check(after)
        self.write.change(kind, known, after, "import")
        return "merged"

    def save_record(self, array: str, kind: Kind[R], record: Any, rest: Row) -> Outcome:
        """Add a record or replace an older state, with the unknown fields of its row."""
        known = self.write.get(kind, record.id)
        return self.keep_extras(array, record.id, rest, self.put_record(kind, known, self.set_times(record)))

    def resolve_memory(self, id: str, field: str) -> str:
        """Id in this store of a memory of the file. Raises NotFound if it is missing."""
        here = self.merged_ids.get(id, id)
        if here not in self._found_ids:
            memory = self._find_reachable(here)
            if memory is None or memory.state == "deleted":
                raise NotFound(f"{field}: there is no memory {id!r}.", id=id, fields=[field])
            self.must_reach(memory.namespace)
            self._found_ids.add(here)
        return here

    def _find_reachable(self, id: str) -> Memory | None:
        """Load a memory within the caller's reach; with check_rights, only a visible one."""
        if self.options.check_rights:
            return memories.by_ids(self.write.session, self.ctx.caller, [id], self.write.now, "any").get(id)
        memory = self.write.get(MEMORY, id)
        return memory if memory is not None and self.ctx.caller.can_access(memory.namespace) else None

    def resolve_writable(self, id: str, field: str) -> str:
        """The same for a memory that this row changes: the caller must be able to write it."""
        here = self.resolve_memory(id, field)
        if self.options.check_rights:
            memory = self.write.get(MEMORY, here)
            assert memory is not None, "resolved above"
            self.must_write(memory)
        return here

    def must_write(self, memory: Memory) -> None:
        require_write_access(self.ctx, self.write, memory)
        self.must_reach(memory.namespace)

    def keep_extras(self, array: str, id: str, rest: Row, outcome: Outcome) -> Outcome:
        """Store the unknown fields of a row."""
        if rest and outcome != "older":
            self.write.session.do("meta_put", name=make_extra_key(array, id), body=canonical_json(rest).decode())
        return outcome

    def read_row(self, shape: type[R], raw: Any) -> tuple[R, Row]:
        """Parse a row. Unknown fields pass the global policy on secrets."""
        row, rest = schema_v1.read_row(shape, raw)
        return row, self.apply_secret_policy(EVERYWHERE, "row", rest)

    def apply_secret_policy(self, namespace: str, field: str, value: Any) -> Any:
        """Apply the policy on secrets of a namespace to a value."""
        return store_memory.filter_secrets(self.write.session, namespace, {field: value})[0][field]

    def read_times(self, row: schema_v1.Row, created: str | None) -> dict[str, Any]:
        """Times, origin and version of a row."""
        created_at = read_timestamp(created, "created_at")
        created_at = self.write.now if created_at is None else created_at
        updated_at = read_timestamp(row.updated_at, "updated_at")
        return {
            "created_at": created_at,
            "updated_at": created_at if updated_at is None else updated_at,
            "origin": row.origin or self.write.origin,
            "version": row.version,
        }

    def must_trust(self, what: str) -> None:
        if not self.options.trust_source:
            raise Forbidden(f"{what}: imported from a trusted source only; use trust_source.")

    def must_reach_all(self, what: str) -> None:
        if "*" not in self.ctx.caller.namespaces:
            raise Forbidden(f"{what}: importing requires a key for all namespaces.")


def _mutable_fields(kind: Kind[Any]) -> tuple[str, ...]:
    """Fields that a change can modify; the others are fixed at creation."""
    shape = kind.merge_schema
    return (*shape.conflict_fields, *shape.lww_fields, *shape.max_fields, *shape.set_fields, *shape.map_fields)

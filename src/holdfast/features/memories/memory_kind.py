"""Kinds of memory with fields of their own, declared once: how they are added, found, changed and shown."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter, View, require_write_access
from holdfast.features.memories.store_memory import store_draft
from holdfast.features.memories.update_memory import write_update
from holdfast.kernel.context import Context
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Kind, Memory, OnConflict
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.registry.operation import value_or_unset
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import format_time

V = TypeVar("V", bound=Struct)
MAX_READ = 1000


class MemoryKind(NamedTuple):
    """A kind of memory."""

    name: Kind
    label: str
    """Name with its article, for errors."""
    on_conflict: OnConflict
    """What happens if the title is taken."""
    fields: Mapping[str, str | Callable[[Memory], Any]]
    """Fields of its views that the memory and its metadata have under another name, or that are computed."""
    order: str = "by_importance"

    def add(self, ctx: Context, write: Transaction, title: str, content: str, namespace: str, **fields: Any) -> Memory:
        """Store a memory of this kind that does not expire."""
        source = ctx.caller.source
        draft = Draft(
            title=title, content=content, namespace=namespace, kind=self.name, tier="long", source=source, **fields
        )
        return store_draft(ctx, write, draft, self.on_conflict, force=True).memory

    def select(self, ctx: Context, session: Session, view: View = "live", **filters: Any) -> list[Memory]:
        """Read the visible memories of this kind, in its order."""
        which = Filter(kinds=(self.name,), **filters)
        return memories.select(session, ctx.caller, which, ctx.now(), order=self.order, limit=MAX_READ, view=view)

    def resolve(self, ctx: Context, write: Transaction, id: str) -> Memory:
        """Read the memory of an id. Raises NotFound for another kind."""
        memory = memories.resolve(write.session, ctx.caller, id, write.now)
        if memory.kind != self.name:
            raise NotFound(f"{id!r} is not {self.label}.")
        return memory

    def change(
        self, ctx: Context, write: Transaction, memory: Memory, metadata: Mapping[str, Any], op: str = "", **fields: Any
    ) -> Memory:
        """Change fields, and entries of the metadata. Raises if the caller may not."""
        require_write_access(ctx, write, memory)
        changed = replace(memory, metadata={**memory.metadata, **metadata}, **fields)
        return write_update(ctx, write, memory, changed, op or self.name)

    def view(self, type: type[V], memory: Memory) -> V:
        """Build an answer: each field is that of the memory or its metadata, unless it is declared otherwise."""
        return type(**{name: self._read_field(memory, name) for name in type.__struct_fields__})

    def views(self, type: type[V], found: Iterable[Memory]) -> list[V]:
        return [self.view(type, one) for one in found]

    def _read_field(self, memory: Memory, name: str) -> Any:
        source = self.fields.get(name, name)
        if callable(source):
            value = source(memory)
        else:
            value = getattr(memory, source) if source in Memory.__struct_fields__ else memory.metadata.get(source)
        return format_time(value) if name.endswith("_at") and isinstance(value, int) else value_or_unset(value)


def read_text(name: str) -> Callable[[Memory], str]:
    """Read an entry of the metadata as text; empty if it is missing."""
    return lambda memory: str(memory.metadata.get(name, ""))

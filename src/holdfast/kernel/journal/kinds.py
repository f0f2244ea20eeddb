"""Record kinds: what tables, journal, merge and tombstones need to know about a replicated record.

The kernel defines memories and links; features register their own kinds.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from holdfast.kernel.journal.journal import Entry
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.link import LINK_MERGE_SCHEMA, Link
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA, Citation, Memory, Span, erase_memory
from holdfast.kernel.storage.index_terms import encode_terms
from holdfast.kernel.storage.port import Row, SearchTexts
from holdfast.kernel.text.words import index_bigrams

_json = msgspec.json.Encoder()
_PLAIN = (str, int, float, bytes)


def content_hash(title: str, content: str) -> str:
    return sha256(f"{title}\x00{content}".encode()).hexdigest()


def searchable_texts(memory: Memory) -> SearchTexts | None:
    """Return the searchable texts of a memory; None if it is deleted."""
    if memory.state == "deleted":
        return None
    return build_texts(memory.title, memory.content, column_value(memory.tags))


def build_texts(title: str, content: str, tags: str) -> SearchTexts:
    """Build searchable texts, with character bigrams of scripts that have no blanks."""
    text = f"{title} {content} {tags}"
    return SearchTexts(title, content, tags, "" if text.isascii() else index_bigrams(text))


def search_columns(memory: Memory) -> dict[str, Any]:
    """Precompute the columns that recall needs; text columns are empty if the memory is deleted."""
    texts = searchable_texts(memory)
    return {
        "thread_key": thread_key(memory),
        "position": memory.place or 0,
        "bigrams": texts.bigrams if texts else "",
        "index_terms": encode_terms(texts.title, texts.content, texts.tags) if texts else "",
    }


def thread_key(memory: Memory) -> str | None:
    """Group consecutive turns: by thread, else by time, else by namespace.

    Memories without a speaker have no group: two notes of the same time may be unrelated.
    """
    if memory.thread is not None:
        return f"t {memory.namespace} {memory.thread}"
    if memory.speaker is None:
        return None
    if memory.occurred_at is not None:
        return f"o {memory.namespace} {memory.occurred_at}"
    return f"s {memory.namespace}"


def columns_of(record: Struct) -> dict[str, Any]:
    return {field: column_value(getattr(record, field)) for field in record.__struct_fields__}


def column_value(value: Any) -> Any:
    return value if value is None or isinstance(value, _PLAIN) else _json.encode(value).decode()


R = TypeVar("R", bound=Struct)


def refuse_purge(record: Any) -> Any:
    """Tombstone function of a kind that is never purged."""
    raise TypeError(type(record).__name__)


class Kind(NamedTuple, Generic[R]):
    """A journalled record kind."""

    name: str
    type: type[R]
    merge_schema: field_versions.MergeSchema
    about: Callable[[R], str | None]
    """Id of the memory whose visibility decides who can see a change of this record."""
    load: Callable[[Row], R]
    tombstone: Callable[[R], R] = refuse_purge
    """Returns the record without its content, as after a purge."""
    references: Callable[[R], Sequence[tuple[str, str]]] = lambda record: ()
    """Kind and id of each record it depends on."""
    undo_refusal: str | None = None
    """Why no change of such a record can be undone; None: it can."""


KINDS: dict[str, Kind[Any]] = {}
"""Registered kinds by name, in order of registration."""


def register_kind(kind: Kind[R]) -> Kind[R]:
    """Register a kind; raises ValueError if the name is taken."""
    if kind.name in KINDS:
        raise ValueError(f"The record kind {kind.name} is registered twice.")
    KINDS[kind.name] = kind
    return kind


def kind_of(record: Struct) -> Kind[Any]:
    """The kind of a record."""
    return next(kind for kind in KINDS.values() if kind.type is type(record))


def can_be_purged(record: type[Struct]) -> bool:
    """Whether records of a type have a tombstone."""
    return any(kind.type is record and kind.tombstone is not refuse_purge for kind in KINDS.values())


def tombstone_of(record: Any) -> Any:
    """A record without its content."""
    return kind_of(record).tombstone(record)


def load_memory(row: Row) -> Memory:
    """Load a memory from a row of `memory.columns`."""
    values = list(row)
    values[12] = tuple(msgspec.json.decode(row[12]))
    values[13] = msgspec.json.decode(row[13])
    values[14] = msgspec.json.decode(row[14], type=tuple[Citation, ...]) if row[14] != "[]" else ()
    values[16] = msgspec.json.decode(row[16], type=Span) if row[16] else None
    values[31] = msgspec.json.decode(row[31]) if row[31] != "{}" else {}
    return Memory(*values)


MEMORY = register_kind(Kind("memory", Memory, MEMORY_MERGE_SCHEMA, lambda memory: memory.id, load_memory, erase_memory))
LINK = register_kind(
    Kind(
        "link",
        Link,
        LINK_MERGE_SCHEMA,
        lambda link: link.source,
        lambda row: Link(*row),
        references=lambda link: (("memory", link.source), ("memory", link.target)),
    )
)


def body_of(kind: Kind[R], entry: Entry) -> R:
    """Return the record as of a journal entry."""
    assert entry.body is not None
    register_type(kind.type)
    return msgspec.json.decode(entry.body, type=kind.type)


def body_text(record: Struct) -> str:
    """Encode a record for the journal."""
    return _json.encode(record).decode()

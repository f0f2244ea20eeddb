"""Table columns of a record, and the search columns of a memory."""

from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.index_terms import encode_terms
from holdfast.kernel.storage.port import SearchTexts
from holdfast.kernel.text.bigrams import index_bigrams

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
    return SearchTexts(title, content, tags, index_bigrams(f"{title} {content} {tags}"))


def search_columns(memory: Memory) -> dict[str, Any]:
    """Precompute the columns that recall needs; text columns are empty if the memory is deleted."""
    texts = searchable_texts(memory)
    return {
        "strand": thread_key(memory),
        "spot": memory.place or 0,
        "spelled": texts.bigrams if texts else "",
        "parsed": encode_terms(texts.title, texts.content, texts.tags) if texts else "",
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

"""A LangGraph store: every item is a memory, addressed by its namespace and key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from holdfast.integrations.namespace_segments import SAFE_CHARS, from_segment, to_segment, to_short_segment
from holdfast.integrations.threads import in_thread
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.records.validate import MAX_SEGMENTS

if TYPE_CHECKING:
    from holdfast.app import Holdfast

PAGE = 1000
MAX_HITS = 50
"""At most this many items have a score; the others follow without one."""
MAX_TEXT = 60_000
MAX_TITLE = 400
UNINDEXED_CONTENT = "(not indexed)"
METADATA_KEY = "langgraph"
"""Metadata key of the item's namespace, key and value."""

Path = tuple[str, ...]


class StoredItem(NamedTuple):
    """An item and its memory."""

    item: SearchItem
    memory: Any


class HoldfastStore(BaseStore):
    """A persistent LangGraph store, searchable like all memories.

    `fields` are the paths in a value that are indexed, unless `put` sets others; by default the whole value is
    indexed. A per-item TTL is not supported.
    """

    def __init__(self, hold: Holdfast, *, namespace: str = "langgraph", fields: list[str] | None = None) -> None:
        self._hold = hold
        self._root = namespace
        self._fields = fields or ["$"]
        self._max_depth = MAX_SEGMENTS - namespace.count("/") - 1

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run a batch. Reads see the state before it; of several puts of an item the last one wins."""
        results: list[Result] = []
        puts: dict[tuple[Path, str], PutOp] = {}
        for op in list(ops):
            validate_op_namespace(op)
            match op:
                case GetOp():
                    results.append(self._get(op))
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._list_namespaces(op))
                case PutOp():
                    puts[(op.namespace, op.key)] = op
                    results.append(None)
                case _:
                    raise ValueError(f"Unknown operation type: {type(op)}")
        self._apply_puts(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        asked = list(ops)
        return await in_thread(lambda: self.batch(asked))

    def _apply_puts(self, ops: list[PutOp]) -> None:
        if any(op.ttl is not None for op in ops):
            raise NotImplementedError("TTL is not supported by HoldfastStore: set ttl=None.")
        drafts = [self._draft(op, op.value) for op in ops if op.value is not None]
        for start in range(0, len(drafts), PAGE):
            done = self._hold.bulk_store(memories=drafts[start : start + PAGE], on_conflict="merge")
            if done.errors:
                wrong = done.errors[0]
                raise Invalid(f"The item {drafts[start + wrong.index]['title']!r} cannot be stored: {wrong.error}")
        for op in ops:
            if op.value is None:
                self._delete(op)

    def _delete(self, op: PutOp) -> None:
        memory = self._find_memory(op.namespace, op.key)
        if memory is not None:
            try:
                self._hold.delete(id=memory.id)
            except NotFound:
                return

    def _draft(self, op: PutOp, value: Any) -> dict[str, Any]:
        value = dict(value)
        return {
            "title": _title(op.key),
            "content": self._text(value, op.index),
            "namespace": self._namespace_of(op.namespace),
            "tier": "long",
            "source_uri": self._uri(op.namespace, op.key),
            "metadata": {
                METADATA_KEY: {
                    "namespace": list(op.namespace),
                    "key": op.key,
                    "value": json.dumps(value, ensure_ascii=False),
                    "indexed": op.index is not False,
                }
            },
            "force": True,
        }

    def _text(self, value: dict[str, Any], index: Any) -> str:
        """Return the indexed text of an item."""
        if index is False:
            return UNINDEXED_CONTENT
        texts = [text for path in index or self._fields for text in get_text_at_path(value, path)]
        text = "\n".join(texts).replace("\x00", "").encode(errors="replace")[:MAX_TEXT].decode(errors="ignore")
        return text if text.strip() else UNINDEXED_CONTENT

    def _namespace_of(self, path: Path) -> str:
        """Return the namespace of a path; levels beyond the maximum depth are joined in the last segment."""
        segments = [to_segment(label) for label in path]
        whole, rest = segments[: self._max_depth - 1], segments[self._max_depth - 1 :]
        return "/".join([self._root, *whole, *([":".join(rest)] if rest else [])])

    def _path_of(self, place: str) -> Path:
        """Return the path of a namespace."""
        segments = place.removeprefix(self._root).split("/")[1:]
        return tuple(from_segment(label) for segment in segments for label in segment.split(":"))

    def _uri(self, path: Path, key: str) -> str:
        return f"{self._uri_prefix(path)}#{_title(key)}"

    def _uri_prefix(self, path: Path) -> str:
        """Return the prefix of the URIs of all items at or below a path."""
        return "uri:" + "".join(f"{part}/" for part in (self._root, *map(to_segment, path)))

    def _find_memory(self, path: Path, key: str) -> Any:
        found = self._hold.search(source_uri=self._uri(path, key), namespace=self._namespace_of(path), limit=10).results
        return next((memory for memory in found if _item_metadata(memory).get("key") == key), None)

    def _get(self, op: GetOp) -> Item | None:
        memory = self._find_memory(op.namespace, op.key)
        if memory is None:
            return None
        item = _item(memory)
        return Item(
            value=item.value,
            key=item.key,
            namespace=item.namespace,
            created_at=item.created_at,
            updated_at=item.updated_at,
        )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        """Return the items that match the query, best first, then the rest, latest first."""
        found = list(self._recall_items(op, op.query)) if op.query else []
        if len(found) < op.offset + op.limit:
            seen = {held.memory.id for held in found}
            rest = [
                held
                for held in self._list_items(op.namespace_prefix)
                if held.memory.id not in seen and _passes_filter(held, op)
            ]
            rest.sort(key=lambda held: (held.item.updated_at, held.memory.id), reverse=True)
            found += rest
        return [held.item for held in found[op.offset : op.offset + op.limit]]

    def _recall_items(self, op: SearchOp, query: str) -> Iterator[StoredItem]:
        """Recall the items for a query; near-duplicates of a hit share its score."""
        below = self._uri_prefix(op.namespace_prefix)
        for hit in self._hold.recall(context=query, source_uri_prefix=below, limit=MAX_HITS).memories:
            for memory in (hit, *(self._hold.get(id=id) for id in hit.like or ())):
                if _item_metadata(memory).get("indexed"):
                    held = StoredItem(_item(memory, hit.score), memory)
                    if _passes_filter(held, op):
                        yield held

    def _list_items(self, prefix: Path) -> Iterator[StoredItem]:
        """Return every item at or below a path."""
        for path, place in self._list_places():
            if path[: len(prefix)] == prefix:
                for memory in self._list_memories(place):
                    if _item_metadata(memory):
                        yield StoredItem(_item(memory), memory)

    def _list_memories(self, place: str) -> Iterator[Any]:
        skip = 0
        while page := self._hold.list(namespace=place, limit=PAGE, offset=skip).memories:
            yield from page
            skip += PAGE
            if len(page) < PAGE:
                return

    def _list_places(self) -> list[tuple[Path, str]]:
        places = [one.namespace for one in self._hold.namespaces().namespaces]
        return [(self._path_of(one), one) for one in places if one == self._root or one.startswith(f"{self._root}/")]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Path]:
        paths = {path for path, _ in self._list_places() if path}
        fit = {path for path in paths if all(_matches(one, path) for one in op.match_conditions or ())}
        cut = sorted({path[: op.max_depth] for path in fit} if op.max_depth is not None else fit)
        return cut[op.offset : op.offset + op.limit]


def _title(key: str) -> str:
    return to_short_segment(key, SAFE_CHARS + ".:/", MAX_TITLE)


def _item_metadata(memory: Any) -> dict[str, Any]:
    """Return the item metadata of a memory; empty if LangGraph did not put it."""
    mark = memory.metadata.get(METADATA_KEY)
    return mark if isinstance(mark, dict) else {}


def _item(memory: Any, score: float | None = None) -> SearchItem:
    mark = _item_metadata(memory)
    return SearchItem(
        namespace=tuple(mark["namespace"]),
        key=mark["key"],
        value=json.loads(mark["value"]),
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        score=score,
    )


def _passes_filter(held: StoredItem, op: SearchOp) -> bool:
    return all(_value_matches(held.item.value.get(name), wanted) for name, wanted in (op.filter or {}).items())


def _matches(condition: MatchCondition, path: Path) -> bool:
    """Return whether a path matches a prefix or suffix condition; * matches any label."""
    wanted = condition.path
    if len(path) < len(wanted):
        return False
    part = path[: len(wanted)] if condition.match_type == "prefix" else path[len(path) - len(wanted) :]
    return all(label == asked or asked == "*" for label, asked in zip(part, wanted, strict=True))


def _value_matches(value: Any, wanted: Any) -> bool:
    """Return whether a value matches a filter: by members, by operators, or by equality."""
    match wanted:
        case dict() if any(name.startswith("$") for name in wanted):
            return all(_apply_operator(value, name, other) for name, other in wanted.items())
        case dict():
            return isinstance(value, dict) and all(
                _value_matches(value.get(name), other) for name, other in wanted.items()
            )
        case list() | tuple():
            return (
                isinstance(value, list)
                and len(value) == len(wanted)
                and all(_value_matches(one, other) for one, other in zip(value, wanted, strict=True))
            )
    return bool(value == wanted)


def _apply_operator(value: Any, operator: str, other: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == other)
        case "$ne":
            return bool(value != other)
        case "$gt" | "$gte" | "$lt" | "$lte":
            return _compare_numbers(value, operator, other)
    raise ValueError(f"Unsupported operator: {operator}")


def _compare_numbers(value: Any, operator: str, other: Any) -> bool:
    """Compare numbers or numeric strings; values that cannot be compared never match."""
    try:
        one, two = float(value), float(other)
    except (TypeError, ValueError):
        return False
    return {"$gt": one > two, "$gte": one >= two, "$lt": one < two, "$lte": one <= two}[operator]

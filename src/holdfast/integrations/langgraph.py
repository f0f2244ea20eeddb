"""A LangGraph store: every item is a memory, addressed by its namespace and key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
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

from holdfast.integrations.names import SAFE, name_of, segment, short
from holdfast.integrations.threads import in_thread
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.records.validate import MOST_SEGMENTS

if TYPE_CHECKING:
    from holdfast.app import Holdfast

PAGE = 1000
MOST_HITS = 50
"""At most this many items have a score; the others follow without one."""
MOST_TEXT = 60_000
MOST_TITLE = 400
UNINDEXED = "(not indexed)"
MARK = "langgraph"
"""Metadata key of the item's namespace, key and value."""

Path = tuple[str, ...]


class Held(NamedTuple):
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
        self._room = MOST_SEGMENTS - namespace.count("/") - 1

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
                    results.append(self._namespaces(op))
                case PutOp():
                    puts[(op.namespace, op.key)] = op
                    results.append(None)
                case _:
                    raise ValueError(f"Unknown operation type: {type(op)}")
        self._put(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        asked = list(ops)
        return await in_thread(lambda: self.batch(asked))

    def _put(self, ops: list[PutOp]) -> None:
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
        memory = self._memory(op.namespace, op.key)
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
            "namespace": self._place(op.namespace),
            "tier": "long",
            "source_uri": self._uri(op.namespace, op.key),
            "metadata": {
                MARK: {
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
            return UNINDEXED
        texts = [text for path in index or self._fields for text in get_text_at_path(value, path)]
        text = "\n".join(texts).replace("\x00", "").encode(errors="replace")[:MOST_TEXT].decode(errors="ignore")
        return text if text.strip() else UNINDEXED

    def _place(self, path: Path) -> str:
        """Return the namespace of a path; levels beyond the maximum depth are joined in the last segment."""
        segments = [segment(label) for label in path]
        whole, rest = segments[: self._room - 1], segments[self._room - 1 :]
        return "/".join([self._root, *whole, *([":".join(rest)] if rest else [])])

    def _path(self, place: str) -> Path:
        """Return the path of a namespace."""
        segments = place.removeprefix(self._root).split("/")[1:]
        return tuple(name_of(label) for segment in segments for label in segment.split(":"))

    def _uri(self, path: Path, key: str) -> str:
        return f"{self._below(path)}#{_title(key)}"

    def _below(self, path: Path) -> str:
        """Return the prefix of the URIs of all items at or below a path."""
        return "uri:" + "".join(f"{part}/" for part in (self._root, *map(segment, path)))

    def _memory(self, path: Path, key: str) -> Any:
        found = self._hold.search(source_uri=self._uri(path, key), namespace=self._place(path), limit=10).results
        return next((memory for memory in found if _mark(memory).get("key") == key), None)

    def _get(self, op: GetOp) -> Item | None:
        memory = self._memory(op.namespace, op.key)
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
        found = list(self._hits(op, op.query)) if op.query else []
        if len(found) < op.offset + op.limit:
            seen = {held.memory.id for held in found}
            rest = [
                held for held in self._held(op.namespace_prefix) if held.memory.id not in seen and _is_asked(held, op)
            ]
            rest.sort(key=lambda held: (held.item.updated_at, held.memory.id), reverse=True)
            found += rest
        return [held.item for held in found[op.offset : op.offset + op.limit]]

    def _hits(self, op: SearchOp, query: str) -> Iterator[Held]:
        """Recall the items for a query; near-duplicates of a hit share its score."""
        below = self._below(op.namespace_prefix)
        for hit in self._hold.recall(context=query, source_uri_prefix=below, limit=MOST_HITS).memories:
            for memory in (hit, *(self._hold.get(id=id) for id in hit.like or ())):
                if _mark(memory).get("indexed"):
                    held = Held(_item(memory, float(hit.score)), memory)
                    if _is_asked(held, op):
                        yield held

    def _held(self, prefix: Path) -> Iterator[Held]:
        """Return every item at or below a path."""
        for path, place in self._places():
            if path[: len(prefix)] == prefix:
                for memory in self._memories(place):
                    if _mark(memory):
                        yield Held(_item(memory), memory)

    def _memories(self, place: str) -> Iterator[Any]:
        skip = 0
        while page := self._hold.list(namespace=place, limit=PAGE, offset=skip).memories:
            yield from page
            skip += PAGE
            if len(page) < PAGE:
                return

    def _places(self) -> list[tuple[Path, str]]:
        places = [one.namespace for one in self._hold.namespaces().namespaces]
        return [(self._path(one), one) for one in places if one == self._root or one.startswith(f"{self._root}/")]

    def _namespaces(self, op: ListNamespacesOp) -> list[Path]:
        paths = {path for path, _ in self._places() if path}
        fit = {path for path in paths if all(_matches(one, path) for one in op.match_conditions or ())}
        cut = sorted({path[: op.max_depth] for path in fit} if op.max_depth is not None else fit)
        return cut[op.offset : op.offset + op.limit]


def _title(key: str) -> str:
    return short(key, SAFE + ".:/", MOST_TITLE)


def _mark(memory: Any) -> dict[str, Any]:
    """Return the item metadata of a memory; empty if LangGraph did not put it."""
    mark = memory.metadata.get(MARK)
    return mark if isinstance(mark, dict) else {}


def _item(memory: Any, score: float | None = None) -> SearchItem:
    mark = _mark(memory)
    return SearchItem(
        namespace=tuple(mark["namespace"]),
        key=mark["key"],
        value=json.loads(mark["value"]),
        created_at=datetime.fromisoformat(memory.created_at),
        updated_at=datetime.fromisoformat(memory.updated_at),
        score=score,
    )


def _is_asked(held: Held, op: SearchOp) -> bool:
    return all(_fits(held.item.value.get(name), wanted) for name, wanted in (op.filter or {}).items())


def _matches(condition: MatchCondition, path: Path) -> bool:
    """Return whether a path matches a prefix or suffix condition; * matches any label."""
    wanted = condition.path
    if len(path) < len(wanted):
        return False
    part = path[: len(wanted)] if condition.match_type == "prefix" else path[len(path) - len(wanted) :]
    return all(label == asked or asked == "*" for label, asked in zip(part, wanted, strict=True))


def _fits(value: Any, wanted: Any) -> bool:
    """Return whether a value matches a filter: by members, by operators, or by equality."""
    match wanted:
        case dict() if any(name.startswith("$") for name in wanted):
            return all(_compares(value, name, other) for name, other in wanted.items())
        case dict():
            return isinstance(value, dict) and all(_fits(value.get(name), other) for name, other in wanted.items())
        case list() | tuple():
            return (
                isinstance(value, list)
                and len(value) == len(wanted)
                and all(_fits(one, other) for one, other in zip(value, wanted, strict=True))
            )
    return bool(value == wanted)


def _compares(value: Any, operator: str, other: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == other)
        case "$ne":
            return bool(value != other)
        case "$gt" | "$gte" | "$lt" | "$lte":
            return _orders(value, operator, other)
    raise ValueError(f"Unsupported operator: {operator}")


def _orders(value: Any, operator: str, other: Any) -> bool:
    """Compare numbers or numeric strings; values that cannot be compared never match."""
    try:
        one, two = float(value), float(other)
    except (TypeError, ValueError):
        return False
    return {"$gt": one > two, "$gte": one >= two, "$lt": one < two, "$lte": one <= two}[operator]

"""Sessions of the OpenAI Agents SDK: every item is a memory of a thread, in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from holdfast.integrations.namespace_segments import to_short_segment
from holdfast.integrations.threads import in_thread
from holdfast.kernel.errors import Invalid, NotFound

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

    from holdfast.app import Holdfast

PAGE = 1000
MAX_PART_BYTES = 30_000
"""Bytes of an item's JSON per memory; a longer item is split. Escaped in metadata it may take twice that."""
MAX_TEXT = 60_000
_SPEAKERS = {"function_call_output": "tool", "computer_call_output": "tool", "local_shell_call_output": "tool"}


class StoredItem(NamedTuple):
    """An item and the memories that store it."""

    item: TResponseInputItem
    memories: list[str]


class HoldfastSession:
    """A persistent session history, searchable like all memories.

    Implements the SDK's Session protocol. Each `add_items` call is stored entirely or not at all.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        hold: Holdfast,
        *,
        namespace: str = "openai-agents",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        if not session_id:
            raise Invalid("session_id: must not be empty", fields=["session_id"])
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self.namespace = f"{namespace}/{to_short_segment(session_id)}"
        self._hold = hold
        self._lock = threading.Lock()
        self._last = 0

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest `limit` items in order, or all."""
        most = resolve_session_limit(limit, self.session_settings)
        if most == 0:
            return []
        items = [kept.item for kept in await in_thread(self._list_items)]
        return items if most is None or most < 0 else items[-most:]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items."""
        if items:
            await in_thread(lambda: self._add(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the latest item, or None."""
        return await in_thread(self._pop)

    async def clear_session(self) -> None:
        """Archive all items: the session becomes empty and recall no longer finds them."""
        await in_thread(lambda: self._hold.forget(namespace=self.namespace))

    def _add(self, items: Sequence[TResponseInputItem]) -> None:
        drafts = [draft for item in items for draft in _item_drafts(item)]
        with self._lock:
            first = self._next_place()
            placed = [draft | self._place_fields(first + number) for number, draft in enumerate(drafts)]
            ids: list[str] = []
            for start in range(0, len(placed), PAGE):
                done = self._hold.bulk_store(memories=placed[start : start + PAGE], on_conflict="error")
                ids += done.ids
                if done.errors:
                    self._delete_all(ids)
                    raise Invalid(f"An item cannot be stored: {done.errors[0].error}", fields=["items"])
            self._last = first + len(placed)

    def _next_place(self) -> int:
        """Return a place after all others: the current time, or more if the clock went back."""
        latest = filter(_is_part, self._hold.list(namespace=self.namespace, limit=100).memories)
        places: list[int] = [memory.place + 1 for memory in latest if memory.place is not None]
        return max([self._hold.ctx.now(), self._last, *places])

    def _place_fields(self, place: int) -> dict[str, Any]:
        thread = self.namespace.rpartition("/")[2]
        title = f"{thread} {place}"
        return {"title": title, "namespace": self.namespace, "thread": thread, "place": place}

    def _list_items(self) -> list[StoredItem]:
        """Return all items in order; skip one that is just being removed."""
        found = sorted(self._list_memories(), key=lambda memory: (memory.place, memory.id))
        kept: list[StoredItem] = []
        for number, memory in enumerate(found):
            many = memory.metadata["item"]["of"]
            parts = found[number : number + many]
            if [one.metadata["item"]["part"] for one in parts] == list(range(1, many + 1)):
                text = "".join(one.metadata["item"]["json"] for one in parts)
                kept.append(StoredItem(cast("TResponseInputItem", json.loads(text)), [one.id for one in parts]))
        return kept

    def _list_memories(self) -> Iterator[Any]:
        skip = 0
        while page := self._hold.list(namespace=self.namespace, limit=PAGE, offset=skip).memories:
            yield from filter(_is_part, page)
            skip += PAGE
            if len(page) < PAGE:
                return

    def _pop(self) -> TResponseInputItem | None:
        """Delete and return the latest item. If another process deletes it first, take the one before."""
        with self._lock:
            while kept := self._list_items():
                try:
                    self._hold.delete(id=kept[-1].memories[0])
                except NotFound:
                    continue
                self._delete_all(kept[-1].memories[1:])
                return kept[-1].item
        return None

    def _delete_all(self, ids: Sequence[str]) -> None:
        for id in ids:
            self._hold.delete(id=id)


def _is_part(memory: Any) -> bool:
    """Return whether a memory belongs to an item; others may store memories in the namespace."""
    return isinstance(memory.place, int) and isinstance(memory.metadata.get("item"), dict)


def _item_drafts(item: TResponseInputItem) -> Iterator[dict[str, Any]]:
    """Build the memories of an item: its text, for recall, and its JSON, in parts if it is long."""
    speaker, text = _speaker_and_text(cast("dict[str, Any]", item))
    parts = list(_parts(_json(item)))
    for number, part in enumerate(parts, 1):
        yield {
            "content": text if number == 1 else f"(part {number} of {len(parts)})",
            "kind": "conversation",
            "tier": "long",
            "speaker": speaker,
            "metadata": {"item": {"json": part, "part": number, "of": len(parts)}},
            "force": True,
        }


def _json(item: Any) -> str:
    text = json.dumps(item, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(item)
    return text


def _parts(text: str) -> Iterator[str]:
    data, start = text.encode(), 0
    while start < len(data):
        end = min(start + MAX_PART_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end


def _speaker_and_text(item: dict[str, Any]) -> tuple[str, str]:
    """Return the speaker and the text of an item."""
    sort = str(item.get("type") or "message")
    speaker = str(item.get("role") or _SPEAKERS.get(sort, "assistant"))
    text = "\n".join(_texts(item)).replace("\x00", "").encode(errors="replace")[:MAX_TEXT].decode(errors="ignore")
    return speaker, text if text.strip() else f"({sort})"


def _texts(item: dict[str, Any]) -> Iterator[str]:
    if item.get("type") == "function_call":
        yield f"{item.get('name')}({item.get('arguments')})"
    for name in ("content", "output", "summary"):
        match item.get(name):
            case str(text):
                yield text
            case list(blocks):
                yield from (block["text"] for block in blocks if isinstance(block, dict) and _is_text(block))


def _is_text(block: dict[str, Any]) -> bool:
    return isinstance(block.get("text"), str)

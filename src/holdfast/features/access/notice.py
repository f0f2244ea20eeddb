"""Messages between agents. They belong to one store and are not memories."""

from typing import Any

from msgspec import Struct


class Notice(Struct, frozen=True):
    id: str
    sender: str
    recipient: str
    title: str
    body: str
    priority: int
    metadata: dict[str, Any]
    created_at: int
    read_at: int | None

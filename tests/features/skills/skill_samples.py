"""Sample skills and helpers for tests."""

from collections.abc import Callable
from typing import Any

import holdfast

HEAD = "---\nname: deploy\ndescription: How we deploy.\n---\n"
TEXT = HEAD + "# Deploy\n"
FILES = [{"path": "scripts/run.sh", "content": "make deploy\n"}, {"path": "references/why.md", "content": "Because.\n"}]


def skill_text(body: str, name: str = "deploy", description: str = "How we deploy.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


def count_entries(hold: holdfast.Holdfast) -> int:
    return int(hold.verify().entries)


def confine(seen_by: Callable[..., Any], *namespaces: str, right: str = "admin") -> Any:
    return seen_by("ai:other@here", namespaces=namespaces, right=right)


def export_store(hold: holdfast.Holdfast, **asked: Any) -> dict[str, Any]:
    return dict(hold.export(**asked))

"""Sample skills and helpers for tests."""

from collections.abc import Callable
from typing import Any

import holdfast

HEAD = "---\nname: deploy\ndescription: How we deploy.\n---\n"
TEXT = HEAD + "# Deploy\n"
FILES = [{"path": "scripts/run.sh", "content": "make deploy\n"}, {"path": "references/why.md", "content": "Because.\n"}]


def text(body: str, name: str = "deploy", description: str = "How we deploy.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


def entries(hold: holdfast.Holdfast) -> int:
    return int(hold.verify().entries)


def confined(seen_by: Callable[..., Any], *namespaces: str, right: str = "admin") -> Any:
    return seen_by("ai:other@here", namespaces=namespaces, right=right)


def exported(hold: holdfast.Holdfast, **asked: Any) -> dict[str, Any]:
    return dict(hold.export(**asked))

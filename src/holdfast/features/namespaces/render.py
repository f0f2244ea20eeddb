"""Terminal output of the namespace operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape


def render_taxonomy(answer: Any) -> Iterator[str]:
    yield from _render_branch(answer.tree, 0)
    if answer.truncated:
        yield "Truncated: raise --limit or --depth."


def _render_branch(branch: Any, depth: int) -> Iterator[str]:
    yield f"{branch.subtree_count:>6}  {'  ' * depth}{escape(branch.name or branch.namespace or '(all)')}"
    for inner in branch.children:
        yield from _render_branch(inner, depth + 1)

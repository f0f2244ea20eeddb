"""Render a graph as Mermaid or Graphviz text. Titles are escaped: they cannot inject syntax."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_LABEL = 80
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Invisible joiners that combine characters into one emoji or letter; kept."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_INVISIBLE = ("Cc", "Cf", "Cs")
_SPECIAL = re.compile(r"[^\w .,:/?!+=\u0080-\U0010ffff-]|_", re.ASCII)
"""ASCII characters with a meaning in Mermaid: quotes, brackets, comments, directives and Markdown."""


class Node(NamedTuple):
    id: str
    title: str
    namespace: str
    kind: str


class Arrow(NamedTuple):
    source: str
    target: str
    relation: str
    ended: bool = False


def render_mermaid(nodes: Sequence[Node], arrows: Iterable[Arrow], note: str = "") -> str:
    """Render a flowchart. Nodes are numbered; comments at the end map numbers to memory ids."""
    names = {node.id: f"n{number}" for number, node in enumerate(nodes, 1)}
    lines = ["flowchart LR"]
    lines += [f'  {names[node.id]}["{_escape_mermaid(format_label(node.title))}"]' for node in nodes]
    for source, target, relation, ended in arrows:
        line = f"-. {relation} .->" if ended else f"-- {relation} -->"
        lines.append(f"  {names[source]} {line} {names[target]}")
    lines += [f'  note["{_escape_mermaid(note)}"]'] if note else []
    lines += [f"%% {names[node.id]} {_escape_mermaid(format_label(node.id))}" for node in nodes]
    return "\n".join(lines) + "\n"


def render_dot(nodes: Sequence[Node], arrows: Iterable[Arrow], note: str = "") -> str:
    """Render a digraph whose node names are memory ids."""
    lines = ["digraph memories {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f'  "{_escape_dot(node.id)}" [label="{_escape_dot(format_label(node.title))}"];' for node in nodes]
    for source, target, relation, ended in arrows:
        style = ", style=dashed" if ended else ""
        lines.append(f'  "{_escape_dot(source)}" -> "{_escape_dot(target)}" [label="{relation}"{style}];')
    lines += [f'  label="{_escape_dot(note)}";'] if note else []
    return "\n".join([*lines, "}"]) + "\n"


def format_label(text: str) -> str:
    """Format a title: one line, no invisible characters, at most MAX_LABEL characters."""
    flat = " ".join(text.split())
    visible = "".join(sign for sign in flat if sign in _JOINERS or unicodedata.category(sign) not in _INVISIBLE)
    return visible if len(visible) <= MAX_LABEL else visible[: MAX_LABEL - 1] + "…"


def _escape_mermaid(text: str) -> str:
    """Escape special characters as numeric entities, which Mermaid decodes only for display."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text) or " "


def _escape_dot(text: str) -> str:
    """Escape for a quoted string; an ampersand would start an entity."""
    return _CONTROL.sub(" ", text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')

"""Render a graph as Mermaid or Graphviz text. Titles are escaped: they cannot inject syntax."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LONGEST_LABEL = 80
_JOINS = "\u200c\u200d\ufe0e\ufe0f"
"""Invisible joiners that combine characters into one emoji or letter; kept."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_UNSEEN = ("Cc", "Cf", "Cs")
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


def mermaid(nodes: Sequence[Node], arrows: Iterable[Arrow], note: str = "") -> str:
    """Render a flowchart. Nodes are numbered; comments at the end map numbers to memory ids."""
    names = {node.id: f"n{number}" for number, node in enumerate(nodes, 1)}
    lines = ["flowchart LR"]
    lines += [f'  {names[node.id]}["{_in_mermaid(label(node.title))}"]' for node in nodes]
    for source, target, relation, ended in arrows:
        line = f"-. {relation} .->" if ended else f"-- {relation} -->"
        lines.append(f"  {names[source]} {line} {names[target]}")
    lines += [f'  note["{_in_mermaid(note)}"]'] if note else []
    lines += [f"%% {names[node.id]} {_in_mermaid(label(node.id))}" for node in nodes]
    return "\n".join(lines) + "\n"


def dot(nodes: Sequence[Node], arrows: Iterable[Arrow], note: str = "") -> str:
    """Render a digraph whose node names are memory ids."""
    lines = ["digraph memories {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f'  "{_in_dot(node.id)}" [label="{_in_dot(label(node.title))}"];' for node in nodes]
    for source, target, relation, ended in arrows:
        style = ", style=dashed" if ended else ""
        lines.append(f'  "{_in_dot(source)}" -> "{_in_dot(target)}" [label="{relation}"{style}];')
    lines += [f'  label="{_in_dot(note)}";'] if note else []
    return "\n".join([*lines, "}"]) + "\n"


def label(text: str) -> str:
    """Format a title: one line, no invisible characters, at most LONGEST_LABEL characters."""
    flat = " ".join(text.split())
    visible = "".join(sign for sign in flat if sign in _JOINS or unicodedata.category(sign) not in _UNSEEN)
    return visible if len(visible) <= LONGEST_LABEL else visible[: LONGEST_LABEL - 1] + "…"


def _in_mermaid(text: str) -> str:
    """Escape special characters as numeric entities, which Mermaid decodes only for display."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text) or " "


def _in_dot(text: str) -> str:
    """Escape for a quoted string; an ampersand would start an entity."""
    return _CONTROL.sub(" ", text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')

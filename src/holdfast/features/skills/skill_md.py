"""SKILL.md: what its head says, and whether that makes a skill.

What is valid is what the reference validator of the Agent Skills convention takes, and the two fields of our own. The
head is read event by event: no tag, anchor or alias is ever followed, so that nothing can be built or blown up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.features.skills.model import MOST_COMPOSED, Composes
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate as admit

if TYPE_CHECKING:
    from yaml.events import Event

MOST_HEAD = 65_536
"""Characters."""
MOST_LEVELS = 16
MOST_NAME = 64
MOST_DESCRIPTION = 1024
MOST_COMPATIBILITY = 500
DEEPEST_FLOOR = 1000
"""A floor that no namespace reaches is reported when a skill is composed; one beyond this is a slip."""
OWN = ("namespace", "composes_with_reflections")
FIELDS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata", *OWN)
MARK = "---"
_BY_LINES = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)

_SEPARATORS = "\u0085\u2028\u2029"
_SEPARATOR = re.compile(rf"(?<![{_SEPARATORS}])[{_SEPARATORS}]++(?=\S)")
"""Signs that end a line in YAML. The reference lets a value go on after one, as if it were indented there."""
_PAD = " " * 2 * MOST_LEVELS
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,2})?")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")
}


class Fault(NamedTuple):
    """What is wrong with a head, and where."""

    field: str
    line: int
    what: str


class Node(NamedTuple):
    """A piece of YAML: a text, a list or a mapping, and the line it stands on."""

    value: str | list[Node] | dict[str, Node]
    line: int
    plain: bool = False
    """A text that is not quoted: it may mean a number, a truth or nothing."""
    flow: bool = False
    """Written with brackets."""


class Written(NamedTuple):
    """A SKILL.md that is valid."""

    name: str
    description: str
    frontmatter: dict[str, Any]
    """All of the head, as JSON."""
    namespace: str | None
    composes: tuple[Composes, ...]
    body: str


def read(content: bytes, folder: str | None = None) -> Written:
    """What a SKILL.md says, or an error that names every field that is wrong and its line.

    `folder` is the name of the folder it lies in, which is that of the skill.
    """
    text = _decoded(content)
    head, body = _cut(text)
    node = _parsed(head)
    faults = [*_faults(node, folder)]
    if faults:
        raise _invalid(faults)
    if (lines := _BY_LINES.match(text)) and lines[1] != head.partition("\n")[2]:
        node, body = _as_lines_have_it(lines[1], text[lines.end() :], folder) or (node, body)
    fields = node.value
    assert isinstance(fields, dict)
    name, description = _text(fields["name"]), _text(fields["description"])
    return Written(
        name=unicodedata.normalize("NFKC", name.strip()),
        description=description.strip(),
        frontmatter=admit.foreign("frontmatter", {**_json(node), "name": name, "description": description}),
        namespace=admit.namespace(_text(fields["namespace"])) if "namespace" in fields else None,
        composes=tuple(_composes(fields["composes_with_reflections"])) if OWN[1] in fields else (),
        body=body.strip(),
    )


def head(fields: dict[str, Any]) -> str:
    """The head of a SKILL.md with these fields: texts, and mappings of texts."""
    lines = [MARK]
    for field, value in fields.items():
        lines.append(f"{field}:" if isinstance(value, dict) else f"{field}: {quoted(value)}")
        lines += [f"  {key}: {quoted(text)}" for key, text in value.items()] if isinstance(value, dict) else []
    return "\n".join([*lines, MARK])


def quoted(text: str) -> str:
    """A text as YAML has it, whatever stands in it; dashes that would end the head are written as a number."""
    return msgspec.json.encode(text).decode().replace(MARK, r"-\x2d-").replace("\x7f", r"\x7f")


def _decoded(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _invalid([Fault("SKILL.md", line, "is not UTF-8")]) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _cut(text: str) -> tuple[str, str]:
    """The head and the body, at the first three dashes after the first three, as the reference has it."""
    if not text.startswith(MARK):
        raise _invalid([Fault("SKILL.md", 1, "must begin with a line ---, below which its fields stand")])
    _, head, *body = text.split(MARK, 2)
    if not body:
        raise _invalid([Fault("SKILL.md", text.count("\n") + 1, "the fields must end with a line ---")])
    if len(head) > MOST_HEAD:
        raise _invalid([Fault("SKILL.md", 1, f"the fields have at most {MOST_HEAD} characters")])
    return head, body[0]


def _as_lines_have_it(head: str, body: str, folder: str | None) -> tuple[Node, str] | None:
    """What stands between two lines of dashes: what the author means if dashes stand inside a value, too."""
    try:
        node = _parsed("\n" + head)
    except Invalid:
        return None
    return None if any(_faults(node, folder)) else (node, body)


def _parsed(head: str) -> Node:
    import yaml

    if len(head) > MOST_HEAD:
        raise _invalid([Fault("SKILL.md", 1, f"the fields have at most {MOST_HEAD} characters")])
    head = _SEPARATOR.sub(lambda found: found[0] + _PAD, head)
    reader = _Reader(head, yaml.parse(head, Loader=yaml.SafeLoader))
    try:
        return reader.document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "there is a character that no YAML has"
        raise _invalid([Fault(reader.field, reader.line_of(mark) if mark else 1, f"is not YAML: {what}")]) from None


class _Reader:
    """A tree of texts from YAML's events; what the convention does not have is refused where it stands."""

    def __init__(self, head: str, events: Iterator[Event]) -> None:
        self._head = head
        self._events = events
        self.field = "SKILL.md"
        """Where it is."""

    def line_of(self, mark: Any) -> int:
        """As an editor counts: other signs than a newline, which end a line in YAML, do not."""
        return self._head.count("\n", 0, mark.index) + 1

    def document(self) -> Node:
        import yaml

        event = next(self._events)
        while isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
            event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return Node("", 1)
        node = self._node(event, 0)
        next(self._events)
        if isinstance(more := next(self._events), yaml.DocumentStartEvent):
            raise self._refused(more, "has more than one document")
        return node

    def _node(self, event: Any, level: int) -> Node:
        import yaml

        line = self.line_of(event.start_mark)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._refused(event, "has an anchor or an alias (& or *): quote the text, or write it out")
        if event.tag is not None:
            raise self._refused(event, "has a tag (!): quote the text, or leave it out")
        if level > MOST_LEVELS:
            raise self._refused(event, f"is nested more than {MOST_LEVELS} deep")
        if isinstance(event, yaml.ScalarEvent):
            if event.style in ("|", ">") and self._is_padded(event):
                raise self._refused(event, "has a sign in a block of text that ends a line and is no newline")
            return Node(event.value, line, plain=event.implicit[0])
        if isinstance(event, yaml.SequenceStartEvent):
            items = [self._node(one, level + 1) for one in self._until(yaml.SequenceEndEvent)]
            return Node(items, line, flow=bool(event.flow_style))
        return Node(self._mapping(level), line, flow=bool(event.flow_style))

    def _is_padded(self, event: Any) -> bool:
        return any(sign + _PAD in self._head[event.start_mark.index : event.end_mark.index] for sign in _SEPARATORS)

    def _mapping(self, level: int) -> dict[str, Node]:
        import yaml

        found: dict[str, Node] = {}
        for event in self._until(yaml.MappingEndEvent):
            key = self._node(event, level + 1)
            if not isinstance(key.value, str):
                raise self._refused(event, "has a name that is not a text")
            self.field = self.field if level else key.value
            if key.value in found:
                raise self._refused(event, f"says {key.value!r} twice" if level else "is said twice")
            found[key.value] = self._node(next(self._events), level + 1)
            if key.value == "<<" and key.plain and not _can_be_merged(found[key.value]):
                raise self._refused(event, "has << without fields that it could take: quote it if it is a name")
        return found

    def _until(self, end: type[Event]) -> Iterator[Event]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _refused(self, event: Any, what: str) -> Invalid:
        return _invalid([Fault(self.field, self.line_of(event.start_mark), what)])


def _can_be_merged(node: Node) -> bool:
    """Whether YAML could take the fields of it into the mapping that it stands in."""
    many = node.value if isinstance(node.value, list) else [node]
    return all(isinstance(one.value, dict) for one in many)


def _faults(node: Node, folder: str | None) -> Iterator[Fault]:
    """Everything that the reference refuses in a head, and what we do in the fields of our own."""
    if not isinstance(node.value, dict):
        yield Fault("SKILL.md", node.line, "the fields must be a mapping: lines of `name: value`")
        return
    for field, value in node.value.items():
        if field not in FIELDS:
            yield Fault(field, value.line, f"is not a field of a skill; those are {', '.join(FIELDS)}")
        elif field not in OWN and (bracket := next(_brackets(value), None)):
            yield Fault(field, bracket.line, "must be written without brackets { } [ ]: one entry a line, or quoted")
    for field in ("name", "description"):
        if field not in node.value:
            yield Fault(field, node.line, "is required")
    for field, check in _CHECKS.items():
        if field in node.value:
            yield from (Fault(field, line, what) for line, what in check(node.value[field]))
    if folder is not None and "name" in node.value:
        yield from _misplaced(node.value["name"], folder)


def _brackets(node: Node) -> Iterator[Node]:
    if node.flow:
        yield node
    within = node.value.values() if isinstance(node.value, dict) else node.value
    for one in within if not isinstance(node.value, str) else ():
        yield from _brackets(one)  # type: ignore[arg-type]


Found = Iterator[tuple[int, str]]


def _name(node: Node) -> Found:
    if not _is_said(node):
        yield node.line, "must be a text that is not empty"
        return
    name = unicodedata.normalize("NFKC", _text(node).strip())
    if len(name) > MOST_NAME:
        yield node.line, f"at most {MOST_NAME} characters, got {len(name)}"
    if name != name.lower():
        yield node.line, "must be in lower case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield node.line, "no hyphen at either end, nor two in a row"
    if not all(letter.isalnum() or letter == "-" for letter in name):
        yield node.line, "only letters, digits and hyphens"


def _misplaced(node: Node, folder: str) -> Iterator[Fault]:
    name = unicodedata.normalize("NFKC", node.value.strip()) if isinstance(node.value, str) else ""
    if name and unicodedata.normalize("NFKC", folder) != name:
        yield Fault("name", node.line, f"must be the name of its folder, which is {folder!r}")


def _description(node: Node) -> Found:
    if not _is_said(node):
        yield node.line, "must be a text that is not empty"
    elif len(_text(node)) > MOST_DESCRIPTION:
        yield node.line, f"at most {MOST_DESCRIPTION} characters, got {len(_text(node))}"


def _compatibility(node: Node) -> Found:
    if not _is_text(node):
        yield node.line, "must be a text"
    elif len(_text(node)) > MOST_COMPATIBILITY:
        yield node.line, f"at most {MOST_COMPATIBILITY} characters, got {len(_text(node))}"


def _is_text(node: Node) -> bool:
    """Whether it is a text; two plain signs have another meaning in YAML, and the reference takes them for none."""
    return isinstance(node.value, str) and not (node.plain and node.value in ("=", "<<"))


def _is_said(node: Node) -> bool:
    return _is_text(node) and bool(_text(node).strip())


def _namespace(node: Node) -> Found:
    if not _is_text(node):
        yield node.line, "must be a text"
        return
    try:
        admit.namespace(_text(node))
    except Invalid as error:
        yield node.line, error.message.partition(": ")[2]


def _composition(node: Node) -> Found:
    if not isinstance(node.value, list):
        yield node.line, "must be a list of namespaces, each with `namespace` and `min_depth`"
        return
    if len(node.value) > MOST_COMPOSED:
        yield node.line, f"at most {MOST_COMPOSED} namespaces, got {len(node.value)}"
    for entry in node.value:
        yield from _composed(entry)


def _composed(entry: Node) -> Found:
    if not isinstance(entry.value, dict) or "namespace" not in entry.value:
        yield entry.line, "each entry must say `namespace`, and may say `min_depth`"
        return
    for key in entry.value.keys() - {"namespace", "min_depth"}:
        yield entry.value[key].line, f"an entry has no {key!r}, only namespace and min_depth"
    yield from _namespace(entry.value["namespace"])
    if (floor := entry.value.get("min_depth")) is not None and _depth(floor) is None:
        yield floor.line, f"min_depth: a whole number from 0 to {DEEPEST_FLOOR}"


def _depth(node: Node) -> int | None:
    if isinstance(node.value, str) and re.fullmatch(r"[0-9]{1,6}", node.value) and int(node.value) <= DEEPEST_FLOOR:
        return int(node.value)
    return None


_CHECKS: dict[str, Callable[[Node], Found]] = {
    "name": _name,
    "description": _description,
    "compatibility": _compatibility,
    "namespace": _namespace,
    "composes_with_reflections": _composition,
}


def _composes(node: Node) -> Iterator[Composes]:
    """The entries of a list that was found valid."""
    for entry in node.value:
        assert isinstance(entry, Node)
        fields = entry.value
        assert isinstance(fields, dict)
        floor = _depth(fields["min_depth"]) if "min_depth" in fields else 0
        yield Composes(admit.namespace(_text(fields["namespace"])), floor or 0)


def _text(node: Node) -> str:
    assert isinstance(node.value, str)
    return node.value


def _json(node: Node) -> Any:
    """A head as JSON, its plain words typed as in YAML's core schema."""
    if isinstance(node.value, dict):
        return {key: _json(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [_json(one) for one in node.value]
    return _typed(node.value) if node.plain else node.value


def _typed(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else word


def _invalid(faults: list[Fault]) -> Invalid:
    told = "; ".join(f"{one.field}: {one.what} (line {one.line})" for one in faults)
    return Invalid(
        told, fields=list(dict.fromkeys(one.field for one in faults)), faults=[one._asdict() for one in faults]
    )

"""Parse and validate SKILL.md.

Valid is what the reference validator of the Agent Skills convention accepts, plus two fields of our own. The
frontmatter is read as YAML events; tags, anchors and aliases are rejected, so it cannot construct objects or explode.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.features.skills.model import MAX_COMPOSED_NAMESPACES, Composition
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate

if TYPE_CHECKING:
    from yaml.events import Event

MAX_FRONTMATTER_CHARS = 65_536
"""Characters."""
MAX_NESTING = 16
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
MAX_MIN_DEPTH = 1000
"""Upper limit of `min_depth`. A value that its namespace cannot reach is reported when the skill is composed."""
OWN_FIELDS = ("namespace", "composes_with_reflections")
FIELDS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata", *OWN_FIELDS)
DELIMITER = "---"
_FRONTMATTER_LINES = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)

_SEPARATORS = "\u0085\u2028\u2029"
_SEPARATOR = re.compile(rf"(?<![{_SEPARATORS}])[{_SEPARATORS}]++(?=\S)")
"""Line separators in YAML. The reference continues a value after one as if it were indented."""
_PAD = " " * 2 * MAX_NESTING
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,2})?")
_YAML_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")
}


class Fault(NamedTuple):
    """One validation error in the frontmatter, with its line."""

    field: str
    line: int
    what: str


class Node(NamedTuple):
    """A YAML node: a string, a list or a mapping, with its line."""

    value: str | list[Node] | dict[str, Node]
    line: int
    plain: bool = False
    """Unquoted scalar: may be a number, a boolean or null."""
    flow: bool = False
    """Flow style: written with brackets."""


class SkillManifest(NamedTuple):
    """A validated SKILL.md."""

    name: str
    description: str
    frontmatter: dict[str, Any]
    """All fields, as JSON."""
    namespace: str | None
    composes: tuple[Composition, ...]
    body: str


def parse_skill_md(content: bytes, folder: str | None = None) -> SkillManifest:
    """Parse SKILL.md; raise one error that lists every invalid field with its line.

    `folder` is the name of its folder, which must equal the name of the skill.
    """
    text = _decode(content)
    head, body = _split_frontmatter(text)
    node = _parse_yaml(head)
    faults = [*_find_faults(node, folder)]
    if faults:
        raise _faults_error(faults)
    if (lines := _FRONTMATTER_LINES.match(text)) and lines[1] != head.partition("\n")[2]:
        node, body = _reparse_by_lines(lines[1], text[lines.end() :], folder) or (node, body)
    fields = node.value
    assert isinstance(fields, dict)
    name, description = _text(fields["name"]), _text(fields["description"])
    return SkillManifest(
        name=unicodedata.normalize("NFKC", name.strip()),
        description=description.strip(),
        frontmatter=validate.foreign_json("frontmatter", {**_to_json(node), "name": name, "description": description}),
        namespace=validate.namespace(_text(fields["namespace"])) if "namespace" in fields else None,
        composes=tuple(_read_compositions(fields["composes_with_reflections"])) if OWN_FIELDS[1] in fields else (),
        body=body.strip(),
    )


def format_frontmatter(fields: dict[str, Any]) -> str:
    """Format fields (strings, and mappings of strings) as frontmatter."""
    lines = [DELIMITER]
    for field, value in fields.items():
        lines.append(f"{field}:" if isinstance(value, dict) else f"{field}: {quote(value)}")
        lines += [f"  {key}: {quote(text)}" for key, text in value.items()] if isinstance(value, dict) else []
    return "\n".join([*lines, DELIMITER])


def quote(text: str) -> str:
    """Quote a string for YAML; escape dashes that would end the frontmatter."""
    return msgspec.json.encode(text).decode().replace(DELIMITER, r"-\x2d-").replace("\x7f", r"\x7f")


def _decode(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _faults_error([Fault("SKILL.md", line, "is not UTF-8")]) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split_frontmatter(text: str) -> tuple[str, str]:
    """Split frontmatter and body at the second ---, as the reference does."""
    if not text.startswith(DELIMITER):
        raise _faults_error([Fault("SKILL.md", 1, "must begin with a line ---, followed by the fields")])
    _, head, *body = text.split(DELIMITER, 2)
    if not body:
        raise _faults_error([Fault("SKILL.md", text.count("\n") + 1, "the fields must end with a line ---")])
    if len(head) > MAX_FRONTMATTER_CHARS:
        raise _faults_error([Fault("SKILL.md", 1, f"the fields must have at most {MAX_FRONTMATTER_CHARS} characters")])
    return head, body[0]


def _reparse_by_lines(head: str, body: str, folder: str | None) -> tuple[Node, str] | None:
    """Split at lines of dashes instead, which is what the author means if a value contains dashes."""
    try:
        node = _parse_yaml("\n" + head)
    except Invalid:
        return None
    return None if any(_find_faults(node, folder)) else (node, body)


def _yaml() -> ModuleType:
    import yaml  # 21 modules, 7 ms, which serving MCP saves

    return yaml


def _parse_yaml(head: str) -> Node:
    yaml = _yaml()
    if len(head) > MAX_FRONTMATTER_CHARS:
        raise _faults_error([Fault("SKILL.md", 1, f"the fields must have at most {MAX_FRONTMATTER_CHARS} characters")])
    head = _SEPARATOR.sub(lambda found: found[0] + _PAD, head)
    reader = _YamlReader(head, yaml.parse(head, Loader=yaml.SafeLoader))
    try:
        return reader.read_document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "invalid character"
        raise _faults_error(
            [Fault(reader.field, reader.line_of(mark) if mark else 1, f"is not YAML: {what}")]
        ) from None


class _YamlReader:
    """Builds a tree of nodes from YAML events; rejects what the convention does not allow, with its line."""

    def __init__(self, head: str, events: Iterator[Event]) -> None:
        self._head = head
        self._events = events
        self.field = "SKILL.md"
        """The field being read."""

    def line_of(self, mark: Any) -> int:
        """Return the line as an editor counts it: other YAML line separators than a newline do not count."""
        return self._head.count("\n", 0, mark.index) + 1

    def read_document(self) -> Node:
        yaml = _yaml()
        event = next(self._events)
        while isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
            event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return Node("", 1)
        node = self._read_node(event, 0)
        next(self._events)
        if isinstance(more := next(self._events), yaml.DocumentStartEvent):
            raise self._error_at(more, "has more than one document")
        return node

    def _read_node(self, event: Any, level: int) -> Node:
        yaml = _yaml()
        line = self.line_of(event.start_mark)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._error_at(event, "has an anchor or an alias (& or *): quote the text, or write it out")
        if event.tag is not None:
            raise self._error_at(event, "has a tag (!): quote the text, or leave it out")
        if level > MAX_NESTING:
            raise self._error_at(event, f"is nested more than {MAX_NESTING} deep")
        if isinstance(event, yaml.ScalarEvent):
            if event.style in ("|", ">") and self._is_padded(event):
                raise self._error_at(event, "has a line separator other than a newline in a block of text")
            return Node(event.value, line, plain=event.implicit[0])
        if isinstance(event, yaml.SequenceStartEvent):
            items = [self._read_node(one, level + 1) for one in self._events_until(yaml.SequenceEndEvent)]
            return Node(items, line, flow=bool(event.flow_style))
        return Node(self._read_mapping(level), line, flow=bool(event.flow_style))

    def _is_padded(self, event: Any) -> bool:
        return any(sign + _PAD in self._head[event.start_mark.index : event.end_mark.index] for sign in _SEPARATORS)

    def _read_mapping(self, level: int) -> dict[str, Node]:
        yaml = _yaml()
        found: dict[str, Node] = {}
        for event in self._events_until(yaml.MappingEndEvent):
            key = self._read_node(event, level + 1)
            if not isinstance(key.value, str):
                raise self._error_at(event, "has a key that is not a string")
            self.field = self.field if level else key.value
            if key.value in found:
                raise self._error_at(event, f"has {key.value!r} twice" if level else "is given twice")
            found[key.value] = self._read_node(next(self._events), level + 1)
            if key.value == "<<" and key.plain and not _can_be_merged(found[key.value]):
                raise self._error_at(event, "has << without a mapping to merge: quote it if it is a key")
        return found

    def _events_until(self, end: type[Event]) -> Iterator[Event]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _error_at(self, event: Any, what: str) -> Invalid:
        return _faults_error([Fault(self.field, self.line_of(event.start_mark), what)])


def _can_be_merged(node: Node) -> bool:
    """Return whether YAML could merge the node into its mapping."""
    many = node.value if isinstance(node.value, list) else [node]
    return all(isinstance(one.value, dict) for one in many)


def _find_faults(node: Node, folder: str | None) -> Iterator[Fault]:
    """Find everything that the reference rejects, and errors in our own fields."""
    if not isinstance(node.value, dict):
        yield Fault("SKILL.md", node.line, "the fields must be a mapping: lines of `name: value`")
        return
    for field, value in node.value.items():
        if field not in FIELDS:
            yield Fault(field, value.line, f"unknown field; allowed: {', '.join(FIELDS)}")
        elif field not in OWN_FIELDS and (bracket := next(_find_brackets(value), None)):
            yield Fault(field, bracket.line, "must not use brackets { } [ ]: write one entry per line, or quote it")
    for field in ("name", "description"):
        if field not in node.value:
            yield Fault(field, node.line, "is required")
    for field, check in _CHECKS.items():
        if field in node.value:
            yield from (Fault(field, line, what) for line, what in check(node.value[field]))
    if folder is not None and "name" in node.value:
        yield from _check_folder_name(node.value["name"], folder)


def _find_brackets(node: Node) -> Iterator[Node]:
    if node.flow:
        yield node
    within = node.value.values() if isinstance(node.value, dict) else node.value
    for one in within if not isinstance(node.value, str) else ():
        yield from _find_brackets(one)  # type: ignore[arg-type]


Problems = Iterator[tuple[int, str]]


def _check_name(node: Node) -> Problems:
    if not _is_nonempty_text(node):
        yield node.line, "must be a non-empty string"
        return
    name = unicodedata.normalize("NFKC", _text(node).strip())
    if len(name) > MAX_NAME:
        yield node.line, f"at most {MAX_NAME} characters, got {len(name)}"
    if name != name.lower():
        yield node.line, "must be lower case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield node.line, "no hyphen at either end, no two in a row"
    if not all(letter.isalnum() or letter == "-" for letter in name):
        yield node.line, "only letters, digits and hyphens"


def _check_folder_name(node: Node, folder: str) -> Iterator[Fault]:
    name = unicodedata.normalize("NFKC", node.value.strip()) if isinstance(node.value, str) else ""
    if name and unicodedata.normalize("NFKC", folder) != name:
        yield Fault("name", node.line, f"must equal the name of its folder, {folder!r}")


def _check_description(node: Node) -> Problems:
    if not _is_nonempty_text(node):
        yield node.line, "must be a non-empty string"
    elif len(_text(node)) > MAX_DESCRIPTION:
        yield node.line, f"at most {MAX_DESCRIPTION} characters, got {len(_text(node))}"


def _check_compatibility(node: Node) -> Problems:
    if not _is_text(node):
        yield node.line, "must be a string"
    elif len(_text(node)) > MAX_COMPATIBILITY:
        yield node.line, f"at most {MAX_COMPATIBILITY} characters, got {len(_text(node))}"


def _is_text(node: Node) -> bool:
    """Return whether the node is a string. The reference rejects a plain = and <<, which YAML reads specially."""
    return isinstance(node.value, str) and not (node.plain and node.value in ("=", "<<"))


def _is_nonempty_text(node: Node) -> bool:
    return _is_text(node) and bool(_text(node).strip())


def _check_namespace(node: Node) -> Problems:
    if not _is_text(node):
        yield node.line, "must be a string"
        return
    try:
        validate.namespace(_text(node))
    except Invalid as error:
        yield node.line, error.message.partition(": ")[2]


def _check_composition(node: Node) -> Problems:
    if not isinstance(node.value, list):
        yield node.line, "must be a list of namespaces, each with `namespace` and `min_depth`"
        return
    if len(node.value) > MAX_COMPOSED_NAMESPACES:
        yield node.line, f"at most {MAX_COMPOSED_NAMESPACES} namespaces, got {len(node.value)}"
    for entry in node.value:
        yield from _check_composition_entry(entry)


def _check_composition_entry(entry: Node) -> Problems:
    if not isinstance(entry.value, dict) or "namespace" not in entry.value:
        yield entry.line, "each entry needs `namespace` and may have `min_depth`"
        return
    for key in entry.value.keys() - {"namespace", "min_depth"}:
        yield entry.value[key].line, f"unknown key {key!r}; allowed: namespace, min_depth"
    yield from _check_namespace(entry.value["namespace"])
    if (floor := entry.value.get("min_depth")) is not None and _parse_depth(floor) is None:
        yield floor.line, f"min_depth: a whole number from 0 to {MAX_MIN_DEPTH}"


def _parse_depth(node: Node) -> int | None:
    if isinstance(node.value, str) and re.fullmatch(r"[0-9]{1,6}", node.value) and int(node.value) <= MAX_MIN_DEPTH:
        return int(node.value)
    return None


_CHECKS: dict[str, Callable[[Node], Problems]] = {
    "name": _check_name,
    "description": _check_description,
    "compatibility": _check_compatibility,
    "namespace": _check_namespace,
    "composes_with_reflections": _check_composition,
}


def _read_compositions(node: Node) -> Iterator[Composition]:
    """Read the entries of a validated list."""
    for entry in node.value:
        assert isinstance(entry, Node)
        fields = entry.value
        assert isinstance(fields, dict)
        floor = _parse_depth(fields["min_depth"]) if "min_depth" in fields else 0
        yield Composition(validate.namespace(_text(fields["namespace"])), floor or 0)


def _text(node: Node) -> str:
    assert isinstance(node.value, str)
    return node.value


def _to_json(node: Node) -> Any:
    """Convert a node to JSON; plain scalars are typed by YAML's core schema."""
    if isinstance(node.value, dict):
        return {key: _to_json(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [_to_json(one) for one in node.value]
    return _convert_scalar(node.value) if node.plain else node.value


def _convert_scalar(word: str) -> Any:
    if word in _YAML_WORDS:
        return _YAML_WORDS[word]
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else word


def _faults_error(faults: list[Fault]) -> Invalid:
    message = "; ".join(f"{one.field}: {one.what} (line {one.line})" for one in faults)
    return Invalid(
        message, fields=list(dict.fromkeys(one.field for one in faults)), faults=[one._asdict() for one in faults]
    )

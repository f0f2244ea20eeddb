"""A reflection as a Markdown file: what is known of it ahead, between two lines of three hyphens, then its text.

Each line ahead is a name and a value in JSON, which is YAML too: every reader of YAML understands it, and nothing of
YAML that could do harm is understood by ours.
"""

import re
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.kernel.errors import Invalid

FENCE = "---"
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_.:-]*):(?: (.*))?")
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_PLAIN_SEGMENT = re.compile(r"[a-z0-9_][a-z0-9._-]{0,99}")
_PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


def render(fields: dict[str, Any], content: str) -> str:
    """The text of a file; `read` takes it apart again without loss."""
    ahead = [f"{name}: {_json(value)}" for name, value in fields.items()]
    return "\n".join([FENCE, *ahead, FENCE, "", content])


def read(text: str) -> tuple[dict[str, Any], str]:
    """The fields and the content of a file; what is wrong with it is told by its line."""
    lines = text.split("\n")
    if lines[0].rstrip("\r") != FENCE:
        raise Invalid("line 1: a reflection begins with a line of three hyphens")
    fields: dict[str, Any] = {}
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip("\r") == FENCE:
            return fields, "\n".join(lines[number:]).removeprefix("\r").removeprefix("\n")
        name, value = _field(number, line.rstrip("\r"))
        if name in fields:
            raise Invalid(f"line {number}: {name} is said twice")
        fields[name] = value
    raise Invalid("the second line of three hyphens is missing")


def path_of(namespace: str, id: str) -> str:
    """Where the file of a reflection lies: below the folders of its namespace, under its id."""
    folders = [_safe(segment, _PLAIN_SEGMENT) for segment in namespace.split("/")]
    return "/".join([*folders, f"{_safe(id, _PLAIN_ID)}.md"])


def _safe(name: str, plain: re.Pattern[str]) -> str:
    """A name that every file system takes and tells from every other; the file itself says the right one."""
    if plain.fullmatch(name):
        return name
    kept = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:60]
    return f"{kept or 'x'}-{sha256(name.encode()).hexdigest()[:12]}"


def _field(number: int, line: str) -> tuple[str, Any]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise Invalid(f"line {number}: a name, a colon and a value in JSON")
    try:
        return found[1], msgspec.json.decode((found[2] or "null").encode())
    except (msgspec.DecodeError, RecursionError):
        raise Invalid(f"line {number}: the value of {found[1]} is not JSON: put a text in double quotes") from None


def _json(value: Any) -> str:
    """JSON in one line, without the signs that YAML takes for the end of one."""
    return _NOT_YAML.sub(lambda sign: f"\\u{ord(sign[0]):04x}", msgspec.json.encode(value).decode())

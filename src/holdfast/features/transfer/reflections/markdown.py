"""Reflections as Markdown files: front matter between two `---` lines, then the text.

Each line of front matter is a name and a JSON value. JSON is a subset of YAML, so every YAML parser can read it; our
parser accepts JSON only, which excludes unsafe YAML.
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


def render_file(fields: dict[str, Any], content: str) -> str:
    """Render a file; `parse_file` parses it back without loss."""
    ahead = [f"{name}: {_encode_value(value)}" for name, value in fields.items()]
    return "\n".join([FENCE, *ahead, FENCE, "", content])


def parse_file(text: str) -> tuple[dict[str, Any], str]:
    """Parse a file into fields and content; errors name the line."""
    lines = text.split("\n")
    if lines[0].rstrip("\r") != FENCE:
        raise Invalid("line 1: must be ---")
    fields: dict[str, Any] = {}
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip("\r") == FENCE:
            return fields, "\n".join(lines[number:]).removeprefix("\r").removeprefix("\n")
        name, value = _parse_field(number, line.rstrip("\r"))
        if name in fields:
            raise Invalid(f"line {number}: duplicate field {name}")
        fields[name] = value
    raise Invalid("the closing --- line is missing")


def file_path(namespace: str, id: str) -> str:
    """The relative path of a reflection's file: its namespace as folders, then its id."""
    folders = [_safe_name(segment, _PLAIN_SEGMENT) for segment in namespace.split("/")]
    return "/".join([*folders, f"{_safe_name(id, _PLAIN_ID)}.md"])


def _safe_name(name: str, plain: re.Pattern[str]) -> str:
    """A name valid and unique on every file system; the file itself contains the original."""
    if plain.fullmatch(name):
        return name
    kept = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:60]
    return f"{kept or 'x'}-{sha256(name.encode()).hexdigest()[:12]}"


def _parse_field(number: int, line: str) -> tuple[str, Any]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise Invalid(f"line {number}: must be a name, a colon and a JSON value")
    try:
        return found[1], msgspec.json.decode((found[2] or "null").encode())
    except (msgspec.DecodeError, RecursionError):
        raise Invalid(f"line {number}: the value of {found[1]} is not JSON: put text in double quotes") from None


def _encode_value(value: Any) -> str:
    """Encode JSON on one line; escape characters that YAML treats as line breaks."""
    return _NOT_YAML.sub(lambda sign: f"\\u{ord(sign[0]):04x}", msgspec.json.encode(value).decode())

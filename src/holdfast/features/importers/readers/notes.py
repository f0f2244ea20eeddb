"""Reader of notes: plain text, Markdown, Obsidian and basic-memory, with tags and links."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from holdfast.features.importers import sources as places
from holdfast.features.importers.model import Note, Problem, Record, Tie, digest, line
from holdfast.features.importers.readers.blocks import text_of
from holdfast.features.importers.readers.reader import Told, guarded
from holdfast.features.importers.sources import Piece, watched

MOST_TEXT = 64 << 20
MOST_FRONT = 1 << 16
MOST_TAGS = 40
MARKDOWN = (".md", ".markdown", ".mdx")
TEXT = (".txt", ".text")

_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_INLINE = re.compile(r"`[^`\n]{0,1000}`")
_WIKI = re.compile(r"\[\[([^\[\]|#\n]{1,300})(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")
_FILE = re.compile(r"!\[\[[^\[\]|#\n]{1,300}\.(?!md\b)\w{1,8}(?:[#|][^\[\]\n]*)?\]\]")
"""Embedded picture or file, not a link to a note."""
_TAG = re.compile(r"(?<![\w/&#\[(])#([^\W\d_][\w/-]{0,60})")
_CATEGORY = re.compile(r"^[^\S\n]*+[-*] \[([^\W\d_][\w -]{1,30})\] \S", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]{1,9}(\S[^\n]{0,500})", re.MULTILINE)


class Front(NamedTuple):
    """Parsed front matter of a note."""

    said: dict[str, Any]
    fault: str | None


def read(pieces: Sequence[Piece], told: Told) -> Iterator[Record]:
    """Read each file as one note, and links between notes."""
    names: dict[str, str] = {}
    targets: list[tuple[str, str, str]] = []
    for piece in pieces:
        yield from guarded(piece.name, _read(piece, told, names, targets))
    yield from _ties(names, targets)


def _read(piece: Piece, told: Told, names: dict[str, str], wanted: list[tuple[str, str, str]]) -> Iterator[Record]:
    with watched(piece, told) as source:
        text = decoded(source.read(MOST_TEXT + 1), piece.name)
    if isinstance(text, Problem):
        yield text
    elif not text.strip():
        yield Problem(where=piece.name, what="empty", rejected=False)
    else:
        yield from _note(piece, text, names, wanted)


def decoded(data: bytes, where: str) -> str | Problem:
    """Decode a file: UTF-8, or UTF-16 with a byte order mark."""
    if len(data) > MOST_TEXT:
        return Problem(where=where, what=f"more than {MOST_TEXT} bytes: split it")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        return Problem(where=f"{where} byte {error.start}", what="not UTF-8: convert it first")


def _note(piece: Piece, text: str, names: dict[str, str], wanted: list[tuple[str, str, str]]) -> Iterator[Record]:
    path = PurePosixPath(piece.name)
    front = _front(text) if path.suffix.lower() in MARKDOWN or piece.path is None else Front({}, None)
    if front.fault:
        yield Problem(where=piece.name, what=front.fault, rejected=False)
    is_markdown = path.suffix.lower() not in TEXT
    prose = _prose(text) if is_markdown else ""
    fallback_title = line(text.strip().splitlines()[0], 80) if piece.name == places.INLINE else path.stem
    title = line(_text(front.said.get("title"))) or _heading(prose) or fallback_title
    key, uri = _named(piece, text)
    _call(names, key, (path.with_suffix("").as_posix(), _text(front.said.get("permalink")), title, path.stem))
    _call(names, key, _listed(front.said.get("aliases")))
    wanted += [(key, target.strip(), piece.name) for target in dict.fromkeys(_WIKI.findall(_FILE.sub("", prose)))]
    yield Note(
        key=key,
        title=title,
        content=text,
        tags=tuple(_tags(front.said, prose)),
        at=next((_text(front.said[name]) for name in ("created", "date", "created_at") if front.said.get(name)), None),
        uri=uri,
        where=piece.name,
        metadata={"file": piece.name} | ({"type": kind} if (kind := line(_text(front.said.get("type")), 64)) else {}),
    )


def _named(piece: Piece, text: str) -> tuple[str, str]:
    """Key and URI of a note: its path, or a digest of a text without a path."""
    if piece.path is not None:
        return f"note/{piece.path.absolute()}", f"file:{piece.path.absolute()}"
    if piece.name == places.INLINE:
        return f"note/content/{digest(text)}", f"uri:text:{digest(text)}"
    return f"note/zip/{piece.name}", f"uri:zip:{piece.name}"


def _front(text: str) -> Front:
    found = _FRONT.match(text)
    if found is None:
        return Front({}, None)
    if len(found[1]) > MOST_FRONT:
        return Front({}, f"front matter exceeds {MOST_FRONT} characters, not read")
    import yaml

    try:
        fields = yaml.safe_load(found[1])
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return Front({}, f"invalid YAML front matter ({type(error).__name__}); the text was imported")
    return Front(fields if isinstance(fields, dict) else {}, None)


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _listed(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_text(one) for one in value]
    return [part.strip() for part in _text(value).split(",")]


def _prose(text: str) -> str:
    """Remove front matter and code, where tags and links have no meaning."""
    found = _FRONT.match(text)
    lines, fence = list[str](), ""
    for one in text[found.end() if found else 0 :].splitlines(keepends=True):
        mark = _FENCE.match(one)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        else:
            lines.append(_INLINE.sub("", one))
    return "".join(lines)


def _heading(prose: str) -> str:
    found = _HEADING.search(prose)
    return line(found[1].rstrip("# \t\r")) if found else ""


def _tags(said: dict[str, Any], prose: str) -> Iterable[str]:
    """Tags of a note: front matter, `#tags`, and categories of observations."""
    names = [*_listed(said.get("tags")), *_TAG.findall(prose), *_CATEGORY.findall(prose)]
    clean = (line(tag.strip().lstrip("#").replace(",", " "), 64) for tag in names)
    return list(dict.fromkeys(tag for tag in clean if tag))[:MOST_TAGS]


def _call(names: dict[str, str], key: str, called: Iterable[str]) -> None:
    for name in called:
        if name:
            names.setdefault(text_of(name).casefold(), key)


def _ties(names: dict[str, str], wanted: list[tuple[str, str, str]]) -> Iterator[Record]:
    """Links with existing targets. Others are reported as notes."""
    for key, target, where in wanted:
        found = names.get(target.removesuffix(".md").casefold()) or names.get(PurePosixPath(target).stem.casefold())
        if found is None:
            yield Problem(where=where, what=f"links to {line(target, 80)!r}, which does not exist", rejected=False)
        elif found != key:
            yield Tie(source=key, target=found, where=where)

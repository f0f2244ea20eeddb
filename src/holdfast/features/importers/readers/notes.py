"""Reader of notes: plain text, Markdown, Obsidian and basic-memory, with tags and links."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from holdfast.features.importers import sources
from holdfast.features.importers.model import Note, NoteLink, Problem, Record, digest, to_one_line
from holdfast.features.importers.readers.blocks import as_text
from holdfast.features.importers.readers.reader import ProgressCallback, stop_at_read_error
from holdfast.features.importers.sources import Piece, open_with_progress

MAX_TEXT_BYTES = 64 << 20
MAX_FRONT_MATTER_CHARS = 1 << 16
MAX_NOTE_TAGS = 40
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


class FrontMatter(NamedTuple):
    """Parsed front matter of a note."""

    fields: dict[str, Any]
    problem: str | None


def read(pieces: Sequence[Piece], on_read: ProgressCallback) -> Iterator[Record]:
    """Read each file as one note, and links between notes."""
    names: dict[str, str] = {}
    targets: list[tuple[str, str, str]] = []
    for piece in pieces:
        yield from stop_at_read_error(piece.name, _read_file(piece, on_read, names, targets))
    yield from _resolve_links(names, targets)


def _read_file(
    piece: Piece, on_read: ProgressCallback, names: dict[str, str], targets: list[tuple[str, str, str]]
) -> Iterator[Record]:
    with open_with_progress(piece, on_read) as source:
        text = decode_text(source.read(MAX_TEXT_BYTES + 1), piece.name)
    if isinstance(text, Problem):
        yield text
    elif not text.strip():
        yield Problem(where=piece.name, what="empty", rejected=False)
    else:
        yield from _read_note(piece, text, names, targets)


def decode_text(data: bytes, where: str) -> str | Problem:
    """Decode a file: UTF-8, or UTF-16 with a byte order mark."""
    if len(data) > MAX_TEXT_BYTES:
        return Problem(where=where, what=f"more than {MAX_TEXT_BYTES} bytes: split it")
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        return Problem(where=f"{where} byte {error.start}", what="not UTF-8: convert it first")


def _read_note(piece: Piece, text: str, names: dict[str, str], targets: list[tuple[str, str, str]]) -> Iterator[Record]:
    path = PurePosixPath(piece.name)
    front = (
        _parse_front_matter(text) if path.suffix.lower() in MARKDOWN or piece.path is None else FrontMatter({}, None)
    )
    if front.problem:
        yield Problem(where=piece.name, what=front.problem, rejected=False)
    is_markdown = path.suffix.lower() not in TEXT
    prose = _remove_code(text) if is_markdown else ""
    fallback_title = to_one_line(text.strip().splitlines()[0], 80) if piece.name == sources.INLINE_NAME else path.stem
    title = to_one_line(_to_text(front.fields.get("title"))) or _find_heading(prose) or fallback_title
    key, uri = _note_key(piece, text)
    _add_names(names, key, (path.with_suffix("").as_posix(), _to_text(front.fields.get("permalink")), title, path.stem))
    _add_names(names, key, _to_list(front.fields.get("aliases")))
    targets += [(key, target.strip(), piece.name) for target in dict.fromkeys(_WIKI.findall(_FILE.sub("", prose)))]
    yield Note(
        key=key,
        title=title,
        content=text,
        tags=tuple(_find_tags(front.fields, prose)),
        at=next(
            (_to_text(front.fields[name]) for name in ("created", "date", "created_at") if front.fields.get(name)), None
        ),
        uri=uri,
        where=piece.name,
        metadata={"file": piece.name}
        | ({"type": kind} if (kind := to_one_line(_to_text(front.fields.get("type")), 64)) else {}),
    )


def _note_key(piece: Piece, text: str) -> tuple[str, str]:
    """Key and URI of a note: its path, or a digest of a text without a path."""
    if piece.path is not None:
        return f"note/{piece.path.absolute()}", f"file:{piece.path.absolute()}"
    if piece.name == sources.INLINE_NAME:
        return f"note/content/{digest(text)}", f"uri:text:{digest(text)}"
    return f"note/zip/{piece.name}", f"uri:zip:{piece.name}"


def _parse_front_matter(text: str) -> FrontMatter:
    found = _FRONT.match(text)
    if found is None:
        return FrontMatter({}, None)
    if len(found[1]) > MAX_FRONT_MATTER_CHARS:
        return FrontMatter({}, f"front matter exceeds {MAX_FRONT_MATTER_CHARS} characters, not read")
    import yaml  # 21 modules, 7 ms; only notes with front matter

    try:
        fields = yaml.safe_load(found[1])
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return FrontMatter({}, f"invalid YAML front matter ({type(error).__name__}); the text was imported")
    return FrontMatter(fields if isinstance(fields, dict) else {}, None)


def _to_text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _to_list(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_to_text(one) for one in value]
    return [part.strip() for part in _to_text(value).split(",")]


def _remove_code(text: str) -> str:
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


def _find_heading(prose: str) -> str:
    found = _HEADING.search(prose)
    return to_one_line(found[1].rstrip("# \t\r")) if found else ""


def _find_tags(fields: dict[str, Any], prose: str) -> Iterable[str]:
    """Tags of a note: front matter, `#tags`, and categories of observations."""
    names = [*_to_list(fields.get("tags")), *_TAG.findall(prose), *_CATEGORY.findall(prose)]
    clean = (to_one_line(tag.strip().lstrip("#").replace(",", " "), 64) for tag in names)
    return list(dict.fromkeys(tag for tag in clean if tag))[:MAX_NOTE_TAGS]


def _add_names(names: dict[str, str], key: str, new_names: Iterable[str]) -> None:
    for name in new_names:
        if name:
            names.setdefault(as_text(name).casefold(), key)


def _resolve_links(names: dict[str, str], targets: list[tuple[str, str, str]]) -> Iterator[Record]:
    """Links with existing targets. Others are reported as notes."""
    for key, target, where in targets:
        found = names.get(target.removesuffix(".md").casefold()) or names.get(PurePosixPath(target).stem.casefold())
        if found is None:
            yield Problem(
                where=where, what=f"links to {to_one_line(target, 80)!r}, which does not exist", rejected=False
            )
        elif found != key:
            yield NoteLink(source=key, target=found, where=where)

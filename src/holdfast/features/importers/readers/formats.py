"""Detect the format of a source by content. A file name alone decides nothing."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from holdfast.features.importers.model import Problem, Record
from holdfast.features.importers.readers import (
    FORMATS,
    Format,
    ai_memory,
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    graph,
    mail,
    mem0,
    notes,
    slack,
)
from holdfast.features.importers.readers.json_elements import Element, Fault, decode_json, read_elements
from holdfast.features.importers.readers.reader import (
    PROBE_COUNT,
    READ_ERRORS,
    ProgressCallback,
    read_first_lines,
    stop_at_read_error,
    trim_start,
)
from holdfast.features.importers.sources import Piece, Source
from holdfast.kernel.errors import Invalid

_READERS: dict[Format, Callable[[Piece, ProgressCallback], Iterator[Record]]] = {
    "chatgpt": chatgpt.read,
    "claude": claude_ai.read,
    "claude-code": claude_code.read,
    "codex": codex.read,
    "mem0": mem0.read,
    "mcp-memory": graph.read,
    "mbox": mail.read,
    "ai-memory": ai_memory.read,
    "envelope": ai_memory.read_envelope,
}
_NOTES: tuple[Format, ...] = ("markdown", "text")
_SELF_CHECKING: tuple[Format, ...] = ("ai-memory", "envelope")
"""Formats whose readers check the format themselves and that may be empty."""
_PAGES = (b"<!doctype html", b"<html")
_PDF = b"%pdf-"
_UNSUPPORTED: tuple[tuple[bytes | tuple[bytes, ...], str], ...] = (
    (b"\x1f\x8b", "compressed: unpack it first"),
    (_PDF, "a PDF: convert it to text first"),
    ((b"\xff\xfe", b"\xfe\xff"), "in UTF-16: save it as UTF-8"),
    (_PAGES, "a web page: use the JSON file of the export, or --format text"),
)
"""First bytes of unsupported files, and what to do about them."""
_CONVERSATION_FORMATS: tuple[Format, ...] = ("chatgpt", "claude", "claude-code", "codex")


def detect_format(source: Source) -> tuple[Format, list[Piece]]:
    """Detect the format of a source and its files. The error lists the formats if there is none or several."""
    if _is_slack(source.pieces):
        return "slack", source.pieces
    found = [(_try_detect(source, piece), piece) for piece in source.pieces]
    counts = Counter(form for form, _ in found if form is not None)
    forms = _pick_formats(counts)
    if len(forms) > 1:
        summary = ", ".join(f"{form} ({counts[form]})" for form in forms)
        raise Invalid(f"format: files of several formats: {summary}. Choose one with --format.", fields=["format"])
    if not forms:
        unread = next((f"{one.where}: {one.what}" for one in source.problems if one.rejected), None)
        raise _unknown_format(unread or _hint(source) or "unknown format")
    accepted = _NOTES if forms[0] == "markdown" else (forms[0],)
    return forms[0], [piece for form, piece in found if form in accepted]


def _pick_formats(counts: Counter[Format]) -> list[Format]:
    """Formats of an export. Texts beside conversations are attachments; text files beside Markdown are notes."""
    forms = set(counts)
    if forms & set(_CONVERSATION_FORMATS):
        forms -= set(_NOTES)
    elif "markdown" in forms:
        forms.discard("text")
    return sorted(forms)


def _hint(source: Source) -> str | None:
    """Explain a single file of an unsupported kind, and what to do about it."""
    if not source.is_single_file:
        return None
    piece, head = source.pieces[0], source.pieces[0].read_head()
    if not head.strip():
        return f"{piece.name} is empty"
    what = next((what for begins, what in _UNSUPPORTED if head.lstrip().lower().startswith(begins)), None)
    return f"{piece.name} is {what}" if what else None


def select_files(source: Source, form: Format) -> list[Piece]:
    """Files of an export in a given format. A single file is not checked."""
    if form == "slack" or source.is_single_file:
        return source.pieces
    accepted = _NOTES if form == "markdown" else (form,)
    found = [piece for piece in source.pieces if _try_detect(source, piece) in accepted]
    if not found:
        raise _unknown_format(f"no file of format {form}")
    return found


def read(form: Format, pieces: Sequence[Piece], on_read: ProgressCallback) -> Iterator[Record]:
    """Read all files of a format. An unreadable file does not stop the others."""
    if form == "slack":
        yield from slack.read(pieces, on_read)
    elif form in _NOTES:
        yield from notes.read(pieces, on_read)
    else:
        for piece in pieces:
            yield from stop_at_read_error(piece.name, _READERS[form](piece, on_read))


def _try_detect(source: Source, piece: Piece) -> Format | None:
    """Detect the format of a file; reports an unreadable one."""
    try:
        form = detect_file_format(piece, is_single_file=source.is_single_file)
        if form is None and source.is_single_file:
            source.problems.extend(_find_faults(piece))
        return form
    except READ_ERRORS as error:
        source.problems.append(Problem(where=piece.name, what=f"unreadable: {error}"))
        return None


def must_not_be_empty(form: Format) -> None:
    """Raise because a source contains nothing of the given format."""
    if form not in _SELF_CHECKING:
        raise _unknown_format(f"no data of format {form}")


def _unknown_format(what: str) -> Invalid:
    return Invalid(f"format: {what}. The formats are {', '.join(FORMATS)}.", fields=["format"])


def _is_slack(pieces: Sequence[Piece]) -> bool:
    """Whether there are folders with a file per day, and a list of users or channels."""
    days = [piece for piece in pieces if slack.DAY_FILE.fullmatch(piece.name)]
    has_list = any(piece.name.rpartition("/")[2] in ("users.json", *slack.CHANNEL_LISTS) for piece in pieces)
    if not days or not has_list:
        return False
    return any(
        isinstance(one, dict) and "ts" in one for piece in days[:PROBE_COUNT] for one in _decode_first_members(piece)
    )


def detect_file_format(piece: Piece, *, is_single_file: bool) -> Format | None:
    """Detect the format of a file by its beginning. One of several files is text only by its extension."""
    head = piece.read_head()
    if head.startswith(ai_memory.MAGIC):
        return "ai-memory" if piece.path is not None and ai_memory.is_store(piece.path) else None
    if mail.HEADER.match(head):
        return "mbox"
    if trim_start(head)[:1] in (b"[", b"{") and (form := _detect_json(piece, head)) is not None:
        return form
    name = piece.name.lower()
    if b"\x00" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    if name.endswith(notes.MARKDOWN):
        return "markdown"
    if name.endswith(notes.TEXT) or (is_single_file and trim_start(head)[:1] not in (b"[", b"{") and _is_text(head)):
        return "text"
    return None


def _is_text(head: bytes) -> bool:
    if trim_start(head).lower().startswith((*_PAGES, _PDF)):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4
    return bool(head.strip())


def _detect_json(piece: Piece, head: bytes) -> Format | None:
    for line in read_first_lines(piece, PROBE_COUNT):
        if (form := _detect_line(line)) is not None:
            return form
    names: set[str] = set()
    for one in _first_members(piece):
        names.add(one.name or "")
        if (form := _detect_member(one, names)) is not None:
            return form
    return "claude" if b'"chat_messages"' in head else "chatgpt" if b'"mapping"' in head else None


def _detect_line(one: Any) -> Format | None:
    if not isinstance(one, dict):
        return None
    if "chat_messages" in one or "mapping" in one:
        return "claude" if "chat_messages" in one else "chatgpt"
    if claude_ai.is_memory(one) or claude_ai.is_project(one):
        return "claude"
    if graph.is_entry(one):
        return "mcp-memory"
    if codex.is_entry(one):
        return "codex"
    return "claude-code" if claude_code.is_entry(one) else None


def _detect_member(one: Element, names: set[str]) -> Format | None:
    """Detect the format of a JSON document from its first members."""
    if one.name in ("mapping", "chat_messages", "conversations_memory"):
        return "chatgpt" if one.name == "mapping" else "claude"
    if {"uuid", "docs", "prompt_template"} <= names:
        return "claude"
    try:
        raw = decode_json(one.data)
    except Invalid:
        return None
    if one.name in (None, "conversations") and isinstance(raw, dict):
        if "mapping" in raw:
            return "chatgpt"
        if "chat_messages" in raw or claude_ai.is_memory(raw) or claude_ai.is_project(raw):
            return "claude"
    if one.name in mem0.STATEMENTS and mem0.is_statement(raw):
        return "mem0"
    if one.name == "memories" and isinstance(raw, dict) and {"title", "content"} <= raw.keys():
        return "envelope"
    if one.name == "entities" and isinstance(raw, dict) and {"name", "observations"} <= raw.keys():
        return "mcp-memory"
    return "envelope" if {"schema_version", "exported_at"} <= names else None


def _first_members(piece: Piece) -> Iterator[Element]:
    """First members of a JSON document."""
    with piece.open() as source:
        for number, one in enumerate(read_elements(source)):
            if isinstance(one, Element):
                yield one
            if number >= PROBE_COUNT:
                return


def _find_faults(piece: Piece) -> Iterator[Problem]:
    """Report syntax errors at the beginning of an unrecognised JSON document."""
    if trim_start(piece.read_head())[:1] not in (b"[", b"{"):
        return
    with piece.open() as source:
        for one in islice(read_elements(source), PROBE_COUNT):
            if isinstance(one, Fault):
                yield Problem(where=f"{piece.name} byte {one.at}", what=one.what)


def _decode_first_members(piece: Piece) -> Iterator[Any]:
    with suppress(*READ_ERRORS):
        for one in _first_members(piece):
            with suppress(Invalid):
                yield decode_json(one.data)

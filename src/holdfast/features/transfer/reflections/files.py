"""Export reflections to Markdown files and import them again.

A file is front matter between two `---` lines, then the text. Each line of front matter is a name and a JSON value.
JSON is a subset of YAML, so every YAML parser can read it; our parser accepts JSON only, which excludes unsafe YAML.
"""

import os
import re
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.features.graph import read_links as links
from holdfast.features.graph.read_links import LinkFilter
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter
from holdfast.features.transfer import importer, record_rows
from holdfast.features.transfer.import_state import Options
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.local_files import local_path, translate_os_errors
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session

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


PAGE_SIZE = 200
MAX_LINKS = 10_000
MAX_FILE_BYTES = 1 << 20
MAX_FILES = 100_000
PARTIAL_SUFFIX = ".holdfast-partial"
MISSING_SOURCES = "reflects_on_missing"
"""Field of an imported reflection that lists its sources missing from this store, so that they are not lost."""
EXCLUDED_FIELDS = ("id", "access_count", "last_accessed_at", "content")
"""Fields that are not exported to the file, such as local access counts."""

LEADING_FIELDS = ("namespace", "title", "reflection_depth", "created_at")
KEPT_WHEN_EMPTY = ("speaker", "occurred_at", "thread", "place")
"""Written even if empty: on import a missing one would be parsed from the text."""

Row = dict[str, Any]


class ExportResult(NamedTuple):
    """The outcome of an export; names are relative to the folder."""

    written: list[str]
    unchanged: list[str]
    removed: list[str]
    """Files of reflections that are no longer live."""
    left: list[str]
    """Files that this store did not write."""


class ParsedFile(NamedTuple):
    """A file parsed into rows of an import envelope."""

    name: str
    memory: Row
    links: list[Row]


class ImportFilesResult(NamedTuple):
    files: int
    imported: importer.ImportReport
    rejected: list[tuple[str, HoldfastError]]
    """File name and error."""
    missing: list[str]
    """Sources missing from this store."""


def build_fields(session: Session, ctx: Context, memory: Memory) -> Row:
    """Build the header fields of a reflection's file."""
    row, known_fields = (
        record_rows.memory_row(memory, (0, 0)),
        record_rows.memory_row(replace(memory, extra={}), (0, 0)),
    )
    own = _drop_empty({name: row[name] for name in known_fields if name not in EXCLUDED_FIELDS})
    more = {name: value for name, value in row.items() if name not in known_fields and name != MISSING_SOURCES}
    sources, others = _list_links(session, ctx, memory)
    return {
        "memory_id": memory.id,
        **{name: own.pop(name) for name in LEADING_FIELDS},
        "agent_id": memory.agent,
        "reflects_on": sources,
        **own,
        **({"links": others} if others else {}),
        **({"more": more} if more else {}),
    }


def _list_links(session: Session, ctx: Context, memory: Memory) -> tuple[list[Row], list[Row]]:
    """List the sources of a reflection, missing ones included, and its other links."""
    which = LinkFilter(view="kept", include_ended=True)
    edges = links.list_outgoing(session, ctx.caller, [memory.id], which, ctx.now(), limit=MAX_LINKS)
    rows = [record_rows.link_row(edge.link) for edge in edges]
    sources = [_link_end(row) for row in rows if row["relation"] == "reflects_on"] + _list_missing_sources(memory)
    others = [{"relation": row["relation"], **_link_end(row)} for row in rows if row["relation"] != "reflects_on"]
    return (
        sorted(sources, key=lambda end: str(end["target_id"])),
        sorted(others, key=lambda end: (end["target_id"], end["relation"])),
    )


def _list_missing_sources(memory: Memory) -> list[Row]:
    """Read the missing sources from the memory's extra field; skip malformed entries."""
    stored = memory.extra.get(MISSING_SOURCES)
    ends = stored if isinstance(stored, list) else []
    return [end for end in ends if isinstance(end, dict) and isinstance(end.get("target_id"), str)]


def _link_end(row: Row) -> Row:
    return _drop_empty({name: value for name, value in row.items() if name not in ("source_id", "relation")})


def _drop_empty(row: Row) -> Row:
    """Drop empty values: people read the file."""
    return {name: value for name, value in row.items() if name in KEPT_WHEN_EMPTY or value not in (None, [])}


def read_reflection(ctx: Context, session: Session, id: str) -> tuple[Memory, Row]:
    """Read one reflection with all its fields."""
    memory = memories.resolve(session, ctx.caller, id, ctx.now(), view="kept")
    if memory.kind != "reflection":
        raise Invalid(f"The memory {memory.id} is not a reflection (kind: {memory.kind}).", fields=["memory_id"])
    return memory, build_fields(session, ctx, memory)


def write_files(ctx: Context, to: str, namespace: str | None, since: int | None) -> ExportResult:
    """Write a file for each live, visible reflection; remove files of reflections that are no longer live."""
    ctx.caller.require_local("out_dir")
    folder, place = local_path(to), None if namespace is None else validate.namespace(namespace)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"out_dir: cannot create {folder}: {error.strerror}", fields=["out_dir"]) from None
    with ctx.reading() as session, translate_os_errors(folder):
        written = ExportResult([], [], [], [])
        for memory in _list_reflections(ctx, session, place, since):
            name = file_path(memory.namespace, memory.id)
            changed = _write_file(
                folder, name, render_file(build_fields(session, ctx, memory), memory.content).encode()
            )
            (written.written if changed else written.unchanged).append(name)
            ctx.progress(len(written.written), len(written.written), "exporting")
        if since is None:
            _remove_stale_files(ctx, session, folder, place, written)
    return written


def _list_reflections(ctx: Context, session: Session, namespace: str | None, since: int | None) -> Iterator[Memory]:
    which = Filter(under=namespace, kinds=("reflection",), since=since)
    skip, now = 0, ctx.now()
    while page := memories.select(session, ctx.caller, which, now, order="by_creation", limit=PAGE_SIZE, skip=skip):
        yield from page
        skip += len(page)


def _write_file(folder: Path, name: str, content: bytes) -> bool:
    """Write a file atomically if its content changed; return whether it did. Never follows a symbolic link."""
    file = folder / name
    for above in reversed(file.relative_to(folder).parents):
        place = folder / above
        if place != folder:
            if place.is_symlink():
                raise Invalid(f"{place}: is a symbolic link: remove it.", fields=["out_dir"])
            place.mkdir(mode=0o700, exist_ok=True)
    if file.is_symlink():
        file.unlink()
    if file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content:
        return False
    partial = file.with_name(f".{file.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | _NO_LINK, 0o600), "wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())
    partial.replace(file)
    return True


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def _remove_stale_files(
    ctx: Context, session: Session, folder: Path, namespace: str | None, written: ExportResult
) -> None:
    """Remove files of earlier exports whose reflections are no longer live; record files that are not ours."""
    current = {*written.written, *written.unchanged}
    for name in _list_files(folder):
        if name.endswith(PARTIAL_SUFFIX):
            (folder / name).unlink()
        elif name.endswith(".md") and name not in current:
            _remove_stale_file(ctx, session, folder, name, namespace, written)


def _remove_stale_file(
    ctx: Context, session: Session, folder: Path, name: str, namespace: str | None, written: ExportResult
) -> None:
    identity = _read_identity(folder, name)
    known = memories.by_ids(session, ctx.caller, [identity[0]], ctx.now(), view="any") if identity else {}
    if identity is None or name != file_path(identity[1], identity[0]) or not known:
        written.left.append(name)
    elif namespace is None or identity[1] == namespace or identity[1].startswith(f"{namespace}/"):
        (folder / name).unlink()
        written.removed.append(name)


def _read_identity(folder: Path, name: str) -> tuple[str, str] | None:
    """Read the memory id and namespace from a file; None if it is unreadable or not ours."""
    try:
        fields, _ = parse_file(_read_file(folder / name))
    except (HoldfastError, OSError):
        return None
    id, namespace = fields.get("memory_id"), fields.get("namespace")
    return (id, namespace) if isinstance(id, str) and isinstance(namespace, str) else None


def _list_files(folder: Path) -> list[str]:
    """List all files below a folder by relative name, without following symbolic links."""
    found = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        found += [(Path(place) / file).relative_to(folder).as_posix() for file in files]
        if len(found) > MAX_FILES:
            raise Invalid(f"{folder}: contains more than {MAX_FILES} files.", fields=["path"])
    return sorted(found)


def _read_file(file: Path) -> str:
    """Read a regular file as UTF-8; raise if it is too large."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK), "rb") as given:
        if not stat.S_ISREG(os.fstat(given.fileno()).st_mode):
            raise Invalid("is not a regular file")
        content = given.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise Invalid(f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid("is not UTF-8 text") from None


def import_files(ctx: Context, path: str, options: Options, *, dry_run: bool) -> ImportFilesResult:
    """Import files like any other import; unreadable files are reported, the others are imported."""
    ctx.caller.require_local("path")
    folder = local_path(path)
    parts, rejected = list[ParsedFile](), list[tuple[str, HoldfastError]]()
    with translate_os_errors(folder):
        if not folder.is_dir():
            raise Invalid(f"path: {path!r} is not a folder", fields=["path"])
        for name in (name for name in _list_files(folder) if name.endswith(".md")):
            try:
                parts.append(_parse_file(folder, name))
            except HoldfastError as error:
                rejected.append((name, error))
    missing = _find_missing(ctx, parts)
    rows = [_memory_row(part, missing) for part in parts]
    link_files = [(part.name, link) for part in parts for link in part.links if link["target_id"] not in missing]
    imported = importer.import_envelope(
        ctx, {"memories": rows, "links": [link for _, link in link_files]}, options, dry_run=dry_run
    )
    for one in imported.rejected:
        rejected.append((parts[one.index].name if one.array == "memories" else link_files[one.index][0], one.error))
    return ImportFilesResult(len(parts) + len(rejected) - len(imported.rejected), imported, rejected, sorted(missing))


def _parse_file(folder: Path, name: str) -> ParsedFile:
    try:
        fields, content = parse_file(_read_file(folder / name))
    except OSError as error:
        raise Invalid(f"cannot be read: {error.strerror}") from None
    id = fields.pop("memory_id", None)
    if not isinstance(id, str):
        raise Invalid("memory_id: required: this is not a reflection file", fields=["memory_id"])
    ground, other, more = fields.pop("reflects_on", []), fields.pop("links", []), fields.pop("more", {})
    if not isinstance(more, dict):
        raise Invalid("more: must be an object", fields=["more"])
    ends = [
        {**_check_link(one, "reflects_on"), "relation": "reflects_on"} for one in _check_list(ground, "reflects_on")
    ]
    ends += [_check_link(one, "links") for one in _check_list(other, "links")]
    return ParsedFile(
        name, {**more, **fields, "id": id, "content": content}, [{**end, "source_id": id} for end in ends]
    )


def _check_list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise Invalid(f"{field}: must be a list", fields=[field])
    return value


def _check_link(value: Any, field: str) -> Row:
    if not isinstance(value, dict) or not isinstance(value.get("target_id"), str):
        raise Invalid(f"{field}: every entry needs a target_id", fields=[field])
    return value


def _find_missing(ctx: Context, parts: list[ParsedFile]) -> set[str]:
    """Ids that the files link to and that are neither among them nor in the store."""
    wanted = {link["target_id"] for part in parts for link in part.links} - {part.memory["id"] for part in parts}
    with ctx.reading() as session:
        return wanted - set(memories.by_ids(session, ctx.caller, wanted, ctx.now(), view="kept"))


def _memory_row(part: ParsedFile, missing: set[str]) -> Row:
    lost = [
        _link_end(link) for link in part.links if link["target_id"] in missing and link["relation"] == "reflects_on"
    ]
    return {**part.memory, MISSING_SOURCES: lost} if lost else part.memory

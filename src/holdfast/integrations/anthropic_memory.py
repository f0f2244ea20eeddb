"""Anthropic's memory tool: a folder of files, each a memory of one namespace."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from unicodedata import normalize
from urllib.parse import unquote

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from holdfast.integrations.threads import in_thread
from holdfast.kernel.errors import Conflict, HoldfastError, NotFound, TitleTaken

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam as CacheControl
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from holdfast.app import Holdfast

ROOT = "/memories"
PAGE = 1000
MAX_TRIES = 5
"""How often to retry after a concurrent change."""
VIEW_LEVELS = 2
CONTEXT_LINES = 2
"""Lines shown before and after a change."""
HIDDEN_FOLDER = "node_modules"
BLANK_CONTENT = "(a file without words)"
"""Content of a memory whose file is empty or blank."""
TEXT_KEY = "file_text"
"""Metadata key of such a file's text."""

_STEPS = re.compile(r"[/\\]")
R = TypeVar("R")


class File(NamedTuple):
    """A file and its memory."""

    id: str
    version: int
    text: str


class Files:
    """The commands of the memory tool over one namespace, with the documented messages."""

    def __init__(self, hold: Holdfast, namespace: str) -> None:
        self._hold = hold
        self._namespace = namespace

    def view(self, path: str, lines: list[int] | None) -> str:
        at, files = _normal(path), self._files()
        if at in files:
            return _number_lines(at, files[at].text, lines)
        if not _is_folder(at, files):
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        listed = [f"{_size_text(_total_bytes(at, files))}\t{at}", *_list_folder(at, files, VIEW_LEVELS)]
        head = (
            f"Here're the files and directories up to 2 levels deep in {at}, excluding hidden items and node_modules:"
        )
        return "\n".join([head, *listed])

    def create(self, path: str, text: str) -> str:
        at, files = _normal(path), self._files()
        if at in files or _is_folder(at, files):
            raise ToolError(f"Error: File {path} already exists")
        _check_parents(at, files)
        try:
            self._hold.store(
                title=_title(at),
                namespace=self._namespace,
                tier="long",
                force=True,
                on_conflict="error",
                **_content_of(text),
            )
        except TitleTaken:
            raise ToolError(f"Error: File {path} already exists") from None
        return f"File created successfully at: {path}"

    def replace(self, path: str, old: str, new: str) -> str:
        file = self._file(path, f"Error: The path {path} does not exist. Please provide a valid path.")
        found = _find_lines(file.text, old)
        if not found:
            raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        if file.text.count(old) > 1:
            where = ", ".join(map(str, found))
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {where}. "
                "Please ensure it is unique"
            )
        text = file.text.replace(old, new)
        self._write(file, text)
        first = max(1, found[0] - CONTEXT_LINES)
        shown = text.split("\n")[first - 1 : found[0] + CONTEXT_LINES]
        message = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([message, *_with_numbers(shown, first)])

    def insert(self, path: str, line: int, text: str) -> str:
        file = self._file(path, f"Error: The path {path} does not exist")
        lines = file.text.removesuffix("\n").split("\n") if file.text else []
        if not 0 <= line <= len(lines):
            raise ToolError(
                f"Error: Invalid `insert_line` parameter: {line}. "
                f"It should be within the range of lines of the file: [0, {len(lines)}]"
            )
        self._write(file, "\n".join([*lines[:line], text.rstrip("\n"), *lines[line:]]) + "\n")
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        at, files = _normal(path), self._files()
        if at == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        gone = _files_below(at, files)
        if not gone:
            raise ToolError(f"Error: The path {path} does not exist")
        for file in gone.values():
            with suppress(NotFound):
                self._hold.delete(id=file.id)
        return f"Successfully deleted {path}"

    def rename(self, old: str, new: str) -> str:
        source, target, files = _normal(old), _normal(new), self._files()
        if source == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if target in files or _is_folder(target, files):
            raise ToolError(f"Error: The destination {new} already exists")
        moved = _files_below(source, files)
        if not moved:
            raise ToolError(f"Error: The path {old} does not exist")
        if target.startswith(f"{source}/"):
            raise ToolError(f"Error: {old} cannot be moved into itself")
        _check_parents(target, files)
        for at, file in moved.items():
            with suppress(NotFound):
                self._hold.update(id=file.id, title=_title(target + at[len(source) :]))
        return f"Successfully renamed {old} to {new}"

    def clear(self) -> str:
        self._hold.forget(namespace=self._namespace)
        return "All memory cleared"

    def _file(self, path: str, missing: str) -> File:
        file = self._files().get(_normal(path))
        if file is None:
            raise ToolError(missing)
        return file

    def _write(self, file: File, text: str) -> None:
        self._hold.update(id=file.id, expected_version=file.version, **_content_of(text))

    def _files(self) -> dict[str, File]:
        """Return every memory of the namespace whose title is a valid file path."""
        files: dict[str, File] = {}
        skip = 0
        while page := self._hold.list(namespace=self._namespace, limit=PAGE, offset=skip).memories:
            for memory in page:
                at = f"{ROOT}/{memory.title}"
                if _is_normal(at):
                    files[at] = File(memory.id, memory.version, _text_of(memory))
            skip += PAGE
        return files


def _normal(path: str) -> str:
    """Normalise a path; reject one that leaves the folder, in any encoding."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    if any(".." in _STEPS.split(form) for form in (path, unquote(path), unquote(unquote(path)))):
        raise ToolError(f"Path {path} would escape /memories directory")
    title = normalize("NFC", posixpath.normpath(path))[len(ROOT) + 1 :].strip()
    return f"{ROOT}/{title}" if title else ROOT


def _is_normal(path: str) -> bool:
    try:
        return _normal(path) == path
    except ToolError:
        return False


def _title(at: str) -> str:
    return at.removeprefix(f"{ROOT}/")


def _content_of(text: str) -> dict[str, Any]:
    """Return content and metadata of a file's memory."""
    return {"content": text} if text.strip() else {"content": BLANK_CONTENT, "metadata": {TEXT_KEY: text}}


def _text_of(memory: Any) -> str:
    kept = memory.metadata.get(TEXT_KEY)
    return kept if memory.content == BLANK_CONTENT and isinstance(kept, str) else str(memory.content)


def _files_below(at: str, files: dict[str, File]) -> dict[str, File]:
    """Return a file, or all files in a folder."""
    return {path: file for path, file in files.items() if path == at or path.startswith(f"{at}/")}


def _is_folder(at: str, files: dict[str, File]) -> bool:
    return at == ROOT or any(path.startswith(f"{at}/") for path in files)


def _check_parents(at: str, files: dict[str, File]) -> None:
    above = posixpath.dirname(at)
    while above != ROOT:
        if above in files:
            raise ToolError(f"Error: The path {above} is a file, not a directory")
        above = posixpath.dirname(above)


def _list_folder(folder: str, files: dict[str, File], levels: int) -> Iterator[str]:
    """List a folder by name, with the contents of subfolders."""
    inside = {path[len(folder) + 1 :].split("/")[0] for path in files if path.startswith(f"{folder}/")}
    for name in sorted(inside):
        at = f"{folder}/{name}"
        if name.startswith(".") or name == HIDDEN_FOLDER:
            continue
        if at in files:
            yield f"{_size_text(_total_bytes(at, files))}\t{at}"
        else:
            yield f"{_size_text(_total_bytes(at, files))}\t{at}/"
            if levels > 1:
                yield from _list_folder(at, files, levels - 1)


def _total_bytes(at: str, files: dict[str, File]) -> int:
    return sum(len(file.text.encode()) for file in _files_below(at, files).values())


def _size_text(number: int) -> str:
    """Format a size in bytes, K or M."""
    if number < 1024:
        return f"{number}B"
    return f"{number / 1024:.1f}K" if number < 1 << 20 else f"{number / (1 << 20):.1f}M"


def _number_lines(path: str, text: str, view: list[int] | None) -> str:
    """Number the lines of a file, or of a range; -1 is the last line."""
    lines, first, last = text.split("\n"), 1, -1
    if view and len(view) == 2:
        first, last = max(1, view[0]), view[1]
    shown = lines[first - 1 :] if last == -1 else lines[first - 1 : last]
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(_with_numbers(shown, first))


def _with_numbers(lines: list[str], first: int) -> Iterator[str]:
    return (f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def _find_lines(text: str, part: str) -> list[int]:
    """Return the line number of each occurrence of a text."""
    found = []
    at = text.find(part) if part else -1
    while at != -1:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(part, at + 1)
    return found


def _run_command(work: Callable[[], R]) -> R:
    """Run a command, retrying after concurrent changes; convert errors to tool errors."""
    for _ in range(MAX_TRIES):
        try:
            return work()
        except TitleTaken as error:
            raise ToolError(f"Error: {error.message}") from error
        except (Conflict, NotFound) as error:
            last = error
        except HoldfastError as error:
            raise ToolError(f"Error: {error.message}") from error
    raise ToolError(f"Error: {last.message}") from last


class HoldfastMemoryTool(BetaAbstractMemoryTool):
    """The memory tool with its files in a namespace: a file's path is the title of its memory."""

    def __init__(
        self, hold: Holdfast, *, namespace: str = "memories", cache_control: CacheControl | None = None
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = Files(hold, namespace)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return _run_command(lambda: self._files.view(command.path, command.view_range))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return _run_command(lambda: self._files.create(command.path, command.file_text))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return _run_command(lambda: self._files.replace(command.path, command.old_str, command.new_str))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return _run_command(lambda: self._files.insert(command.path, command.insert_line, command.insert_text))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return _run_command(lambda: self._files.delete(command.path))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return _run_command(lambda: self._files.rename(command.old_path, command.new_path))

    def clear_all_memory(self) -> str:
        """Archive every file."""
        return _run_command(self._files.clear)


class AsyncHoldfastMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for asynchronous clients."""

    def __init__(
        self, hold: Holdfast, *, namespace: str = "memories", cache_control: CacheControl | None = None
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = HoldfastMemoryTool(hold, namespace=namespace)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await in_thread(lambda: self._tool.view(command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await in_thread(lambda: self._tool.create(command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await in_thread(lambda: self._tool.str_replace(command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await in_thread(lambda: self._tool.insert(command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await in_thread(lambda: self._tool.delete(command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await in_thread(lambda: self._tool.rename(command))

    async def clear_all_memory(self) -> str:
        return await in_thread(self._tool.clear_all_memory)

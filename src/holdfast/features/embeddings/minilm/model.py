"""The loaded model: its session and its tokenizer.

The session is onnxruntime through its C API: the Python API needs numpy, which takes longer to import than the model to
load. The tokenizer is WordPiece, as in BERT: lower case, without accents.
"""

import ctypes
import os
import re
import weakref
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint32, c_void_p
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from holdfast.kernel.errors import EmbedderFailed

API_VERSION = 17
"""API version: onnxruntime 1.17 and later."""
_INT64, _FLOAT = 7, 1
_PATH = ctypes.c_wchar_p if os.name == "nt" else c_char_p
_OUT_POINTER = POINTER(c_void_p)

_CALLS: dict[str, tuple[Any, ...]] = {
    "CreateEnv": (3, c_int, c_char_p, _OUT_POINTER),
    "DisableTelemetryEvents": (6, c_void_p),
    "CreateSession": (7, c_void_p, _PATH, c_void_p, _OUT_POINTER),
    "Run": (9, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    "CreateSessionOptions": (10, _OUT_POINTER),
    "SetSessionGraphOptimizationLevel": (23, c_void_p, c_int),
    "SetIntraOpNumThreads": (24, c_void_p, c_int),
    "SetInterOpNumThreads": (25, c_void_p, c_int),
    "CreateTensorWithDataAsOrtValue": (49, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_int, _OUT_POINTER),
    "CreateCpuMemoryInfo": (69, c_int, c_int, _OUT_POINTER),
}
"""Index of each function in the table `OrtApi`, which only grows at its end, and its argument types."""
_GET_ERROR_MESSAGE, _RELEASE_STATUS, _RELEASE_SESSION, _RELEASE_VALUE, _RELEASE_OPTIONS = 2, 93, 95, 96, 100


class _Base(ctypes.Structure):
    _fields_ = [("GetApi", ctypes.CFUNCTYPE(c_void_p, c_uint32)), ("GetVersionString", c_void_p)]


def _load_table(file: Path) -> Any:
    """Load the function table of a library."""
    try:
        start = ctypes.CDLL(str(file)).OrtGetApiBase
    except (OSError, AttributeError) as error:
        raise EmbedderFailed(
            "onnxruntime cannot be loaded. Run `pip install --force-reinstall onnxruntime`."
        ) from error
    start.restype = POINTER(_Base)
    table = start().contents.GetApi(API_VERSION)
    if not table:
        raise EmbedderFailed("onnxruntime is too old. Run `pip install --upgrade onnxruntime`.")
    return ctypes.cast(table, POINTER(c_void_p))


class Runtime:
    """The library, loaded for the life of the process."""

    def __init__(self, file: Path) -> None:
        self._table = _load_table(file)
        self._calls = {name: self._bind_call(place, *types) for name, (place, *types) in _CALLS.items()}
        self._get_message = self._bind_call(_GET_ERROR_MESSAGE, c_void_p, result=c_char_p)
        self._release_status = self._bind_call(_RELEASE_STATUS, c_void_p, result=None)
        self.environment = self.make("CreateEnv", 4, b"holdfast")
        self.call("DisableTelemetryEvents", self.environment)
        self.memory = self.make("CreateCpuMemoryInfo", 1, 0)

    def _bind_call(self, place: int, *types: Any, result: Any = c_void_p) -> Any:
        return ctypes.CFUNCTYPE(result, *types)(self._table[place])

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise its error."""
        status = self._calls[name](*arguments)
        if status:
            message = self._get_message(status).decode("utf-8", "replace")
            self._release_status(status)
            raise EmbedderFailed(f"onnxruntime failed in {name}: {message}")

    def make(self, name: str, *arguments: Any) -> c_void_p:
        """Call a function that creates an object; the caller must release it."""
        handle = c_void_p()
        self.call(name, *arguments, byref(handle))
        return handle

    def make_releaser(self, place: int) -> Any:
        """Return the function that releases a kind of object."""
        return self._bind_call(place, c_void_p, result=None)


@cache
def load_runtime() -> Runtime:
    """Return the library of the package onnxruntime, without importing the package."""
    found = find_spec("onnxruntime")
    if found is None or found.origin is None:
        raise EmbedderFailed("onnxruntime is not installed. Run `pip install onnxruntime`.")
    folder = Path(found.origin).parent / "capi"
    files = [*folder.glob("libonnxruntime.*"), *folder.glob("onnxruntime.dll")]
    if not files:
        raise EmbedderFailed("onnxruntime has no library. Run `pip install --force-reinstall onnxruntime`.")
    return Runtime(files[0])


class Session:
    """A loaded model that embeds one text at a time. Safe for concurrent threads."""

    def __init__(self, model: Path, threads: int) -> None:
        self._runtime = load_runtime()
        options = self._make_options(threads)
        place = str(model) if os.name == "nt" else os.fsencode(model)
        try:
            self._session = self._runtime.make("CreateSession", self._runtime.environment, place, options)
        finally:
            self._runtime.make_releaser(_RELEASE_OPTIONS)(options)
        self._release = self._runtime.make_releaser(_RELEASE_VALUE)
        weakref.finalize(self, self._runtime.make_releaser(_RELEASE_SESSION), self._session).atexit = False

    def _make_options(self, threads: int) -> c_void_p:
        options = self._runtime.make("CreateSessionOptions")
        # The graph is optimised already; optimising again would take longer than everything else.
        self._runtime.call("SetSessionGraphOptimizationLevel", options, 0)
        self._runtime.call("SetIntraOpNumThreads", options, threads)
        self._runtime.call("SetInterOpNumThreads", options, 1)
        return options

    def run(self, ids: Sequence[int], width: int) -> bytes:
        """Return the embedding of a text, as `width` floats."""
        input_ids, output = (c_int64 * len(ids))(*ids), (c_float * width)()
        input_tensor = self._make_tensor(input_ids, len(ids), _INT64)
        output_tensor = self._make_tensor(output, width, _FLOAT)
        try:
            names = [(c_char_p * 1)(name) for name in (b"ids", b"vector")]
            values = [(c_void_p * 1)(value) for value in (input_tensor, output_tensor)]
            self._runtime.call("Run", self._session, None, names[0], values[0], 1, names[1], 1, values[1])
        finally:
            self._release(input_tensor)
            self._release(output_tensor)
        return bytes(output)

    def _make_tensor(self, numbers: "ctypes.Array[Any]", count: int, kind: int) -> c_void_p:
        """Wrap a row of numbers without copying it."""
        shape = (c_int64 * 2)(1, count)
        size = ctypes.sizeof(numbers)
        return self._runtime.make("CreateTensorWithDataAsOrtValue", self._runtime.memory, numbers, size, shape, 2, kind)


MAX_WORD_CHARACTERS = 100
CACHED_WORDS = 20_000
_IDEOGRAPH = (
    "([\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)
_ASCII_MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class WordPiece:
    """Splits words into the longest pieces of a fixed vocabulary."""

    def __init__(self, vocabulary: Path) -> None:
        pieces = vocabulary.read_text("utf-8").split("\n")
        self._ids = dict(zip(pieces, range(len(pieces)), strict=True))
        self._unknown, self._begin, self._end = (self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        self._cached_pieces = lru_cache(CACHED_WORDS)(self._split_word)

    def encode(self, text: str, max_ids: int) -> list[int]:
        """Encode a text as at most `max_ids` ids, including the begin and end markers."""
        found: list[int] = []
        for word in split_words(text):
            found += self._cached_pieces(word) if len(word) <= MAX_WORD_CHARACTERS else [self._unknown]
            if len(found) >= max_ids - 2:
                break
        return [self._begin, *found[: max_ids - 2], self._end]

    def measure_known_share(self, text: str, max_ids: int) -> float:
        """Return the share of a text's pieces that are in the vocabulary; 0 for a text without pieces."""
        pieces = self.encode(text, max_ids)[1:-1]
        return 1 - pieces.count(self._unknown) / len(pieces) if pieces else 0.0

    def _split_word(self, word: str) -> list[int]:
        """Return the ids of a word's pieces, or that of the unknown word."""
        found, start = [], 0
        while start < len(word):
            end = self._find_piece_end(word, start)
            if not end:
                return [self._unknown]
            found.append(self._ids[_piece(word, start, end)])
            start = end
        return found

    def _find_piece_end(self, word: str, start: int) -> int:
        """Return the end of the longest piece that begins here; 0 if there is none."""
        ends = range(len(word), start, -1)
        return next((end for end in ends if _piece(word, start, end) in self._ids), 0)


def _piece(word: str, start: int, end: int) -> str:
    return f"##{word[start:end]}" if start else word[:end]


def split_words(text: str) -> Iterator[str]:
    """Split a text into words and punctuation marks, as BERT does."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(" " if _is_blank(letter) else letter for letter in text if not _is_control(letter))
    text = text.lower() if text.isascii() else _normalise(text)
    for run in text.split():
        yield from (run,) if run.isalnum() else _split_marks(run)


def _normalise(text: str) -> str:
    """Separate ideographs, remove accents, lower the case letter by letter, because BERT has no final sigma."""
    apart = normalize("NFD", re.sub(_IDEOGRAPH, r" \1 ", text))
    return "".join(letter.lower() for letter in apart if category(letter) != "Mn")


def _split_marks(run: str) -> Iterator[str]:
    """Split a run of letters and marks; each mark is a word."""
    start = 0
    for at, letter in enumerate(run):
        if _is_mark(letter):
            yield from (part for part in (run[start:at], letter) if part)
            start = at + 1
    if start < len(run):
        yield run[start:]


def _is_mark(letter: str) -> bool:
    return letter in _ASCII_MARKS or category(letter).startswith("P")


def _is_blank(letter: str) -> bool:
    return letter in " \t\n\r" or category(letter) == "Zs"


def _is_control(letter: str) -> bool:
    return letter in "\x00\ufffd" or (letter not in "\t\n\r" and category(letter) in ("Cc", "Cf", "Co"))

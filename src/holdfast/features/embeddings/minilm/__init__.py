"""all-MiniLM-L6-v2, quantised to 8 bits, on the CPU: no network, a few milliseconds per text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.vector import Vector

if TYPE_CHECKING:
    from holdfast.features.embeddings.minilm.model import Session, WordPiece  # loads onnxruntime, 100 ms

MODEL_FOLDER = Path(__file__).parent
CHECKSUMS = {"model.onnx": 0xDFA88F70, "model.bin": 0x4B7BBE34, "vocab.txt": 0xE3084609}
"""CRC-32 of the files built by `tools/make_model.py`."""
MAX_TOKENS = 128
"""Maximum tokens of a text. Passages have fewer; of longer texts only the beginning counts."""
MIN_KNOWN_SHARE = 0.5
"""Minimum share of known pieces; with fewer, an embedding carries no meaning."""
MAX_CHARACTERS = 8192
"""Characters of a text that are read."""


class _LoadedModel(NamedTuple):
    """The loaded model."""

    session: Session
    tokenizer: WordPiece


class MiniLm:
    """The bundled embedder. Loads with the first text, in less than 0.1 s."""

    model = "all-MiniLM-L6-v2-int8"
    dim = 384
    remote = False

    def __init__(self, *, threads: int = 1, folder: Path = MODEL_FOLDER) -> None:
        self._threads = threads
        self._folder = folder
        self._lock = Lock()
        self._loaded: _LoadedModel | None = None
        self.is_loaded = False

    def warm(self) -> None:
        """Start loading in the background; `embed` waits for it."""
        if self._loaded is not None:
            return
        # Not a daemon thread: a process must not exit while the library is loading.
        Thread(target=self._try_to_load, name="holdfast-model").start()

    def can_embed(self, text: str) -> bool:
        try:
            _, pieces = self._load()
        except EmbedderFailed:
            return True  # `embed` raises the error
        return pieces.measure_known_share(text[:MAX_CHARACTERS], MAX_TOKENS) >= MIN_KNOWN_SHARE

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts one at a time: in a batch, rounding depends on the other texts, and it is no faster."""
        session, pieces = self._load()
        numbered = (pieces.encode(text[:MAX_CHARACTERS], MAX_TOKENS) for text in texts)
        return [Vector(session.run(ids, self.dim)) for ids in numbered]

    def _try_to_load(self) -> None:
        with suppress(EmbedderFailed):
            self._load()

    def _load(self) -> _LoadedModel:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load_model(self._folder, self._threads)
                self.is_loaded = True
            return self._loaded


def _load_model(folder: Path, threads: int) -> _LoadedModel:
    from holdfast.features.embeddings.minilm.model import Session, WordPiece  # loads onnxruntime, 100 ms

    for name, sum in CHECKSUMS.items():
        _check_file(folder / name, sum)
    return _LoadedModel(Session(folder / "model.onnx", threads), WordPiece(folder / "vocab.txt"))


def _check_file(file: Path, checksum: int) -> None:
    # Mapping an empty file is a ValueError.
    with (
        suppress(OSError, ValueError),
        file.open("rb") as opened,
        mmap(opened.fileno(), 0, access=ACCESS_READ) as content,
    ):
        if crc32(content) == checksum:
            return
    raise EmbedderFailed(f"The embedding model's file {file.name} is missing or damaged. Reinstall Holdfast.")

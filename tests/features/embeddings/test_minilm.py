"""The bundled model: its embeddings, and its errors if a part is missing."""

import _ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path
from shutil import copytree

import numpy
import pytest

from holdfast.features.embeddings.minilm import CHECKSUMS, MODEL_FOLDER, MiniLm
from holdfast.features.embeddings.minilm.model import load_runtime
from holdfast.kernel.errors import EmbedderFailed
from holdfast.kernel.vector import Vector

TEXTS = [
    "A cat sits on the mat.",
    "The kitten is lying on a rug.",
    "Quarterly revenue grew by nine percent.",
    "When did I paint the sunrise?",
    "I painted it last year, at the lake.",
]
PUBLISHED = [
    [1.000, 0.562, -0.011, 0.021, -0.001],
    [0.562, 1.000, 0.017, 0.000, -0.046],
    [-0.011, 0.017, 1.000, 0.041, -0.100],
    [0.021, 0.000, 0.041, 1.000, 0.592],
    [-0.001, -0.046, -0.100, 0.592, 1.000],
]
"""Similarities of these texts by the published 32-bit model."""


def numbers(vectors: list[Vector]) -> "numpy.typing.NDArray[numpy.float32]":
    return numpy.array([numpy.frombuffer(vector, "<f4") for vector in vectors])


def test_texts_are_as_similar_as_in_the_published_model() -> None:
    made = numbers(MiniLm().embed(TEXTS))
    assert made @ made.T == pytest.approx(numpy.array(PUBLISHED), abs=0.04)


def test_the_number_of_threads_does_not_change_embeddings() -> None:
    alone, several = (numbers(MiniLm(threads=threads).embed(TEXTS)) for threads in (1, 3))
    assert alone == pytest.approx(several, abs=1e-4)


def test_the_beginning_of_a_long_text_counts() -> None:
    model = MiniLm()
    assert model.embed(["word " * 126]) == model.embed(["word " * 20_000])
    assert model.embed(["word " * 126]) != model.embed(["word " * 20])
    assert model.embed(["x" * 9000 + " cat"]) == model.embed(["x" * 9000 + " dog"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(copytree(MODEL_FOLDER, tmp_path / "minilm"))


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def change(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        byte = opened.read(1)[0]
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte ^ 1]))


def fold(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("name", CHECKSUMS)
@pytest.mark.parametrize("damage", [Path.unlink, cut, empty, change, fold])
def test_a_missing_or_damaged_file_is_named(folder: Path, name: str, damage: object) -> None:
    assert callable(damage)
    damage(folder / name)
    model = MiniLm(folder=folder)
    model.warm()
    with pytest.raises(EmbedderFailed, match=f"{name} is missing or damaged") as failed:
        model.embed(["x"])
    assert not failed.value.retryable


def test_a_model_in_a_folder_of_any_name_is_loaded(tmp_path: Path) -> None:
    there = Path(copytree(MODEL_FOLDER, tmp_path / "Käse ünd 模型"))
    assert MiniLm(folder=there).embed(["x"]) == MiniLm().embed(["x"])


@pytest.fixture
def no_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide onnxruntime; a test may put its own version there."""
    elsewhere = [entry for entry in sys.path if not (Path(entry) / "onnxruntime").exists()]
    monkeypatch.setattr(sys, "path", elsewhere)
    load_runtime.cache_clear()
    yield
    load_runtime.cache_clear()


@pytest.mark.usefixtures("no_runtime")
def test_without_onnxruntime_the_package_to_install_is_named() -> None:
    with pytest.raises(EmbedderFailed, match="pip install onnxruntime"):
        MiniLm().embed(["x"])


@pytest.mark.usefixtures("no_runtime")
@pytest.mark.parametrize("library", [None, b"", b"not a library" * 1000, "another"])
def test_a_broken_onnxruntime_asks_for_reinstallation(library: bytes | str | None, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime" / "capi").mkdir(parents=True)
    (tmp_path / "onnxruntime" / "__init__.py").touch()
    file = tmp_path / "onnxruntime" / "capi" / "libonnxruntime.so.1"
    if library == "another":
        file.symlink_to(_ctypes.__file__)
    elif isinstance(library, bytes):
        file.write_bytes(library)
    sys.path.insert(0, str(tmp_path))  # of the fixture: `syspath_prepend` would leave it behind for other tests
    invalidate_caches()
    with pytest.raises(EmbedderFailed, match="pip install --force-reinstall onnxruntime"):
        MiniLm().embed(["x"])


ONLY_WHAT_IS_NEEDED = """
import sys
from holdfast.app import choose_embedder
from holdfast.settings import Settings
model = choose_embedder(Settings())
print("ctypes" in sys.modules)
model.warm()
print(len(model.embed(["When is the next deploy?"])))
print([name for name in ("numpy", "onnxruntime") if name in sys.modules])
"""


def test_a_query_is_embedded_without_numpy_and_nothing_is_loaded_earlier() -> None:
    done = subprocess.run([sys.executable, "-c", ONLY_WHAT_IS_NEEDED], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["False", "1", "[]", ""]


ENDS_AT_ONCE = """
from holdfast.features.embeddings.minilm import MiniLm
MiniLm().warm()
"""


def test_a_process_can_exit_while_the_model_loads() -> None:
    for _ in range(5):
        subprocess.run([sys.executable, "-c", ENDS_AT_ONCE], check=True)

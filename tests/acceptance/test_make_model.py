"""The bundled model is the published one: a rebuild gives the same bytes."""

import ast
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.features.embeddings.minilm import CHECKSUMS, MODEL_FOLDER
from timeouts import TEST_TIMEOUT, TIMEOUT

TOOL = Path(__file__).parents[2] / "tools" / "make_model.py"
SAID = ast.parse(TOOL.read_text())


def commands() -> list[list[str]]:
    """Return the commands that the tool documents."""
    lines = (ast.get_docstring(SAID) or "").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("    ")]


def digests() -> dict[str, str]:
    """Return the digests that the tool checks."""
    found = [
        node.value for node in SAID.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHIPPED"
    ]
    return dict(ast.literal_eval(found[0]))


@pytest.fixture
def bench() -> Iterator[Path]:
    """A folder with the tool and its own Python."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "tools").mkdir()
        shutil.copy(TOOL, Path(folder) / "tools")
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True, timeout=TIMEOUT)
        yield Path(folder)


def run_command(bench: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": f"{bench / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        command, cwd=bench, env=environment, capture_output=True, text=True, timeout=TEST_TIMEOUT, check=False
    )


def test_the_shipped_model_files_match_the_checksums_of_the_tool() -> None:
    assert {name: hashlib.sha256((MODEL_FOLDER / name).read_bytes()).hexdigest() for name in CHECKSUMS} == digests()


@pytest.mark.full
def test_the_tool_builds_the_shipped_files_from_the_public_weights_byte_for_byte(bench: Path) -> None:
    download, install, make = commands()
    if (got := run_command(bench, download)).returncode:
        pytest.skip(f"the public weights cannot be had here: {got.stderr[-500:]}")
    assert (had := run_command(bench, install)).returncode == 0, had.stderr[-2000:]
    made = run_command(bench, make)
    assert made.returncode == 0, made.stdout + made.stderr
    for name in CHECKSUMS:
        assert (bench / make[-1] / name).read_bytes() == (MODEL_FOLDER / name).read_bytes(), name

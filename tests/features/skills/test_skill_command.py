"""Skills on the command line, in a subprocess: output to a pipe."""

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from timeouts import TIMEOUT

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
TEXT = b"---\nname: deploy\ndescription: How we deploy.\n---\n# Deploy\n"


@pytest.fixture
def engine() -> str:
    """Output to a pipe does not depend on the engine."""
    return "sqlite"


@pytest.mark.parametrize(
    "content",
    [bytes(range(256)), b"no newline", b"one\n", b"\x1b[31mred\r\n", "größer\n\n".encode(), b""],
    ids=["binary", "no newline", "one line", "escapes", "words", "empty"],
)
def test_a_skill_file_is_written_to_a_pipe_byte_for_byte(db: str, tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "deploy"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(TEXT)
    (folder / "file").write_bytes(content)
    with holdfast.open(db) as hold:
        hold.skill_register(str(folder))
    command = [HOLDFAST, "--db", db, "skill", "resource", "deploy", "file"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT)
    assert done.stdout == content

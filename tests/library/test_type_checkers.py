"""The declared types: type checkers accept right uses of the library, which run, and refuse wrong ones."""

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from uses import right_uses

import holdfast

USES = Path(__file__).parent / "uses"
CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--strict"],
    "pyright": [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_refuses_exactly_the_wrong_uses(checker: str) -> None:
    if checker == "pyright" and shutil.which("node") is None:
        pytest.skip("pyright needs node")
    files = sorted(USES.glob("*.py"))
    checked = subprocess.run([*CHECKERS[checker], *map(str, files)], capture_output=True, text=True)
    refused = set(re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -)?: error|(\w+\.py):(\d+):\d+ - error", checked.stdout))
    expected = {
        (file.name, str(number))
        for file in files
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if line.endswith("# wrong")
    }
    assert {(a or c, b or d) for a, b, c, d in refused} == expected, checked.stdout + checked.stderr


def test_the_right_uses_run(hold: holdfast.Holdfast, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right_uses.use_store(hold)
    assert right_uses.use_recall(hold) == ["Deploy day 1.0"]
    right_uses.use_others(hold)
    monkeypatch.setenv("HOLDFAST_DB", db)
    assert "Deploy day" in asyncio.run(right_uses.use_async())

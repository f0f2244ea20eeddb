"""Commands that run in this process on the store of a test."""

import pytest
from four_surfaces import run_command
from holdfast_command import Run


@pytest.fixture
def run(db: str) -> Run:
    """Run a command in this process on the test's store; return exit code, standard output and standard error."""

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        code, out, err = run_command(["--db", db, *words], stdin)
        return code, out.decode(), err.decode()

    return run

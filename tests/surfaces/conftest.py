"""Stores for the surfaces. A test file about storage overrides `engine` to run on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def db(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty store, or of a file that does not exist yet."""
    if engine == "sqlite":
        yield str(tmp_path / "memory.db")
    else:
        with request.getfixturevalue("postgres").empty_store() as url:
            yield url

"""Stores for the surfaces. A file of tests whose subject is the store overrides `engine` to try both."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def db(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a store in which there is nothing, or of a file that is not there yet."""
    if engine == "sqlite":
        yield str(tmp_path / "memory.db")
    else:
        with request.getfixturevalue("postgres").empty_store() as url:
            yield url

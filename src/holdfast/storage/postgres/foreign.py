"""What the driver and the database call an error, in our words. Nothing of an address but its host gets out."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ...domain import errors

_BY_STATE: tuple[tuple[str, type[errors.StoreError], str], ...] = (
    ("53100", errors.StoreFull, ""),
    ("53200", errors.StoreBusy, "The database is out of memory: try again."),
    ("53300", errors.StoreBusy, "The database takes no more connections: try again, or allow more."),
    ("55P03", errors.StoreBusy, "Another writer held the store for too long: try again."),
    ("57014", errors.StoreBusy, "The database stopped the statement: try again."),
    ("40", errors.StoreBusy, "Another change came between: try again."),
    ("28", errors.StoreUnreachable, "The database refused the user or the password."),
    ("3D000", errors.StoreUnreachable, "There is no such database: create it first."),
    ("25006", errors.StoreUnreachable, "The database takes no changes here: it is a replica, or set to be read only."),
    (
        "42501",
        errors.StoreUnreachable,
        "The database user may not do this: grant it what docs/how-to/postgresql.md says.",
    ),
    ("57P", errors.StoreUnreachable, "The database is being stopped or started: try again."),
    ("25P03", errors.StoreUnreachable, "The transaction was idle for too long and was ended: try again."),
    ("08", errors.StoreUnreachable, "The connection to the database broke: try again."),
    ("XX001", errors.StoreDamaged, ""),
    ("XX002", errors.StoreDamaged, ""),
    ("3F000", errors.StoreDamaged, "The schema of the store is gone."),
    ("42P01", errors.StoreDamaged, "A table of the store is gone."),
    ("42703", errors.StoreDamaged, "A column of the store is gone."),
)


@contextmanager
def translated() -> Iterator[None]:
    """No error of the driver leaves this package."""
    try:
        yield
    except psycopg.Error as error:
        raise foreign(error) from error


def foreign(error: Exception) -> errors.StoreError:
    """What an error of the driver is called here."""
    state = getattr(error, "sqlstate", None) or ""
    for begin, ours, message in _BY_STATE:
        if state.startswith(begin):
            return ours(message or None)
    if isinstance(error, psycopg.OperationalError):
        return errors.StoreUnreachable(f"The database cannot be reached: {_plain(error)}")
    return errors.StoreError(f"The database refused this ({state or type(error).__name__}: {_plain(error)}).")


def _plain(error: Exception) -> str:
    """The last line of what libpq says; the driver never repeats a password in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

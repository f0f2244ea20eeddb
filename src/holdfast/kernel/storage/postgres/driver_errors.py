"""What the driver and the database call an error, in our words. Nothing of an address but its host gets out."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from holdfast.kernel import errors


class Meaning(NamedTuple):
    """What an error is called here, and whether the same request may succeed later."""

    ours: type[errors.StoreError]
    message: str | None = None
    retryable: bool | None = None

    def error(self) -> errors.StoreError:
        return self.ours(self.message, retryable=self.retryable)


FULL_OF_CLIENTS = Meaning(errors.StoreBusy, "The database takes no more connections: try again, or allow more.")
REFUSED = Meaning(errors.StoreUnreachable, "The database refused the user or the password.")
NO_DATABASE = Meaning(errors.StoreUnreachable, "There is no such database: create it first.")
TURNING = Meaning(errors.StoreUnreachable, "The database is being stopped or started: try again.", retryable=True)
BROKEN = Meaning(
    errors.StoreUnreachable, "The connection to the database broke; nothing was written: try again.", retryable=True
)
POOLED = Meaning(
    errors.StoreError, "A pooler stands before the database: add `prepare=off` to the query of its address."
)

_BY_STATE: tuple[tuple[str, Meaning], ...] = (
    ("53100", Meaning(errors.StoreFull)),
    ("53200", Meaning(errors.StoreBusy, "The database is out of memory: try again.")),
    ("53300", FULL_OF_CLIENTS),
    ("55P03", Meaning(errors.StoreBusy, "Another writer held the store for too long: try again.")),
    ("57014", Meaning(errors.StoreBusy, "The statement took too long, or was stopped in the database: try again.")),
    ("40", Meaning(errors.StoreBusy, "Another change came between: try again.")),
    ("28", REFUSED),
    ("3D000", NO_DATABASE),
    (
        "25006",
        Meaning(
            errors.StoreUnreachable, "The database takes no changes here: it is a replica, or set to be read only."
        ),
    ),
    (
        "42501",
        Meaning(
            errors.StoreUnreachable,
            "The database user may not do this: to write, it needs every right on the tables of the store.",
        ),
    ),
    ("57P", TURNING),
    (
        "25P03",
        Meaning(
            errors.StoreUnreachable, "The transaction was idle for too long and was ended: try again.", retryable=True
        ),
    ),
    ("08", BROKEN),
    ("26000", POOLED),
    ("42P05", POOLED),
    ("XX001", Meaning(errors.StoreDamaged)),
    ("XX002", Meaning(errors.StoreDamaged)),
    ("3F000", Meaning(errors.StoreDamaged, "The schema of the store is gone.")),
    ("42P01", Meaning(errors.StoreDamaged, "A table of the store is gone.")),
    ("42703", Meaning(errors.StoreDamaged, "A column of the store is gone.")),
)

_BY_WORDS: tuple[tuple[str, Meaning], ...] = (
    ("password authentication failed|no password supplied|authentication failed|no pg_hba.conf entry", REFUSED),
    ('role ".{0,255}" (does not exist|is not permitted)', REFUSED),
    ('database ".{0,255}" does not exist', NO_DATABASE),
    ("too many (clients|connections)|connection slots are reserved", FULL_OF_CLIENTS),
    ("starting up|shutting down|in recovery mode|not (yet )?accepting connections", TURNING),
)
"""Who is not let in is told why in words alone."""

_FINAL = re.compile("could not translate host name|invalid|unrecognized|certificate|does not support")
"""What no other try will change."""


@contextmanager
def translated() -> Iterator[None]:
    """No error of the driver leaves this package."""
    try:
        yield
    except psycopg.Error as error:
        raise foreign(error) from error


def foreign(error: Exception) -> errors.StoreError:
    """What an error of the driver is called here."""
    if state := getattr(error, "sqlstate", None):
        for begin, meaning in _BY_STATE:
            if state.startswith(begin):
                return meaning.error()
    elif isinstance(error, psycopg.OperationalError) or type(error) is psycopg.DatabaseError:
        return _away(error)  # no state: not the database said it, but the client's library, of the connection
    return errors.StoreError(f"The database refused this ({state or type(error).__name__}: {_plain(error)}).")


def _away(error: Exception) -> errors.StoreError:
    """No connection, or none any more."""
    said = str(error)
    for words, meaning in _BY_WORDS:
        if re.search(words, said):
            return meaning.error()
    final = _FINAL.search(said) is not None
    return errors.StoreUnreachable(f"The database cannot be reached: {_plain(error)}", retryable=not final)


def _plain(error: Exception) -> str:
    """The line of what libpq says that tells most; it never repeats a password."""
    lines = [line.strip(" \t-") for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1 if lines[0].startswith("Multiple connection attempts") else 0]

"""Translate driver errors to ours. Of an address, only the host is ever shown."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from holdfast.kernel import errors


class ErrorMapping(NamedTuple):
    """Our error class and message for a driver error, and whether a retry may succeed."""

    ours: type[errors.StoreError]
    message: str | None = None
    retryable: bool | None = None

    def error(self) -> errors.StoreError:
        return self.ours(self.message, retryable=self.retryable)


TOO_MANY_CONNECTIONS = ErrorMapping(errors.StoreBusy, "The database has no free connections: try again, or allow more.")
REFUSED = ErrorMapping(errors.StoreUnreachable, "The database rejected the user or the password.")
NO_DATABASE = ErrorMapping(errors.StoreUnreachable, "There is no such database: create it first.")
RESTARTING = ErrorMapping(errors.StoreUnreachable, "The database is stopping or starting: try again.", retryable=True)
BROKEN = ErrorMapping(
    errors.StoreUnreachable, "The connection to the database broke; nothing was written. Try again.", retryable=True
)
TRANSACTION_POOLER = ErrorMapping(
    errors.StoreError, "The database is behind a connection pooler: add `prepare=off` to the query of its address."
)

_BY_STATE: tuple[tuple[str, ErrorMapping], ...] = (
    ("53100", ErrorMapping(errors.StoreFull)),
    ("53200", ErrorMapping(errors.StoreBusy, "The database is out of memory: try again.")),
    ("53300", TOO_MANY_CONNECTIONS),
    ("55P03", ErrorMapping(errors.StoreBusy, "Another writer locked the store for too long: try again.")),
    (
        "57014",
        ErrorMapping(errors.StoreBusy, "The statement took too long or was cancelled in the database: try again."),
    ),
    ("40", ErrorMapping(errors.StoreBusy, "A concurrent change conflicted: try again.")),
    ("28", REFUSED),
    ("3D000", NO_DATABASE),
    ("25006", ErrorMapping(errors.StoreUnreachable, "The database is read-only: it is a replica, or configured so.")),
    (
        "42501",
        ErrorMapping(
            errors.StoreUnreachable,
            "The database user has no right to do this: to write, it needs all rights on the store's tables.",
        ),
    ),
    ("57P", RESTARTING),
    (
        "25P03",
        ErrorMapping(
            errors.StoreUnreachable, "The transaction was idle for too long and was aborted: try again.", retryable=True
        ),
    ),
    ("08", BROKEN),
    ("26000", TRANSACTION_POOLER),
    ("42P05", TRANSACTION_POOLER),
    ("XX001", ErrorMapping(errors.StoreDamaged)),
    ("XX002", ErrorMapping(errors.StoreDamaged)),
    ("3F000", ErrorMapping(errors.StoreDamaged, "The schema of the store is missing.")),
    ("42P01", ErrorMapping(errors.StoreDamaged, "A table of the store is missing.")),
    ("42703", ErrorMapping(errors.StoreDamaged, "A column of the store is missing.")),
)

_BY_MESSAGE: tuple[tuple[str, ErrorMapping], ...] = (
    ("password authentication failed|no password supplied|authentication failed|no pg_hba.conf entry", REFUSED),
    ('role ".{0,255}" (does not exist|is not permitted)', REFUSED),
    ('database ".{0,255}" does not exist', NO_DATABASE),
    ("too many (clients|connections)|connection slots are reserved", TOO_MANY_CONNECTIONS),
    ("starting up|shutting down|in recovery mode|not (yet )?accepting connections", RESTARTING),
)
"""Connection errors have no SQLSTATE, only a message."""

_FINAL = re.compile("could not translate host name|invalid|unrecognized|certificate|does not support")
"""Messages of errors that a retry cannot fix."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate every driver error inside the block."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error) from error


def translate_error(error: Exception) -> errors.StoreError:
    """Translate a driver error."""
    if state := getattr(error, "sqlstate", None):
        for begin, meaning in _BY_STATE:
            if state.startswith(begin):
                return meaning.error()
    elif isinstance(error, psycopg.OperationalError) or type(error) is psycopg.DatabaseError:
        return _connection_error(error)  # without a SQLSTATE, the error is the client library's, about the connection
    return errors.StoreError(f"The database reported an error ({state or type(error).__name__}: {_main_line(error)}).")


def _connection_error(error: Exception) -> errors.StoreError:
    """Translate a connection error by its message."""
    said = str(error)
    for words, meaning in _BY_MESSAGE:
        if re.search(words, said):
            return meaning.error()
    final = _FINAL.search(said) is not None
    return errors.StoreUnreachable(f"The database cannot be reached: {_main_line(error)}", retryable=not final)


def _main_line(error: Exception) -> str:
    """Return the most informative line of libpq's message; it never contains a password."""
    lines = [line.strip(" \t-") for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1 if lines[0].startswith("Multiple connection attempts") else 0]

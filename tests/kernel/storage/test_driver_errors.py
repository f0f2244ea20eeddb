"""libpq's own connection errors have no SQLSTATE: they are not refusals by the database."""

import psycopg
import pytest

from holdfast.kernel import errors
from holdfast.kernel.storage.postgres.driver_errors import translate_error


@pytest.mark.parametrize("kind", [psycopg.DatabaseError, psycopg.OperationalError], ids=lambda kind: kind.__name__)
def test_a_connection_closed_by_the_server_is_retryable(kind: type[psycopg.Error]) -> None:
    ours = translate_error(
        kind("server closed the connection unexpectedly\n\tThis probably means the server terminated")
    )
    assert isinstance(ours, errors.StoreUnreachable)
    assert ours.retryable
    assert ours.message.endswith("server closed the connection unexpectedly")


def test_a_value_refused_by_the_driver_is_not_retryable() -> None:
    ours = translate_error(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))
    assert ours.code == "STORE_ERROR"
    assert not ours.retryable

"""Errors: one tree, one stable code each, mapped once for every surface."""

import inspect
import json
import re

import msgspec
import pytest

from holdfast.kernel import errors
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.http.middleware import error_response

ERRORS = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, HoldfastError)]
CODES = {error.code for error in ERRORS}


def test_every_error_has_its_own_code() -> None:
    assert len(CODES) == len(ERRORS)
    assert all(re.fullmatch(r"[A-Z][A-Z_]+", code) for code in CODES)


@pytest.mark.parametrize("mapping", [wire.STATUS, wire.EXIT], ids=["http", "cli"])
def test_every_code_is_in_every_map(mapping: dict[str, int]) -> None:
    assert set(mapping) == CODES


def test_every_error_is_in_the_documented_tree() -> None:
    drawn = re.findall(r"(?:[├└]── )?(\b[A-Z][A-Za-z]+)\b", (errors.__doc__ or "").split("\n\n")[1])
    tree = [name for name in drawn if hasattr(errors, name)]
    assert sorted(tree) == sorted(error.__name__ for error in ERRORS)


def test_a_status_distinguishes_client_and_server_errors() -> None:
    for error in ERRORS:
        status = wire.STATUS[error.code]
        kinds = errors.StoreError | errors.InvalidSetting | errors.TimedOut
        ours = issubclass(error, kinds | errors.QuorumNotMet) or error is HoldfastError
        assert (status >= 500) is ours, error


def test_no_error_has_exit_code_zero() -> None:
    assert all(0 < code < 256 for code in wire.EXIT.values())
    assert wire.PARTLY_REJECTED_EXIT not in wire.EXIT.values()


def test_an_error_without_a_message_has_that_of_its_class() -> None:
    documented = {error.code: inspect.cleandoc(error.__doc__ or "") for error in ERRORS}
    assert {error.code: (str(error()), error().message) for error in ERRORS} == {
        code: (text, text) for code, text in documented.items()
    }
    assert {error.code: error().to_json() for error in ERRORS} == {
        code: {"error": text, "code": code, **({"retryable": True} if code == errors.StoreBusy.code else {})}
        for code, text in documented.items()
    }
    assert [text for text in documented.values() if not text.endswith(".")] == []


def test_an_error_includes_its_details_beside_its_message() -> None:
    error = Invalid("title: required", fields=["title"])
    assert error.to_json() == {"error": "title: required", "code": "VALIDATION_FAILED", "fields": ["title"]}


@pytest.mark.parametrize("again", [True, False])
def test_an_error_states_whether_it_is_retryable(again: bool) -> None:
    response = error_response(errors.StoreUnreachable("The database is being started.", retryable=again))
    assert json.loads(bytes(response.body)).get("retryable", False) is again
    assert ("retry-after" in response.headers) is again


def test_an_internal_error_reveals_nothing() -> None:
    response = wire.internal_error(ValueError("/home/ada/secret.db: hunter2")).to_json()
    assert response["code"] == "ERROR"
    assert "hunter2" not in str(response)
    assert "/home" not in str(response)


def test_an_answer_is_json_without_unset_fields() -> None:
    class Answer(msgspec.Struct):
        a: int
        b: int | msgspec.UnsetType = msgspec.UNSET

    assert json.loads(wire.encode(Answer(1))) == wire.plain(Answer(1)) == {"a": 1}

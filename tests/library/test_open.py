"""Opening a store, and calling its operations with any value."""

import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import holdfast
from engines import ENGINES_BY_RING
from holdfast import app
from holdfast.kernel.context import validate_agent_id
from holdfast.kernel.errors import Invalid, InvalidSetting, NotAStore, StoreUnreachable
from holdfast.operations import REGISTRY, Effect, Operation


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_public_names_are_those_in_all() -> None:
    assert dir(holdfast) == sorted(holdfast.__all__)
    assert all(getattr(holdfast, name) for name in holdfast.__all__)
    with pytest.raises(AttributeError):
        holdfast.nonsense  # noqa: B018 - reading it is the test


def test_arguments_are_positional_or_named(hold: Any) -> None:
    stored = hold.store("Plan", "We deploy on Tuesdays.", namespace="team")
    assert (stored.title, stored.content, stored.namespace) == ("Plan", "We deploy on Tuesdays.", "team")
    assert hold.recall("deploy").count == hold.search("deploy").count == 1


def test_an_argument_cannot_be_given_twice(hold: Any) -> None:
    with pytest.raises(Invalid):
        hold.store("Plan", "x", "y")
    with pytest.raises(Invalid, match="given both by position and by name") as refused:
        hold.store("Plan", "x", title="Other")
    assert refused.value.details == {"fields": ["title"]}


def test_a_memory_stored_by_a_program_names_it(hold: Any) -> None:
    stored = hold.store("Plan", "x")
    assert (stored.source, stored.agent_id) == ("library", "ai:tester@here")


def test_without_a_name_the_agent_is_the_local_user_every_time() -> None:
    assert app.default_agent() == app.default_agent()
    assert validate_agent_id(app.default_agent()).startswith("human:")


def test_a_user_with_a_strange_name_has_a_valid_agent_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ada lovelace\n")
    assert validate_agent_id(app.default_agent())


def test_the_agent_can_be_set_by_the_environment(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_AGENT_ID", "ai:outside@here")
    with holdfast.open(db) as hold:
        assert hold.store("Plan", "x").agent_id == "ai:outside@here"
    with holdfast.open(db, agent_id="ai:inside@here") as hold:
        assert hold.store("Other", "x").agent_id == "ai:inside@here"


@pytest.mark.parametrize("agent", ["", "two words", "system", "../x"])
def test_an_invalid_agent_is_refused_before_a_file_is_created(db: str, agent: str) -> None:
    with pytest.raises((Invalid, InvalidSetting)):
        holdfast.open(db, agent_id=agent or " ")
    assert not os.path.exists(db)


def test_a_memory_without_a_namespace_gets_the_configured_one(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "team/default")
    with holdfast.open(db) as hold:
        assert hold.store("Plan", "x").namespace == "team/default"
        assert hold.bulk_store(memories=[{"title": "b", "content": "x"}]).count == 1
        assert [one.namespace for one in hold.namespaces().namespaces] == ["team/default"]


def test_the_store_is_in_the_data_folder_of_the_platform_unless_named(tmp_path: Path) -> None:
    with holdfast.open() as hold:
        hold.store("Plan", "x")
    assert (tmp_path / "data" / "holdfast" / "holdfast.db").exists()


def test_a_store_can_be_named_by_the_environment(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DB", db)
    with holdfast.open() as hold:
        hold.store("Plan", "x", tier="long")
    with holdfast.open(db) as hold:
        assert hold.list().count == 1


@pytest.mark.parametrize("address", ["mysql://localhost/x", "a\x00b"], ids=["engine", "nul"])
def test_an_address_without_a_store_is_refused(address: str) -> None:
    with pytest.raises(InvalidSetting):
        holdfast.open(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:/u:hunter2@h/x",
        "postgresql:u:hunter2@h/x",
        "postgres:/u:hunter2@h/x",
        "postgresql//u:hunter2@h/x",
        "POSTGRESQL://u:hunter2@h/x",
        " postgresql://u:hunter2@h/x",
        "postgresql+psycopg://u:hunter2@h/x",
        "jdbc:postgresql:/h/x?password=hunter2",
        "host=h password=hunter2",
        "user = u  password = hunter2",
        "sslmode=require\ndbname=hunter2",
        "password=hunter2 sslrootcert=file://x",
        "u:hunter2@h://x",
    ],
)
def test_an_address_resembling_a_database_creates_no_file_and_is_not_repeated(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSetting, match="postgresql://") as refused:
        holdfast.open(address)
    assert "hunter2" not in refused.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["./postgresql:x", "./host=a/memory.db", "a=b/memory.db", "postgresql/memory.db", "my host=a.db"]
)
def test_a_file_can_have_almost_any_name(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with holdfast.open(path) as hold:
        hold.store("Plan", "x")
    assert (tmp_path / path).is_file()


def test_a_path_other_than_a_store_is_refused_unchanged(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("not a database, but long enough to look at" * 10)
    with pytest.raises(NotAStore):
        holdfast.open(str(note))
    assert note.read_text().startswith("not a database")
    with pytest.raises(StoreUnreachable):
        holdfast.open(str(tmp_path))


def test_closing_twice_is_harmless(db: str) -> None:
    hold = holdfast.open(db)
    hold.close()
    hold.close()


GARBAGE: list[Any] = [None, 5, "", "x", "\ud800", "\x00", [], {}, [None], {"a": float("nan")}, 2**70, b"x", object()]


def test_any_call_returns_an_answer_or_a_holdfast_error(
    hold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = {op.name: codes_of_garbage(hold, op) for op in REGISTRY if op.effect is Effect.READ}
    expected = {"VALIDATION_FAILED", "NOT_FOUND", "FILTER_REQUIRED"}
    assert {name: found - expected for name, found in codes.items() if found - expected} == {}


def codes_of_garbage(ctx: Any, op: Operation) -> set[str]:
    """Return the errors for an invalid value in each field."""
    needed, codes = {field.encode_name: "x" for field in op.fields if field.required}, set()
    for field, value in product(op.fields, GARBAGE):
        try:
            ctx.call(op.name, needed | {field.encode_name: value})
        except holdfast.HoldfastError as error:
            codes.add(error.code)
        except Exception as error:  # noqa: BLE001 - it is what the test looks for
            codes.add(repr(error))
    return codes

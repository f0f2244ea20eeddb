"""A reading command creates no store: it reports the missing one and leaves nothing behind."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from four_surfaces import Cli, run_command

import holdfast
from engines import ENGINES_BY_RING, raw_connection
from holdfast.kernel.errors import StoreNotFound
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces.cli.app import run

MAKING = ("boot", "peer_token")
"""A command of its own, which never fails; and what says who a store is."""
READING = [op for op in REGISTRY if op.effect is Effect.READ and "cli" in op.surfaces and op.name not in MAKING]


def code_of(op: Operation, cli: Cli) -> str | None:
    return cli.ask(op.name, op.examples[0].arguments).code


def test_every_reading_command_reports_a_missing_store_and_creates_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli = Cli(str(tmp_path / "no" / "such.db"), tmp_path)
    codes = {op.name: code_of(op, cli) for op in READING}
    lazy = {op.name for op in READING if op.opens_nothing}
    assert {name for name, code in codes.items() if code != "STORE_NOT_FOUND" and name not in lazy} == set()
    assert {codes[name] for name in ("capabilities", "pipelines", "project_which")} == {None}
    assert codes["audit"] == "STORE_NOT_FOUND"
    assert [file.name for file in tmp_path.iterdir() if file.name != "given.json"] == []


def test_requesting_the_token_of_a_missing_store_creates_it(tmp_path: Path) -> None:
    db = str(tmp_path / "memory.db")
    code, out, _ = run_command(["--db", db, "peers", "token"])
    with holdfast.open(db, make=False) as hold:
        assert (code, out.decode().strip()) == (0, hold.peer_token().token)


@pytest.mark.parametrize("words", [("list",), ("recall", "who plays"), ("doctor",)])
def test_a_machine_without_a_store_gets_the_command_that_creates_one(
    tmp_path: Path, words: tuple[str, ...], vectors_made: None
) -> None:
    code, out, err = run_command([*words])
    assert (code, out) == (1, b"")
    assert "There is no store at " in err.decode()
    assert "data/holdfast/holdfast.db" in err.decode()
    assert "Create one with `holdfast setup` or `holdfast store`" in err.decode()
    assert err.decode().endswith("[STORE_NOT_FOUND]\n")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_store_is_an_error_in_json_too(tmp_path: Path) -> None:
    code, out, err = run_command(["--db", str(tmp_path / "none.db"), "list", "--json"])
    assert (code, out, json.loads(err)["code"]) == (1, b"", "STORE_NOT_FOUND")


def test_an_empty_file_and_an_empty_database_stay_unchanged(tmp_path: Path) -> None:
    empty, bare = tmp_path / "empty.db", tmp_path / "bare.db"
    empty.touch(0o644)
    with closing(apsw.Connection(str(bare))) as connection:
        connection.execute("create table t (x); drop table t").fetchall()
    for file in (empty, bare):
        before = file.read_bytes()
        code, _, err = run_command(["--db", str(file), "list"])
        assert (code, b"STORE_NOT_FOUND" in err) == (1, True), err
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (before, 0o644)
    assert {file.name for file in tmp_path.iterdir()} == {"empty.db", "bare.db"}
    assert run(["--db", str(bare), "store", "-T", "One", "-c", "first"]) == 0
    assert run(["--db", str(bare), "list"]) == 0


class TestOnBothEngines:
    @pytest.fixture(params=ENGINES_BY_RING)
    def engine(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def db(self, engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
        if engine == "sqlite":
            yield str(tmp_path / "memory.db")
        else:
            with request.getfixturevalue("postgres").new_store() as url:
                yield url

    def test_a_reading_command_creates_nothing_until_a_writing_one_created_the_store(self, db: str) -> None:
        for _ in range(2):
            code, _, err = run_command(["--db", db, "list"])
            assert (code, b"STORE_NOT_FOUND" in err) == (1, True), err
        assert nothing_at(db)
        with pytest.raises(StoreNotFound):
            holdfast.open(db, make=False)
        assert run_command(["--db", db, "store", "-T", "One", "-c", "first"])[0] == 0
        code, out, _ = run_command(["--db", db, "list", "--json"])
        assert (code, json.loads(out)["count"]) == (0, 1)

    def test_the_library_still_creates_a_store(self, db: str) -> None:
        with holdfast.open(db) as hold:
            assert hold.list().count == 0
        with holdfast.open(db, make=False) as hold:
            assert hold.list().count == 0


def nothing_at(db: str) -> bool:
    if not db.startswith("postgresql:"):
        return not Path(db).exists()
    with raw_connection(db) as connection:
        ((schema,),) = connection.execute("select current_schema").fetchall()
    return schema == "public"


@pytest.mark.parametrize(
    "words",
    [
        ["boot"],
        ["boot", "--json"],
        ["hook", "session-start", '{"session_id": "s-1", "hook_event_name": "SessionStart"}'],
        ["hook", "prompt", '{"session_id": "s-1", "prompt": "where is the key?"}'],
    ],
)
def test_commands_called_by_agent_hosts_never_fail_without_a_store(words: list[str]) -> None:
    assert run_command(words)[0] == 0

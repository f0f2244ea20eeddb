"""A store is migrated by the CLI: killed, interrupted and resumed, the result is complete."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import apsw
import psycopg
import pytest

import holdfast
from engines import ENGINES, Postgres
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.storage.copy_destinations import tables
from holdfast.kernel.storage.open_by_address import open_existing
from holdfast.kernel.storage.postgres.address import parse_address
from timeouts import TEST_TIMEOUT, TIMEOUT, wait_until

pytestmark = pytest.mark.full

MEMORIES = 1200
WRITER = """
import sys, holdfast
with holdfast.open(sys.argv[1], agent_id="ai:writer@here") as hold:
    number = 0
    while True:
        number += 1
        kept = hold.store(title=f"Meanwhile {number}", content="while it is moved", tags=["meanwhile"])
        if number % 3 == 0:
            hold.update(id=kept.id, title=f"Renamed {number}", tags=[])
        if number % 5 == 0:
            hold.delete(id=kept.id)
        print(kept.id, flush=True)
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *words]


def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=TEST_TIMEOUT,
    )


@pytest.fixture(params=[(one, other) for one in ENGINES for other in ENGINES], ids="-".join)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Source and destination of a migration."""
    with ExitStack() as stack:

        def place(engine: str, name: str) -> str:
            if engine == "sqlite":
                return str(tmp_path / name / "memory.db")
            server: Postgres = request.getfixturevalue("postgres")
            return stack.enter_context(server.new_store())

        yield place(request.param[0], "source"), place(request.param[1], "target")


def fill(address: str, memories: int = MEMORIES) -> None:
    with holdfast.open(address, agent_id="ai:tester@here") as hold:
        for first in range(0, memories, 500):
            hold.bulk_store(
                memories=[
                    {
                        "title": f"Title {number}",
                        "content": f"number {number} of many " + "words " * (number % 40),
                        "tags": ["some", f"tag-{number % 7}"],
                        "embedding": {"model": "own", "vector": [number + 1, -number, 0.5]},
                    }
                    for number in range(first, min(first + 500, memories))
                ]
            )


def everything(address: str) -> dict[str, list[tuple[Any, ...]]]:
    with closing(open_existing(address)) as store, store.reading() as session:
        return {table.name: table.rows(session, None) for table in tables()}


def assert_same_content(source: str, target: str) -> None:
    assert everything(source) == everything(target)
    with holdfast.open(target, agent_id="ai:tester@here") as moved:
        assert moved.search(query="number 17 of many").count >= 1
        for _ in range(2):
            assert moved.verify().intact
            assert moved.ctx.store.faults() == []
            moved.store(title="Afterwards", content="written in the new place")


def state_of(address: str) -> str:
    try:
        open_existing(address).close()
    except HoldfastError as error:
        return error.code
    return "store"


def read_marker(address: str) -> object:
    """Return the mark of the destination; every started migration changes it."""
    if "://" not in address:
        if not Path(address).exists():
            return None
        with closing(apsw.Connection(address)) as file:
            file.set_busy_timeout(TIMEOUT * 1000)
            return file.pragma("application_id") or None
    where = parse_address(address, Path())
    with psycopg.connect(where.conninfo, autocommit=True) as connection:
        table = f"{where.schema}.migration"
        return connection.execute("select obj_description(to_regclass(%s), 'pg_class')", (table,)).fetchall()[0][0]


def wait_for_marker(target: str, before: object, moving: "subprocess.Popen[bytes]") -> None:
    """Wait until the migration has started or ended."""
    wait_until(lambda: read_marker(target) != before or moving.poll() is not None)


def test_a_repeatedly_killed_migration_finishes(places: tuple[str, str]) -> None:
    source, target = places
    fill(source)
    random, killed, seen = Random(5), 0, list[str]()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, source], stdout=subprocess.PIPE, text=True)
    try:
        while killed < 6:
            before = read_marker(target)
            moving = subprocess.Popen(command("migrate", "--from", source, "--to", target), stdout=subprocess.DEVNULL)
            wait_for_marker(target, before, moving)
            time.sleep(random.uniform(0, 0.05 * (killed + 1)))
            moving.send_signal(random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT)))
            if moving.wait(TIMEOUT) == 0:
                break
            killed += 1
            seen.append(state_of(target))
            if seen[-1] == "store":  # complete, and killed before it could exit
                break
    finally:
        writer.kill()
        writer.communicate()
    assert killed >= 3
    assert {*seen[:-1]} == {"NOT_A_STORE"}
    assert seen[-1] in {"NOT_A_STORE", "store"}
    if state_of(target) != "store":
        done = run("migrate", "--from", source, "--to", target, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["resumed"]
    assert_same_content(source, target)


def test_a_migration_shows_progress_on_a_terminal_only(tmp_path: Path) -> None:
    source = str(tmp_path / "memory.db")
    fill(source, 50)
    main, terminal = pty.openpty()
    words = command("--db", source, "migrate", "--to", str(tmp_path / "one.db"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=terminal, text=True) as shown:
        os.close(terminal)
        assert "Migrated" in shown.communicate()[0]
    bar = os.read(main, 65_536).decode()
    os.close(main)
    assert ("100%" in bar, "journal" in bar) == (True, True)
    piped = run("--db", source, "migrate", "--to", str(tmp_path / "two.db"))
    assert (piped.returncode, piped.stderr) == (0, "")


def test_a_migration_creates_only_its_target(tmp_path: Path) -> None:
    fill(str(tmp_path / "memory.db"), 5)
    before = {file.name for file in tmp_path.iterdir()}
    tried = [
        run("migrate", "--from", str(tmp_path / "memory.db"), "--to", str(tmp_path / "new.db"), "--dry-run"),
        run("migrate", "--from", str(tmp_path / "no.db"), "--to", str(tmp_path / "new.db")),
        run("migrate", "--to", str(tmp_path / "new.db")),
        run("migrate", "--to", str(tmp_path / "new.db"), HOLDFAST_DB=str(tmp_path / "no.db")),
        run("migrate", "--from", str(tmp_path / "memory.db"), "--to", str(tmp_path / "memory.db")),
    ]
    assert [one.returncode == 0 for one in tried] == [True, False, False, False, False]
    assert {file.name for file in tmp_path.iterdir()} == before
    assert run("migrate", "--to", str(tmp_path / "new.db"), HOLDFAST_DB=str(tmp_path / "memory.db")).returncode == 0
    assert {file.name for file in tmp_path.iterdir()} == before | {"new.db", "new.db.key"}
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == 0o600


def test_no_answer_and_no_error_contains_the_password(tmp_path: Path, postgres: Postgres) -> None:
    source = str(tmp_path / "memory.db")
    fill(source, 5)
    with postgres.new_store() as target:
        known = target.replace("postgres:@", "postgres:s3cret@")
        for words in (
            ("--to", known, "--dry-run"),
            ("--to", known, "--json"),
            ("--to", known),
            ("--from", known, "--to", str(tmp_path / "back.db")),
            ("--to", "postgresql://somebody:s3cret@127.0.0.1:1/nothing"),
            ("--from", "postgresql://somebody:s3cret@127.0.0.1:1/nothing", "--to", source),
        ):
            done = run("--db", source, "migrate", *words)
            assert "s3cret" not in done.stdout + done.stderr

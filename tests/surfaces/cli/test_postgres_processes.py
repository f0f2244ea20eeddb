"""A store in PostgreSQL shared by commands, servers and agents; no output contains the password."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from four_surfaces import run_command
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from serving import store_over_http

import holdfast
from engines import Postgres
from holdfast.surfaces import error_responses as wire
from timeouts import TIMEOUT

HOLDFAST = (sys.executable, "-c", "from holdfast.__main__ import main; main()")
PASSWORD = "s3cret-Wörd@/:%"


@pytest.fixture
def db(postgres: Postgres) -> Iterator[str]:
    """An address with a password, which this server does not require."""
    with postgres.empty_store() as url:
        yield url.replace("postgres:@", f"postgres:{quote(PASSWORD, safe='')}@")


def run(*words: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*HOLDFAST, *words],
        check=False,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**os.environ, **environment},
    )


def is_shown(text: str) -> bool:
    """Whether a text contains the password in any encoding."""
    return any(form in text for form in (PASSWORD, quote(PASSWORD, safe=""), json.dumps(PASSWORD)[1:-1], "s3cret"))


@contextmanager
def running_server(db: str, **environment: str) -> Iterator[tuple["subprocess.Popen[str]", str, str]]:
    """A running server, its address and its first line of output."""
    command = [*HOLDFAST, "serve", "--db", db, "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        assert process.stderr
        greeting = process.stderr.readline()
        found = re.search(r"http://\S+:[1-9][0-9]+", greeting)
        assert found, greeting + process.stderr.read()
        try:
            yield process, found[0], greeting
        finally:
            process.kill()


@pytest.mark.full
def test_commands_share_a_store_named_by_a_flag_or_by_the_environment(db: str) -> None:
    stored = run("--db", db, "store", "-T", "Plan", "-c", "We deploy on Tuesdays.", "--json")
    assert (stored.returncode, stored.stderr) == (0, "")
    found = run("recall", "when do we deploy?", "--json", HOLDFAST_DB=db)
    assert [one["id"] for one in json.loads(found.stdout)["memories"]] == [json.loads(stored.stdout)["id"]]
    read = run("get", json.loads(stored.stdout)["id"], HOLDFAST_DB=db)
    assert (read.returncode, "We deploy on Tuesdays." in read.stdout) == (0, True)
    assert run("--db", db, "verify").returncode == 0


def test_a_command_reads_what_a_server_stored(db: str) -> None:
    with running_server(db) as (process, url, greeting):
        with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
            id = store_over_http(client)["id"]
            answers = [client.get(f"/api/v1/{path}").text for path in ("stats", "doctor", "capabilities")]
            answers += [client.get("/health").text, client.get("/metrics").text]
        process.terminate()
        out, rest = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, out) == (0, "")
    assert not any(map(is_shown, [greeting, rest, *answers]))
    assert json.loads(run("--db", db, "get", id, "--json").stdout)["title"] == "Deploy day"


@pytest.mark.full
def test_an_agent_over_stdio_shares_the_store_of_the_command_line(db: str) -> None:
    async def talk() -> Any:
        server = StdioServerParameters(command=HOLDFAST[0], args=[*HOLDFAST[1:], "mcp", "--db", db])
        async with Client(stdio_client(server)) as client:
            stored = await client.call_tool("memory_store", {"title": "Plan", "content": "We deploy on Tuesdays."})
            refused = await client.call_tool("memory_get", {"id": "a\x00b"})
            recalled = await client.call_tool("memory_recall", {"context": "when do we deploy?"})
            return stored, refused, recalled

    stored, refused, recalled = anyio.run(talk)
    assert refused.structured_content["code"] == "VALIDATION_FAILED"
    assert recalled.structured_content["count"] == 1
    found = run("search", "tuesdays", "--json", HOLDFAST_DB=db)
    assert [one["id"] for one in json.loads(found.stdout)["results"]] == [stored.structured_content["id"]]


@pytest.mark.full
def test_an_agent_over_http_shares_the_store_too(db: str) -> None:
    async def talk(url: str) -> Any:
        async with Client(f"{url}/mcp") as client:
            return await client.call_tool("memory_store", {"title": "Plan", "content": "We deploy on Tuesdays."})

    with running_server(db) as (_, url, _):
        stored = anyio.run(talk, url)
        with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
            assert client.get(f"/api/v1/memories/{stored.structured_content['id']}").json()["title"] == "Plan"


COMMANDS = (
    ("stats",),
    ("doctor",),
    ("export",),
    ("backup",),
    ("backups",),
    ("capabilities",),
    ("events",),
    ("verify",),
)


def test_no_output_of_a_command_contains_the_password(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with holdfast.open(db) as hold:
        hold.store(title="Plan", content="We deploy on Tuesdays.")
        hold.backup()
    monkeypatch.setenv("HOLDFAST_DB", db)
    for words in (*COMMANDS, *(("--json", *command) for command in COMMANDS)):
        code, out, err = run_command([*words])
        assert code in (0, wire.PARTLY_REJECTED_EXIT), (words, err)
        assert out, words
        assert not is_shown((out + err).decode()), words


SECRET = quote(PASSWORD, safe="")
UNUSABLE: dict[str, tuple[str, str]] = {
    "no server": (f"postgresql://ada:{SECRET}@127.0.0.1:1/holdfast", "STORE_UNREACHABLE"),
    "no host": (f"postgresql://ada:{SECRET}@no-such-host.invalid/holdfast", "STORE_UNREACHABLE"),
    "no port": (f"postgresql://ada:{SECRET}@127.0.0.1:port/holdfast", "MISCONFIGURED"),
    "a huge port": (f"postgresql://ada:{SECRET}@127.0.0.1:99999/holdfast", ""),
    "an unknown setting": (f"postgresql://ada:{SECRET}@127.0.0.1/holdfast?{SECRET}=1", "MISCONFIGURED"),
    "a password as setting": (f"postgresql://127.0.0.1:1/holdfast?user=ada&password={SECRET}", "STORE_UNREACHABLE"),
    "no schema": (f"postgresql://ada:{SECRET}@127.0.0.1/holdfast?schema=No%20Schema", "MISCONFIGURED"),
    "no number": (f"postgresql://ada:{SECRET}@127.0.0.1/holdfast?pool_size=many", "MISCONFIGURED"),
    "unquoted": ("postgresql://ada:s3cret@word@/:%@127.0.0.1/holdfast", ""),
    "a bad escape": ("postgresql://ada:s3cret%zz@127.0.0.1:1/holdfast", "MISCONFIGURED"),
    "another database": (f"mysql://ada:{SECRET}@127.0.0.1/holdfast", "MISCONFIGURED"),
}


@pytest.mark.parametrize("words", [("stats", "--json"), ("stats",), ("serve", "--port", "0"), ("mcp",)], ids=" ".join)
def test_an_unusable_address_is_an_error_without_the_password(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (address, code) in UNUSABLE.items():
        monkeypatch.setenv("HOLDFAST_DB", address)
        ended, out, err = run_command([*words])
        assert ended in wire.EXIT.values(), name
        assert ended != 0, name
        assert not is_shown((out + err).decode()), name
        if "--json" in words and code:
            assert json.loads(err)["code"] == code, name


@pytest.mark.full
@pytest.mark.parametrize("words", [("stats",), ("serve", "--port", "0"), ("mcp",)], ids=" ".join)
def test_a_failing_process_does_not_print_the_password(words: tuple[str, ...]) -> None:
    finished = run(*words, HOLDFAST_DB=UNUSABLE["no server"][0])
    assert finished.returncode == wire.EXIT["STORE_UNREACHABLE"]
    assert not is_shown(finished.stdout + finished.stderr)
    assert "Traceback" not in finished.stderr


@pytest.mark.full
def test_a_wrong_database_is_named_without_the_password(postgres: Postgres) -> None:
    url = postgres.url("no_such_database").replace("postgres:@", f"postgres:{SECRET}@")
    finished = run("--json", "stats", HOLDFAST_DB=url)
    assert json.loads(finished.stderr)["code"] == "STORE_UNREACHABLE"
    assert "no such database" in json.loads(finished.stderr)["error"]
    assert not is_shown(finished.stdout + finished.stderr)


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("psycopg", "pgvector"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from holdfast.__main__ import main
main()
"""


@pytest.mark.full
def test_without_the_driver_the_error_names_the_package_to_install(tmp_path: Path) -> None:
    def without(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", WITHOUT, *words], check=False, capture_output=True, text=True, timeout=TIMEOUT
        )

    finished = without("--db", f"postgresql://ada:{SECRET}@127.0.0.1/holdfast", "--json", "stats")
    error = json.loads(finished.stderr)
    assert (finished.returncode, error["code"]) == (wire.EXIT["MISCONFIGURED"], "MISCONFIGURED")
    assert "pip install 'holdfast[postgres]'" in error["error"]
    assert not is_shown(finished.stderr)
    assert without("--db", str(tmp_path / "memory.db"), "gc").returncode == 0

"""Call an operation on each surface and convert the answers to a comparable form."""

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from unittest.mock import patch
from urllib.parse import quote

from mcp_wire import Client, call, connect_with_handshake
from starlette.testclient import TestClient

import holdfast
from engines import Postgres
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.registry.encoding import Result
from holdfast.kernel.registry.operation import python_name
from holdfast.operations import REGISTRY, Operation
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.cli.app import run
from holdfast.surfaces.cli.help.flags import flag_of
from holdfast.surfaces.http.app import build_app

AGENT = "ai:tester@here"
Json = dict[str, Any]


class Outcome(NamedTuple):
    """An answer or an error."""

    answer: Any = None
    error: Json | None = None

    @property
    def code(self) -> str | None:
        return None if self.error is None else self.error["code"]


class Surface(Protocol):
    def ask(self, name: str, arguments: Json) -> Outcome: ...


SENDS_NULL = ("namespace_get_standard",)
"""Operations with a field that is null or absent, which are both None in the library."""


class Library:
    def __init__(self, hold: holdfast.Holdfast) -> None:
        self._hold = hold

    def ask(self, name: str, arguments: Json) -> Outcome:
        try:
            if name in SENDS_NULL:
                return Outcome(json.loads(wire.encode(self._hold.call(name, arguments))))
            result = getattr(self._hold, python_name(name))(**arguments)
            return Outcome(result.to_dict() if isinstance(result, Result) else result)
        except HoldfastError as error:
            return Outcome(error=json.loads(wire.encode(error.to_json())))


class Cli:
    """The command line in this process; each command opens the store again."""

    def __init__(self, db: str, folder: Path) -> None:
        self._db = db
        self._file = folder / "given.json"

    def ask(self, name: str, arguments: Json) -> Outcome:
        op = REGISTRY[name]
        code, out, err = run_command(
            [f"--db={self._db}", "--json", f"--agent-id={AGENT}", *op.cli, *self.words(op, arguments)]
        )
        if err:
            error = json.loads(err)
            assert (code, out) == (wire.EXIT[error["code"]], b"")
            return Outcome(error=error)
        answer = json.loads(out)
        assert code == (wire.PARTLY_REJECTED_EXIT if is_partly_rejected(answer) else 0)
        return Outcome(answer)

    def words(self, op: Operation, arguments: Json) -> list[str]:
        options, places = ["--yes"] if op.irreversible else [], []
        for name, value in arguments.items():
            if name == (op.bulk or op.whole):
                self._file.write_text(json.dumps(value))
                places.append(str(self._file))
            elif op.field_option(name, "argument"):
                places += value if isinstance(value, list) else [str(value)]
            else:
                options += option(flag_of(op, name), value)
        return [*options, "--", *places]


def option(flag: str, value: Any) -> list[str]:
    match value:
        case None:
            return []
        case bool():
            return [flag if value else f"--no-{flag[2:]}"]
        case list() if all(isinstance(item, str) for item in value):
            return [f"{flag}={item}" for item in value]
        case dict() | list():
            return [f"{flag}={json.dumps(value)}"]
        case _:
            return [f"{flag}={value}"]


def run_command(words: list[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """Run a command line in this process; return its exit code and both output streams."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(words)
    finally:
        sys.stdin = before
    return code, *(stream.buffer.getvalue() for stream in (out, err))  # type: ignore[attr-defined]


def is_partly_rejected(answer: Any) -> bool:
    return any(one["outcome"] == "rejected" for one in answer.get("outcomes", ())) or has_rejected(
        answer.get("rejected")
    )


def has_rejected(rejected: Any) -> bool:
    """A number of items; a requested rejection counts as a success."""
    return rejected not in (None, 0) and rejected is not True


class Http:
    def __init__(self, client: TestClient) -> None:
        self._client = client

    def ask(self, name: str, arguments: Json) -> Outcome:
        op = REGISTRY[name]
        inside = [part[1:-1] for part in op.path.split("/") if part.startswith("{")]
        rest = {name: value for name, value in arguments.items() if name not in inside and value is not None}
        path = op.path
        for part in inside:
            path = path.replace(f"{{{part}}}", quote(str(arguments[part]), safe="/" if part == "namespace" else ""))
        if op.method in ("GET", "DELETE"):
            answered = self._client.request(op.method, path, params=to_query(rest))
        elif op.bulk and list(rest) == [op.bulk]:
            answered = self._client.request(op.method, path, json=rest[op.bulk])
        else:
            answered = self._client.request(op.method, path, json=rest)
        answer = answered.json()
        if answered.status_code < 400:
            waits = op.waits and answer.get("status") == "pending"
            assert answered.status_code == (wire.PENDING_STATUS if waits else op.status)
            return Outcome(answer)
        assert answered.status_code == wire.STATUS[answer["code"]]
        return Outcome(error=answer)


def to_query(arguments: Json) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in arguments.items():
        for item in value if isinstance(value, list) else [value]:
            text = item if isinstance(item, str) else json.dumps(item)
            found.append((name, text))
    return found


class Mcp:
    def __init__(self, client: Client) -> None:
        self._client = client

    def ask(self, name: str, arguments: Json) -> Outcome:
        result = self._client.ask(call(1, f"memory_{name}", arguments))["result"]
        answer = result["structuredContent"]
        return Outcome(error=answer) if result["isError"] else Outcome(answer)


@cache
def template() -> dict[str, bytes]:
    """The files of an empty store: copying them is faster than creating one."""
    with tempfile.TemporaryDirectory() as folder:
        holdfast.open(f"{folder}/memory.db").close()
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def new_store(folder: Path) -> str:
    """Return the path of an empty store in a folder."""
    for name, content in template().items():
        (folder / name).touch(0o600)
        (folder / name).write_bytes(content)
    return str(folder / "memory.db")


@contextmanager
def surface(which: str, folder: Path, postgres: Postgres | None = None) -> Iterator[Surface]:
    """Yield a surface over a new store, in a folder or in PostgreSQL."""
    folder.mkdir()
    if postgres is None:
        with surface_over(new_store(folder), which, folder) as opened:
            yield opened
        return
    own_data = patch.dict(os.environ, {"XDG_DATA_HOME": str(folder / "data")})
    with own_data, postgres.empty_store() as url, surface_over(url, which, folder) as opened:
        yield opened


@contextmanager
def surface_over(db: str, which: str, folder: Path) -> Iterator[Surface]:
    if which == "cli":
        yield Cli(db, folder)
        return
    with holdfast.open(db, agent_id=AGENT) as hold:
        match which:
            case "library":
                yield Library(hold)
            case "http":
                headers = {"X-Agent-Id": AGENT}
                with TestClient(build_app(hold), base_url="http://127.0.0.1:9077", headers=headers) as client:
                    yield Http(client)
            case "mcp":
                with connect_with_handshake(hold, "full") as client:
                    yield Mcp(client)


VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|[0-9]{8}T[0-9.]+Z"), "<time>"),
    (re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b"), "<hash>"),
    (re.compile(r"(?:\b|(?<=\\n))[0-9a-f]{12}\b(\.[0-9]+(-[0-9a-f]+)?)?"), "<origin>"),
    (re.compile(r"(?:\b|(?<=\\n))[0-9]{21}\b"), "<mark>"),
    (re.compile(r"\[[0-9a-f]{8}\]"), "[<prefix>]"),
    (re.compile(r"\bhf_[\w-]+"), "<secret>"),
    (re.compile(r'source: \\"\w+\\"'), "source: <surface>"),
    (re.compile(r"\bstore_[0-9]+"), "<schema>"),
    (re.compile(r'"now": [0-9]{16}'), '"now": 0'),
    (re.compile(r'"(?:postgresql:/)?/(?:[^"\\]|\\.)*"'), '"<path>"'),
)
SIZES = dict.fromkeys(("db_size_bytes", "bytes", "free_bytes", "log_bytes", "connections"), 0)
TOKENS = dict.fromkeys(("tokens", "tokens_used", "budget_tokens_used"), 0)
OWN = {"source": "<surface>", "access_count": 0, **SIZES, **TOKENS}
"""What each surface says of itself, what depends on the store or on an id, and uses: a command line writes its own down
at once."""


def normalize(answer: Any) -> Any:
    """Return an answer without the parts that differ between any two runs."""
    text = json.dumps(answer)
    for pattern, name in VOLATILE:
        text = pattern.sub(name, text)
    return json.loads(text, object_hook=_normalize_fields)


def _normalize_fields(found: Json) -> Json:
    return {key: OWN.get(key, value) for key, value in found.items() if key != "last_accessed_at"}


def within(core: Any, more: Any) -> bool:
    """Whether an answer contains everything of another, with the same values."""
    match core, more:
        case dict(), dict():
            return all(name in more and within(value, more[name]) for name, value in core.items())
        case list(), list():
            return len(core) == len(more) and all(within(*both) for both in zip(core, more, strict=True))
        case _:
            return bool(core == more)


def list_differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Return the paths at which two answers differ, with both values."""
    match expected, found:
        case dict(), dict() if expected.keys() == found.keys():
            for name in expected:
                yield from list_differences(expected[name], found[name], f"{path}.{name}")
        case list(), list() if len(expected) == len(found):
            for number, both in enumerate(zip(expected, found, strict=True)):
                yield from list_differences(*both, f"{path}[{number}]")
        case _ if expected != found:
            yield f"{path}: {expected!r:.200} became {found!r:.200}"

"""Executable documentation: pages, their fenced blocks, and a shell that runs the commands."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from engines import Postgres

ROOT = Path(__file__).parents[2]
INSTALLED = Path(sys.executable).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if "reference" not in page.parts]
"""The pages that people write; the reference is generated."""

_FENCE = re.compile(r"^(?P<reason><!-- not run: [^\n]* -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_PRINTED = re.compile(r"print\(.*\)  # (.*)")
_AS = re.compile(r"-- As (?P<role>\w+), in the database (?P<database>\w+):\n")
Connection = psycopg.Connection[tuple[str, ...]]
PORT = "9077"
DATABASE_HOST = "db.example.org"
_ADDRESS = re.compile(rf"postgresql://(?P<role>\w+)(:\w+)?@{re.escape(DATABASE_HOST)}/(?P<database>\w+)\??")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    runs: bool


class Step(NamedTuple):
    """A command of a page, and the output shown below it."""

    command: str
    shown: str


def blocks_of(page: Path) -> list[Block]:
    found = _FENCE.finditer(page.read_text("utf-8"))
    return [Block(match["language"], match["text"], match["reason"] is None) for match in found]


def steps_of(block: Block) -> Iterator[Step]:
    """Return the commands of a block: `$ ` begins one and `> ` continues it; a block without `$ ` is one script.

    An SQL block starts with the user and the database to run it with.
    """
    if block.language == "sql":
        target = _AS.match(block.text)
        assert target, f"Nobody knows who is to run this:\n{block.text}"
        address = f"postgresql://{target['role']}@{DATABASE_HOST}/{target['database']}"
        yield Step(f"psql --quiet --no-psqlrc -v ON_ERROR_STOP=1 '{address}' <<'SQL'\n{block.text}SQL", "...")
    elif block.language == "python":
        shown = "\n".join(_PRINTED.findall(block.text))
        yield Step(f"python - <<'PYTHON'\n{block.text}PYTHON", shown)
    elif not block.text.startswith("$ "):
        yield Step(block.text, "...")
    else:
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            command, *rest = part.split("\n")
            while rest and rest[0].startswith("> "):
                command += "\n" + rest.pop(0)[2:]
            yield Step(command, "\n".join(rest).strip("\n"))


def agrees(shown: str, printed: str) -> bool:
    """Whether a command printed the documented output; `...` matches anything."""
    pattern = ".*?".join(re.escape(_strip_lines(part)) for part in shown.split("..."))
    return re.fullmatch(pattern, _strip_lines(printed), re.S) is not None


def _strip_lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


class Shell:
    """A bash with its own home directory, so that later commands of a page see the effects of earlier ones."""

    def __init__(self, home: Path, server: "DocumentedServer | None" = None, programs: Path = INSTALLED) -> None:
        """`programs`: the folder of the `holdfast` to run."""
        self.port = str(_free_port())
        self._server = server
        path = f"{programs}:{INSTALLED}:{os.environ['PATH']}"
        if server:
            path = f"{server.programs}:{path}"
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=home,
            env={"HOME": str(home), "PATH": path, "HOLDFAST_PORT": self.port, "LANG": "C.UTF-8"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, command: str) -> tuple[str, int]:
        """Run a command; return its output and exit code. A command ending with & is awaited until its port is open."""
        script = command.replace(PORT, self.port).rstrip()
        if self._server:
            script = self._server.with_real_addresses(script)
        if script.endswith("&"):
            script = f"{script[:-1]} > served.log 2>&1 &\n{_UNTIL_OPEN.format(port=self.port)}"
        self._write(f'{script}\n{{ _code=$?; echo; echo "-- exit $_code"; (exit $_code); }}\n')
        lines: list[str] = []
        while not (found := re.fullmatch(r"-- exit (\d+)\n", line := self._read())):
            assert line, f"The shell ended in: {command}\n{''.join(lines)}"
            lines.append(line)
        printed = "".join(lines).replace(self.port, PORT)
        return self._server.with_page_addresses(printed) if self._server else printed, int(found[1])

    def _write(self, text: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(text)
        self._bash.stdin.flush()

    def _read(self) -> str:
        assert self._bash.stdout is not None
        return self._bash.stdout.readline()

    def close(self) -> None:
        """Stop background commands."""
        self._write("kill $(jobs -p) 2> /dev/null; wait; exit\n")
        self._bash.wait(20)


class DocumentedServer:
    """A real server in place of the documented one."""

    def __init__(self, server: Postgres) -> None:
        with server.admin() as connection:
            ((self._folder,),) = connection.execute("show unix_socket_directories").fetchall()
            ((self.programs,),) = connection.execute("select setting from pg_config where name = 'BINDIR'").fetchall()

    def with_real_addresses(self, script: str) -> str:
        """Return a command with the addresses of the real server."""

        def address(found: re.Match[str]) -> str:
            more = "&" if found[0].endswith("?") else ""
            return f"postgresql://{found['role']}@/{found['database']}?host={self._folder}{more}"

        return _ADDRESS.sub(address, script)

    def with_page_addresses(self, printed: str) -> str:
        """Return an output with the documented addresses."""
        return printed.replace(str(self._folder), DATABASE_HOST)


@contextmanager
def documented_server(server: Postgres, page: str) -> Iterator[DocumentedServer]:
    """Yield a server with the prerequisites of a page; drop them and everything the page created afterwards."""
    with server.admin() as connection:
        before = _databases(connection), _roles(connection)
        for found in _ADDRESS.finditer(page):
            for kind, name, how in (("role", found["role"], " superuser login"), ("database", found["database"], "")):
                there = _roles(connection) if kind == "role" else _databases(connection)
                if name not in there and f"create {kind} {name}" not in page:
                    connection.execute(f"create {kind} {name}{how}")
        try:
            yield DocumentedServer(server)
        finally:
            for database in _databases(connection) - before[0]:
                connection.execute(f"drop database {database} with (force)")
            for role in _roles(connection) - before[1]:
                connection.execute(f"drop role {role}")


def _databases(connection: Connection) -> set[str]:
    return {name for (name,) in connection.execute("select datname from pg_database").fetchall()}


def _roles(connection: Connection) -> set[str]:
    return {name for (name,) in connection.execute("select rolname from pg_roles").fetchall()}


_UNTIL_OPEN = "for _ in {{1..400}}; do (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null && break; sleep 0.05; done"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

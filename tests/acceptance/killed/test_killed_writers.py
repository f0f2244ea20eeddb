"""Processes on all surfaces are killed at any time: everything acknowledged is durable, complete and findable."""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.features.history import service as history
from timeouts import TIMEOUT

LIBRARY = """
import sys, holdfast
hold = holdfast.open(sys.argv[1], agent_id="ai:library@here")
number = 0
while True:
    number += 1
    kept = hold.store(title=f"{sys.argv[2]} {number}", content="stored by the library " * 20, tags=["library"])
    print(kept.id, kept.version, flush=True)
    if number % 3 == 0:
        kept = hold.update(id=kept.id, content="changed by the library")
        print(kept.id, kept.version, flush=True)
    if number % 5 == 0:
        batch = [{"title": f"{sys.argv[2]} {number}-{each}", "content": "one of a batch"} for each in range(10)]
        for id in hold.bulk_store(memories=batch).ids:
            print(id, 1, flush=True)
    if number % 4 == 0:
        hold.recall(context="stored by the library")
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}


class Witness:
    """Records acknowledged changes, output and kills."""

    def __init__(self, db: str) -> None:
        self.db = db
        self.acknowledged: dict[str, int] = {}
        self.said: list[str] = []
        self.killed = 0
        self._lock = threading.Lock()
        self._titles = count()

    def title(self, prefix: str) -> str:
        with self._lock:
            return f"{prefix} {next(self._titles)}"

    def record_kept(self, id: str, version: int = 1) -> None:
        with self._lock:
            self.acknowledged[id] = max(version, self.acknowledged.get(id, 0))

    @contextmanager
    def process(self, *command: str, **more: Any) -> Iterator["subprocess.Popen[str]"]:
        """Run a process with pipes; kill it at the end of the block if it still runs."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **{**pipes, **more})
        try:
            yield process
        finally:
            process.kill()
            with suppress(BrokenPipeError, ValueError):
                self.said += [text for text in process.communicate() if text]
            with self._lock:
                self.killed += process.wait() == -signal.SIGKILL


def cli(*words: str) -> list[str]:
    return [sys.executable, "-c", "from holdfast.__main__ import main; main()", *words]


def killed_library(witness: Witness, random: Random) -> None:
    """A program that writes in a loop. Its last line may be truncated, so only complete lines count."""
    with witness.process(sys.executable, "-c", LIBRARY, witness.db, witness.title("library")) as process:
        assert process.stdout is not None
        for _ in range(random.randrange(1, 60)):
            line = process.stdout.readline()
            if line.endswith("\n"):
                witness.record_kept(line.split()[0], int(line.split()[1]))
        time.sleep(random.uniform(0, 0.02))
        process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                witness.record_kept(line.split()[0], int(line.split()[1]))


def killed_commands(witness: Witness, random: Random) -> None:
    """Run commands one after another and kill every other one at a random time."""
    for _ in range(4):
        words = ("store", "--db", witness.db, "--json", "-T", witness.title("command"), "-c", "stored by a command")
        with witness.process(*cli(*words)) as process:
            if random.random() < 0.5:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(random.uniform(0.05, 0.6))
                process.kill()
            out, err = process.communicate(timeout=TIMEOUT)
            witness.said += [err]
            with suppress(ValueError):
                witness.record_kept(json.loads(out)["id"])


def killed_mcp(witness: Witness, random: Random) -> None:
    """An MCP server over stdio with several concurrent calls."""
    with witness.process(*cli("mcp", "--db", witness.db)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        messages = [{"id": 0, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"}]
        for number in range(1, 60):
            arguments = {"title": witness.title("mcp"), "content": "stored over mcp"}
            params = {"name": "memory_store", "arguments": arguments}
            messages.append({"id": number, "method": "tools/call", "params": params})
        process.stdin.writelines(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        process.stdin.flush()
        for _ in range(random.randrange(1, 50)):
            note_answer(witness, process.stdout.readline())
        process.kill()
        for line in process.stdout:
            note_answer(witness, line)


def note_answer(witness: Witness, line: str) -> None:
    with suppress(ValueError):
        result = json.loads(line).get("result", {})
        if "structuredContent" in result:
            assert not result.get("isError"), result
            witness.record_kept(result["structuredContent"]["id"])


def killed_http(witness: Witness, random: Random) -> None:
    """An HTTP server with three clients."""
    with witness.process(*cli("serve", "--db", witness.db, "--port", "0")) as process:
        assert process.stderr is not None
        host = urlsplit(process.stderr.readline().split()[-1]).netloc
        stop = threading.Event()
        with ThreadPoolExecutor(3) as clients:
            for _ in range(3):
                clients.submit(post, witness, host, stop)
            time.sleep(random.uniform(0.2, 0.6))
            process.kill()
            stop.set()


def post(witness: Witness, host: str, stop: threading.Event) -> None:
    with suppress(OSError, http.client.HTTPException, ValueError):
        connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
        while not stop.is_set():
            body = json.dumps({"title": witness.title("http"), "content": "stored over http"})
            connection.request("POST", "/api/v1/memories", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer_text = answer.read().decode()
            if answer.status == 201:
                witness.record_kept(json.loads(answer_text)["id"])
            else:
                witness.said.append(answer_text)


def repeat_rounds(work: Callable[[Witness, Random], None], witness: Witness, seed: int, rounds: int) -> None:
    random = Random(seed)
    for _ in range(rounds):
        work(witness, random)


def assert_nothing_lost(witness: Witness) -> None:
    with holdfast.open(witness.db) as hold:
        ids = list(witness.acknowledged)
        with hold.ctx.reading() as session:
            rows = session.select(("memory_select", "memory.some"), {"ids": ids})
            assert history.verify(hold.ctx, session) == []
        contents = {row[0]: row[30] for row in rows}
        assert {id for id, version in witness.acknowledged.items() if contents.get(id, 0) < version} == set()
        assert hold.ctx.store.faults() == []
        hold.store(title="Afterwards", content="The store goes on.")
    output = "\n".join(witness.said)
    assert "locked" not in output.lower()
    assert "busy" not in output.lower()
    assert "Traceback" not in output


WRITERS = {"library": killed_library, "commands": killed_commands, "mcp": killed_mcp, "http": killed_http}


@pytest.mark.full
@pytest.mark.parametrize("name", WRITERS)
def test_a_killed_writer_loses_no_acknowledged_write(db: str, name: str) -> None:
    witness = Witness(db)
    repeat_rounds(WRITERS[name], witness, 1, 12 if name == "library" else 3)
    assert_nothing_lost(witness)
    assert witness.acknowledged


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.full)])
def test_eight_killed_processes_on_one_file_lose_nothing_and_see_no_lock_error(
    db: str, rounds: int, record_property: Callable[[str, object], None]
) -> None:
    witness = Witness(db)
    jobs = [killed_http, killed_mcp, killed_mcp, killed_mcp, killed_library, killed_library, killed_commands]
    with ThreadPoolExecutor(8) as supervisors:
        running = [
            supervisors.submit(repeat_rounds, job, witness, seed, rounds)
            for seed, job in enumerate([*jobs, killed_commands])
        ]
        for job in running:
            job.result()
    record_property("killed", witness.killed)
    record_property("acknowledged", len(witness.acknowledged))
    assert_nothing_lost(witness)
    assert len(witness.acknowledged) > 40 * rounds
    assert witness.killed > 5 * rounds


@pytest.mark.full
def test_a_stopped_writer_delays_others_and_loses_nothing(db: str, tmp_path: Path) -> None:
    """It locks the store; the others wait for it, and can read meanwhile."""
    holding = """
import sys, holdfast
hold = holdfast.open(sys.argv[1])
with hold.ctx.transaction() as write:
    print("holding", flush=True)
    sys.stdin.readline()
"""
    witness = Witness(db)
    with witness.process(sys.executable, "-c", holding, db) as process, holdfast.open(db) as hold:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "holding\n"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: hold.store(title="Waited", content="for its turn").id)
            assert hold.list().memories == []
            assert not waiting.done()
            process.stdin.write("go\n")
            process.stdin.flush()
            witness.record_kept(waiting.result(timeout=TIMEOUT))
    assert_nothing_lost(witness)

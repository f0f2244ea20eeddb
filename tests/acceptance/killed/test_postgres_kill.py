"""The database is killed repeatedly under load: acknowledged changes exist exactly once, and the servers recover."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from clusters import Cluster, cluster
from serving_processes import start_servers

import holdfast
from holdfast.features.history import service as history
from timeouts import TIMEOUT, wait_until

SERVERS = 2
CLIENTS = 4
MORE = 5
"""Minimum number of acknowledged writes per writer between two kills."""

LIBRARY = """
import sys, holdfast
from itertools import count
hold = holdfast.open(sys.argv[1], agent_id="ai:library@here")
with open(sys.argv[3], "a", buffering=1) as book:
    for number in count():
        while True:
            try:
                kept = hold.store(title=f"{sys.argv[2]} {number}", content="by the library " * 20, on_conflict="error")
                book.write(f"kept {kept.id}\\n")
                break
            except holdfast.HoldfastError as error:
                book.write(f"{error.code} {error.retryable} {error.message}\\n")
                if not error.retryable:
                    break
"""


class Book:
    """The log of one writer, in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def lines(self) -> list[str]:
        return [line for line in self.file.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def acknowledged_ids(self) -> list[str]:
        return [line.split()[1] for line in self.lines() if line.startswith("kept ")]

    def refusals(self) -> list[str]:
        return [line.strip() for line in self.lines() if not line.startswith("kept ")]

    def note(self, line: str) -> None:
        with self.file.open("a") as file:
            file.write(line + "\n")


@pytest.fixture
def server() -> Iterator[Cluster]:
    with TemporaryDirectory(prefix="holdfast-pg-") as folder, cluster(Path(folder)) as running:
        yield running


def posts(url: str, name: str, book: Book, stop: threading.Event) -> None:
    """A client that retries only retryable errors."""
    with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
        for number in count():
            body = {"title": f"{name} {number}", "content": "over http " * 20, "on_conflict": "error"}
            while not stop.is_set():
                answer = client.post("/api/v1/memories", json=body)
                answer_body = answer.json()
                if answer.status_code == 201:
                    book.note(f"kept {answer_body['id']}")
                    break
                book.note(f"{answer_body['code']} {answer_body.get('retryable', False)} {answer_body['error']}")
                assert ("retry-after" in answer.headers) is answer_body.get("retryable", False)
                if not answer_body.get("retryable"):
                    break
            if stop.is_set():
                return


def wait_for_more(books: list[Book]) -> None:
    """Wait until every writer has further acknowledged writes."""
    wanted = [len(book.acknowledged_ids()) + MORE for book in books]
    wait_until(lambda: all(len(book.acknowledged_ids()) >= more for book, more in zip(books, wanted, strict=True)))


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=[pytest.mark.full, pytest.mark.longest])])
def test_a_killed_database_loses_no_acknowledged_write(
    server: Cluster, kills: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    assert [server.get_setting(name) for name in ("fsync", "full_page_writes", "synchronous_commit")] == ["on"] * 3
    db = server.url(server.database)
    books = [Book(tmp_path / f"{number}.txt") for number in range(CLIENTS + 2)]
    stop = threading.Event()
    with start_servers(SERVERS, db) as servers, ThreadPoolExecutor(CLIENTS) as pool:
        library = [
            subprocess.Popen([sys.executable, "-c", LIBRARY, db, f"library {number}", str(books[number].file)])
            for number in range(2)
        ]
        try:
            clients = [
                pool.submit(posts, servers[number % SERVERS].url, f"client {number}", books[2 + number], stop)
                for number in range(CLIENTS)
            ]
            for _ in range(kills):
                wait_for_more(books)
                server.kill()
                server.start()
            wait_for_more(books)
        finally:
            stop.set()
            for process in library:
                process.kill()
                process.wait()
        for client in clients:
            client.result()
        ended = [one.stop() for one in servers]
    assert [code for code, _ in ended] == [0] * SERVERS
    assert all("Traceback" not in said for _, said in ended)
    assert_nothing_lost(db, books, record_property)


def assert_nothing_lost(db: str, books: list[Book], record_property: Callable[[str, object], None]) -> None:
    ids = [id for book in books for id in book.acknowledged_ids()]
    refusals = [refusal for book in books for refusal in book.refusals()]
    with holdfast.open(db) as hold:
        with hold.ctx.reading() as session:
            rows = session.select(("memory_select", "memory.some"), {"ids": ids})
            assert history.verify(hold.ctx, session) == []
        assert hold.ctx.store.faults() == []
        there = hold.stats().total
    lost = set(ids) - {row[0] for row in rows}
    unknown = sum(refusal.startswith("OUTCOME_UNKNOWN") for refusal in refusals)
    record_property("acknowledged", len(ids))
    record_property("lost", len(lost))
    record_property("refused", sorted({(one, refusals.count(one)) for one in refusals}))
    record_property("kept beside", there - len(ids))
    assert lost == set()
    assert len(ids) == len(set(ids))
    # If a retried title is taken, the first write was saved although it was reported as failed.
    codes = ("STORE_UNREACHABLE", "STORE_BUSY", "OUTCOME_UNKNOWN")
    assert [refusal for refusal in refusals if not refusal.startswith(codes)] == []
    # The two programs were killed too: their last change may exist without a log line.
    assert 0 <= there - len(ids) <= unknown + 2

"""Processes that write to a store, and snapshots of it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import holdfast
from holdfast.features.admin import backup

WRITER = """
import sys, holdfast
with holdfast.open(sys.argv[1], agent_id="ai:writer@here") as hold:
    number = 0
    while True:
        print(hold.store(title=f"written {number}", content="under way").id, flush=True)
        number += 1
"""


class Child:
    """Another process with the store open."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def ask(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def child(script: str, db: str) -> Iterator[Child]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Child(process)
    finally:
        process.kill()
        process.communicate()


def content_of(hold: holdfast.Holdfast) -> dict[str, Any]:
    return {**hold.export(), "exported_at": ""}


def backups_of(hold: holdfast.Holdfast) -> Path:
    return hold.ctx.store.sidecar_path("backups")


def without_manifest(snapshot: Path) -> None:
    backup.manifest_of(snapshot).unlink()


def cut_by_a_page(snapshot: Path) -> None:
    snapshot.write_bytes(snapshot.read_bytes()[:-4096])

"""Power loss at any time: nothing acknowledged is lost or corrupt, and the test would detect it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import apsw
import pytest
from disks import PowerDisk

import holdfast
from holdfast.app import Holdfast
from holdfast.features.history import service as history
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.storage.sqlite import open_store as sqlite_open_store
from holdfast.kernel.storage.sqlite.engine import SqliteStore
from holdfast.settings import Settings

OPERATIONS = 3000
"""Range of disk operations for a power loss: some during the first opening, most during later writes."""


class Writer:
    """Store, change and delete at random, reopen the store at times, and record what was acknowledged."""

    def __init__(self, open_store: Callable[[], SqliteStore], disk: PowerDisk, random: Random) -> None:
        self.acknowledged: dict[str, tuple[int, str, str]] = {}
        self._open, self._disk, self._random = open_store, disk, random
        self._hold: Holdfast | None = None

    def run(self) -> None:
        """Run until the power is off."""
        try:
            while self._disk.image is None:
                self._step()
        except (HoldfastError, apsw.Error):
            assert self._disk.image is not None, "it failed before the power did"
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close everything: each connection tries to write and fails again."""
        while self._hold is not None:
            try:
                self._hold.ctx.store.close()
                return
            except apsw.Error:
                continue

    def _step(self) -> None:
        if self._hold is None or self._random.random() < 0.1:
            self._reopen()
        elif self.acknowledged and self._random.random() < 0.4:
            self._change()
        else:
            drafts = [self._draft() for _ in range(self._random.choice([1, 1, 1, 5]))]
            for id in self._hold.bulk_store(memories=drafts).ids:
                self._note(id, 1, drafts.pop(0)["content"], "live")

    def _reopen(self) -> None:
        if self._hold is not None:
            self._hold.close()
        caller = Caller(agent="ai:tester@here")
        self._hold = Holdfast(Context(store=self._open(), caller=caller), Settings())

    def _change(self) -> None:
        assert self._hold is not None
        id = self._random.choice(sorted(self.acknowledged))
        version, content, state = self.acknowledged[id]
        if state == "deleted":
            return
        if self._random.random() < 0.2:
            self._hold.delete(id=id)
            self._note(id, version + 1, content, "deleted")
        else:
            content = self._text()
            self._note(id, self._hold.update(id=id, content=content).version, content, "live")

    def _note(self, id: str, version: int, content: str, state: str) -> None:
        if self._disk.image is None:
            self.acknowledged[id] = (version, content, state)

    def _draft(self) -> dict[str, str]:
        return {"title": f"Title {self._random.getrandbits(64)}", "content": self._text()}

    def _text(self) -> str:
        word = f"word{self._random.randrange(100)} "
        return word * self._random.choice([1, 10, 100, 1000, 5000])


def cut(seed: int, folder: Path, store_type: type[SqliteStore] = SqliteStore) -> tuple[int, list[str]]:
    """Simulate one power loss; return the number of acknowledged changes and the faults afterwards."""
    random = Random(seed)
    before, after = folder / f"{seed}-before", folder / f"{seed}-after"
    before.mkdir()
    after.mkdir()
    disk = PowerDisk(random.randrange(1, OPERATIONS), random)
    path = before / "memory.db"

    def open_store() -> SqliteStore:
        sqlite_open_store.open_store(path, disk.name).close()
        return store_type(path, disk.name)

    writer = Writer(open_store, disk, random)
    writer.run()
    disk.restart_into(after)
    for key in before.glob("*.key"):
        shutil.copy(key, after)
    try:
        return len(writer.acknowledged), wrong(after / "memory.db", writer.acknowledged)
    finally:
        shutil.rmtree(before)
        shutil.rmtree(after)


def wrong(path: Path, acknowledged: dict[str, tuple[int, str, str]]) -> list[str]:
    """Return what a restarted store has lost, and what is damaged."""
    try:
        with holdfast.open(str(path)) as hold:
            found = [f"corrupt: {fault.what}" for fault in hold.ctx.store.faults()]
            with hold.ctx.reading() as session:
                found += [f"corrupt: {one.message}" for one in history.verify(hold.ctx, session)]
                rows = session.select(("memory_select", "memory.some"), {"ids": list(acknowledged)})
            stored = {row[0]: (row[30], row[3], row[25]) for row in rows}
            return found + [f"lost: {id}" for id, one in acknowledged.items() if not holds(stored.get(id), one)]
    except (HoldfastError, apsw.Error) as error:
        return [f"corrupt: {error}"]


def holds(kept: tuple[int, str, str] | None, acknowledged: tuple[int, str, str]) -> bool:
    """Whether a memory is as acknowledged, or as a change in progress at the power loss made it."""
    return kept is not None and (kept == acknowledged or kept[0] == acknowledged[0] + 1)


@pytest.mark.parametrize("chunk", [0, *(pytest.param(chunk, marks=pytest.mark.full) for chunk in range(1, 10))])
def test_a_power_cut_loses_no_acknowledged_write_and_corrupts_nothing(
    tmp_path: Path, chunk: int, record_property: Callable[[str, object], None]
) -> None:
    outcomes = {seed: cut(seed, tmp_path) for seed in range(chunk * 20, chunk * 20 + 20)}
    record_property("acknowledged", sum(count for count, _ in outcomes.values()))
    assert {seed: found for seed, (_, found) in outcomes.items() if found} == {}
    assert sum(count for count, _ in outcomes.values()) > 100


class Careless(SqliteStore):
    """Run the store without syncs."""

    def _connect(self, mode: str) -> apsw.Connection:
        connection = super()._connect(mode)
        connection.execute(f"pragma synchronous={self.sync}")
        return connection

    sync = "off"


class Hasty(Careless):
    """Run the store with SQLite's default syncs, which keep it consistent but lose the last commits."""

    sync = "normal"


@pytest.mark.full
def test_without_syncs_most_power_cuts_lose_or_corrupt_data(tmp_path: Path) -> None:
    outcomes = [found for _, found in (cut(seed, tmp_path, Careless) for seed in range(20))]
    assert sum(bool(found) for found in outcomes) > 15
    assert any(what.startswith("lost") for found in outcomes for what in found)


@pytest.mark.full
def test_with_fewer_syncs_some_power_cuts_lose_data_and_none_corrupts(tmp_path: Path) -> None:
    outcomes = [found for _, found in (cut(seed, tmp_path, Hasty) for seed in range(20))]
    assert sum(any(what.startswith("lost") for what in found) for found in outcomes) > 5
    assert [what for found in outcomes for what in found if not what.startswith("lost")] == []

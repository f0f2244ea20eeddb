"""Restored backups and copied files: no change number is used twice, and no change is lost."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

import holdfast
from engines import ENGINES_BY_RING, Postgres
from holdfast.features.sync import read_changes
from holdfast.kernel.journal import journal

OWNER = "human:ann@home"
Make = Callable[..., holdfast.Holdfast]


def digest(store: holdfast.Holdfast) -> str:
    with store.ctx.reading() as session:
        return read_changes.compute_digest(session)


def origin(store: holdfast.Holdfast) -> str:
    with store.ctx.reading() as session:
        return journal.get_head(session).origin


def contents(store: holdfast.Holdfast) -> set[str]:
    return {memory.content for memory in store.list(limit=100).memories}


class RestorableStore:
    """A store whose file can be restored in place, with the same path and inode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.copy = path.with_suffix(".copy")

    def __enter__(self) -> holdfast.Holdfast:
        self.open = holdfast.open(str(self.path), agent_id=OWNER)
        return self.open.__enter__()

    def __exit__(self, *_: object) -> None:
        self.open.close()

    def save_copy(self) -> None:
        shutil.copyfile(self.path, self.copy)

    def restore_copy(self) -> None:
        """Overwrite the file with an old copy, keeping its inode."""
        content = self.copy.read_bytes()
        with self.path.open("r+b") as file:
            file.write(content)
            file.truncate()
        for log in ("-wal", "-shm"):
            self.path.with_name(self.path.name + log).unlink(missing_ok=True)


@pytest.fixture
def restorable(tmp_path: Path) -> RestorableStore:
    return RestorableStore(tmp_path / "kept.db")


@pytest.fixture
def two(restorable: RestorableStore, there: holdfast.Holdfast) -> str:
    """A store that was copied, changed, synced and restored."""
    with restorable as store:
        shared = store.store(title="Shared", content="Before the copy.", tier="long")
        store.sync(remote=there.settings.db)
    restorable.save_copy()
    with restorable as store:
        store.update(id=shared.id, content="Said and told.")
        store.store(title="Told", content="Told before it was lost.", tier="long")
        store.sync(remote=there.settings.db)
    restorable.restore_copy()
    return shared.id


def test_a_restored_copy_receives_the_changes_it_sent_before(
    restorable: RestorableStore, two: str, there: holdfast.Holdfast
) -> None:
    with restorable as store:
        before = origin(store)
        done = store.sync(remote=there.settings.db)
        assert (done.rejected, done.given_again) == (0, 0)
        assert contents(store) == {"Said and told.", "Told before it was lost."}
        assert digest(store) == digest(there)
        assert origin(store) != before
        assert store.verify().intact
        assert there.verify().intact


def test_changes_made_on_a_restored_copy_are_reissued(
    restorable: RestorableStore, two: str, there: holdfast.Holdfast, make: Make
) -> None:
    with restorable as store:
        store.update(id=two, content="Said after it was brought back.")
        store.update(id=two, tags=["back"])
        store.store(title="New", content="New after it was brought back.", tier="long")
        done = store.sync(remote=there.settings.db)
        assert (done.rejected, done.given_again) == (0, 3)
        assert digest(store) == digest(there)
        told = {"Said after it was brought back.", "Told before it was lost.", "New after it was brought back."}
        assert contents(store) == contents(there) == told
        (conflict,) = there.conflicts().conflicts
        assert {conflict.shown.value, conflict.other.value} == {"Said after it was brought back.", "Said and told."}
        assert there.get(id=two).tags == ("back",)
        again = store.sync(remote=there.settings.db)
        assert (again.pulled, again.pushed, again.rejected) == (0, 0, 0)
        third = make()
        third.sync(remote=there.settings.db)
        assert digest(third) == digest(store)
        assert all(one.verify().intact for one in (store, there, third))
        assert store.history(id=two).changes[-1].memory["tags"] == ("back",)


def test_a_restored_copy_is_repaired_by_a_peer_that_compacted(
    restorable: RestorableStore, two: str, there: holdfast.Holdfast
) -> None:
    there.update(id=two, priority=9)
    there.compact(older_than=0)
    with restorable as store:
        store.update(id=two, content="Said after it was brought back.")
        store.store(title="New", content="New after it was brought back.", tier="long")
        assert store.sync(remote=there.settings.db).rejected == 0
        assert digest(store) == digest(there)
        assert contents(there) >= {"New after it was brought back.", "Told before it was lost."}
        assert "Said after it was brought back." in everything_said(there)
        assert "Said and told." in everything_said(there)
        assert store.verify().intact
        assert there.verify().intact


def everything_said(store: holdfast.Holdfast) -> set[str]:
    sides = [side for one in store.conflicts().conflicts for side in (one.shown, one.other)]
    return contents(store) | {str(side.value) for side in sides}


def test_either_store_can_detect_the_fork(restorable: RestorableStore, two: str, there: holdfast.Holdfast) -> None:
    with restorable as store:
        store.update(id=two, content="Said after it was brought back.")
    done = there.sync(remote=str(restorable.path))
    assert (done.rejected, done.given_again) == (0, 1)
    with restorable as store:
        assert digest(store) == digest(there)
        assert store.verify().intact


def test_pulling_from_a_forked_copy_receives_all_its_changes(
    restorable: RestorableStore, two: str, there: holdfast.Holdfast
) -> None:
    with restorable as store:
        store.store(title="New", content="New after it was brought back.", tier="long")
    done = there.sync(remote=str(restorable.path), direction="pull")
    assert (done.imported, done.rejected, done.given_again) == (1, 0, 1)
    assert "New after it was brought back." in contents(there)


def test_a_dry_run_repairs_nothing(restorable: RestorableStore, two: str, there: holdfast.Holdfast) -> None:
    with restorable as store:
        before = origin(store)
        store.sync(remote=there.settings.db, dry_run=True)
        assert origin(store) == before


def test_a_copied_file_and_its_source_continue_side_by_side(
    restorable: RestorableStore, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    with restorable as store:
        shared = store.store(title="Shared", content="Before the copy.", tier="long")
    for beside in ("", ".key"):
        shutil.copyfile(f"{restorable.path}{beside}", f"{tmp_path}/twin.db{beside}")
    with restorable as store, holdfast.open(str(tmp_path / "twin.db"), agent_id=OWNER) as twin:
        store.update(id=shared.id, content="By the source.")
        twin.update(id=shared.id, content="By the copy.")
        for one in (store, twin, store):
            assert one.sync(remote=there.settings.db).rejected == 0
        twin.sync(remote=there.settings.db)
        assert digest(store) == digest(twin) == digest(there)
        assert there.conflicts().count == 1
        assert store.verify().intact
        assert twin.verify().intact


def without_its_key(kept: RestorableStore, tmp_path: Path) -> str:
    """An unmodified copy of the file alone."""
    with kept as store:
        store.store(title="Shared", content="Before the copy.", tier="long")
    shutil.copyfile(kept.path, tmp_path / "alone.db")
    return str(tmp_path / "alone.db")


def test_a_copy_without_its_key_sends_its_data(
    restorable: RestorableStore, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    alone = without_its_key(restorable, tmp_path)
    assert there.sync(remote=alone, direction="pull", dry_run=True).pull.new == 1
    assert there.sync(remote=alone, direction="pull").rejected == 0
    assert contents(there) == {"Before the copy."}
    with restorable as store:
        assert there.sync_digest().vector == {origin(store): 1}
        store.store(title="Later", content="Said after the copy.")
        done = there.sync(remote=str(restorable.path))
        assert (done.pulled, done.pushed, done.rejected, done.forked) == (1, 0, 0, [])
        assert digest(store) == digest(there)
        assert store.verify().intact
        assert there.verify().intact


@pytest.fixture(params=ENGINES_BY_RING)
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    """A store that pulls from a copy, on either engine."""
    with ExitStack() as stack:
        at = str(tmp_path / "reader.db")
        if request.param == "postgres":
            at = stack.enter_context(request.getfixturevalue("postgres").empty_store())
        yield stack.enter_context(holdfast.open(at, agent_id=OWNER))


@pytest.mark.parametrize(("direction", "dry_run"), [("pull", True), ("pull", False), ("merge", True), ("push", True)])
def test_reading_from_a_copy_writes_nothing_beside_it(
    restorable: RestorableStore, reader: holdfast.Holdfast, tmp_path: Path, direction: str, *, dry_run: bool
) -> None:
    with restorable as store:
        store.sync(remote=reader.settings.db)
    reader.store(title="Theirs", content="They said that.")
    (tmp_path / "apart").mkdir()
    alone = without_its_key(restorable, tmp_path / "apart")
    before = lying(tmp_path / "apart")
    done = reader.sync(remote=alone, direction=direction, dry_run=dry_run)
    assert (done.rejected, list(lying(tmp_path / "apart"))) == (0, ["alone.db"])
    assert lying(tmp_path / "apart") == before


def test_an_older_copy_without_its_key_is_left_unchanged_by_a_newer_store(
    restorable: RestorableStore, reader: holdfast.Holdfast, tmp_path: Path
) -> None:
    (tmp_path / "apart").mkdir()
    alone = without_its_key(restorable, tmp_path / "apart")
    with restorable as store:
        store.store(title="Later", content="Said after the copy.")
        store.sync(remote=reader.settings.db)
    before = lying(tmp_path / "apart")
    done = reader.sync(remote=alone, direction="pull")
    assert (done.imported, done.rejected, lying(tmp_path / "apart")) == (0, 0, before)


def test_a_dry_run_writes_no_key_beside_the_requesting_copy(
    restorable: RestorableStore, reader: holdfast.Holdfast, tmp_path: Path
) -> None:
    (tmp_path / "apart").mkdir()
    reader.store(title="Theirs", content="They said that.")
    with holdfast.open(without_its_key(restorable, tmp_path / "apart"), agent_id=OWNER) as alone:
        planned = alone.sync(remote=reader.settings.db, dry_run=True)
        assert (planned.pull.new, planned.push.new) == (1, 1)
        assert not (tmp_path / "apart/alone.db.key").exists()


def test_a_peer_accepts_a_known_store_with_a_new_key(
    restorable: RestorableStore, reader: holdfast.Holdfast, tmp_path: Path
) -> None:
    with restorable as store:
        store.sync(remote=reader.settings.db)
        store.store(title="Told", content="Signed by the key.")
        store.sync(remote=reader.settings.db)
    with holdfast.open(without_its_key(restorable, tmp_path), agent_id=OWNER) as alone:
        alone.store(title="Later", content="Signed by another key.")
        done = alone.sync(remote=reader.settings.db)
        assert (done.pushed, done.rejected) == (2, 0)
        assert digest(alone) == digest(reader)


def test_a_peer_that_first_met_a_copy_accepts_the_true_author(
    restorable: RestorableStore, reader: holdfast.Holdfast, tmp_path: Path
) -> None:
    with holdfast.open(without_its_key(restorable, tmp_path), agent_id=OWNER) as alone:
        alone.store(title="By the copy", content="Signed by another key.")
        assert reader.sync(remote=alone.settings.db).rejected == 0
    with restorable as store:
        store.store(title="By the source", content="Signed by the key.")
        assert store.sync(remote=reader.settings.db).rejected == 0
        assert digest(store) == digest(reader)
        assert reader.verify().intact


def lying(folder: Path) -> dict[str, str]:
    """Return the digest of each file in a folder."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_a_copy_without_its_key_can_be_exported_as_a_bundle(
    restorable: RestorableStore, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    with holdfast.open(without_its_key(restorable, tmp_path), agent_id=OWNER) as copy:
        copy.sync_export_bundle(file=str(tmp_path / "b"))
    there.sync_import_bundle(file=str(tmp_path / "b"), trust_sender=True)
    assert contents(there) == {"Before the copy."}


def test_a_copy_without_its_key_uses_one_replica_id_in_handshake_and_feed(
    restorable: RestorableStore, tmp_path: Path
) -> None:
    stranger = {"node": "elsewhere", "origin": "elsewhere.1", "seq": 0, "now": 0, "vector": {}, "authors": {}}
    with holdfast.open(without_its_key(restorable, tmp_path), agent_id=OWNER) as copy:
        hello = copy.peer_hello(message={"greeting": stranger, "kinds": ["memory"]})
        fed = copy.peer_feed(message={"after": 0, "known": {}, "limit": 10})
        assert (fed.origin, len(fed.states)) == (hello.greeting.origin, 1)


def test_a_dry_run_into_a_copy_without_its_key_leaves_it_intact(
    restorable: RestorableStore, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    alone = without_its_key(restorable, tmp_path)
    there.store(title="Theirs", content="They said that.")
    assert there.sync(remote=alone, direction="push", dry_run=True).push.new == 1
    with holdfast.open(alone, agent_id=OWNER) as copy:
        copy.store(title="Later", content="Said later.")
        assert copy.verify().intact


def test_a_copy_without_its_key_stays_intact_after_a_refused_first_request(
    restorable: RestorableStore, tmp_path: Path
) -> None:
    with holdfast.open(without_its_key(restorable, tmp_path), agent_id=OWNER) as copy:
        with pytest.raises(holdfast.HoldfastError):
            copy.store(title="Shared", content="Said later.", on_conflict="error")
        copy.store(title="Later", content="Said later.")
        assert copy.verify().intact


def test_a_third_store_quarantines_forked_changes_until_the_fork_is_repaired(
    restorable: RestorableStore, two: str, there: holdfast.Holdfast, make: Make
) -> None:
    third = make()
    with restorable as store:
        store.update(id=two, content="Said after it was brought back.")
        store.store(title="More", content="More of the same numbers.", tier="long")
        third.sync(remote=str(restorable.path))
        assert contents(third) == {"Said after it was brought back.", "More of the same numbers."}
    done = third.sync(remote=there.settings.db, direction="pull")
    assert done.forked == [origin_of(two, third)]
    with restorable as store:
        store.sync(remote=there.settings.db)
        settled = third.sync(remote=str(restorable.path))
        assert (settled.rejected, settled.forked) == (0, [])
        there.sync(remote=third.settings.db)
        store.sync(remote=there.settings.db)
        assert digest(store) == digest(there) == digest(third)
        assert contents(third) >= {"More of the same numbers.", "Told before it was lost."}
        assert all(one.verify().intact for one in (store, there, third))


def origin_of(id: str, store: holdfast.Holdfast) -> str:
    return str(store.history(id=id).changes[0].origin)


@pytest.fixture
def engine() -> str:
    """The engine of the restored store."""
    return "sqlite"


def test_a_restored_database_is_repaired_too(postgres: Postgres, there: holdfast.Holdfast) -> None:
    with postgres.new_store() as url:
        with holdfast.open(url, agent_id=OWNER) as store:
            shared = store.store(title="Shared", content="Before the copy.", tier="long")
            store.sync(remote=there.settings.db)
        postgres.keep(url)
        with holdfast.open(url, agent_id=OWNER) as store:
            store.update(id=shared.id, content="Said and told.")
            store.sync(remote=there.settings.db)
        postgres.put_back(url)
        with holdfast.open(url, agent_id=OWNER) as store:
            store.update(id=shared.id, content="Said after it was brought back.")
            store.store(title="New", content="New after it was brought back.", tier="long")
            done = store.sync(remote=there.settings.db)
            assert (done.rejected, done.given_again) == (0, 2)
            assert digest(store) == digest(there)
            assert there.conflicts().count == 1
            assert store.verify().intact

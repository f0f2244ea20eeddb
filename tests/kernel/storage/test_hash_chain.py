"""The journal of an untouched store: without gaps, in commit order, signed by this copy."""

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engines import raw_connection
from holdfast.app import Holdfast
from holdfast.features.access.model import AGENT
from holdfast.features.history import service as history
from holdfast.features.namespaces.model import STANDARD, Standard
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import OperationCancelled, StoreDamaged
from holdfast.kernel.journal import journal, verify_chain
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import Store

HOUR = 3600 * 1_000_000


def entries(store: Store) -> list[journal.Entry]:
    with store.reading() as session:
        return list(journal.iter_entries(session, page_size=3))


def given_up() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


def breaks(hold: Holdfast) -> list[verify_chain.JournalFault]:
    with hold.ctx.reading() as session:
        return history.verify(hold.ctx, session)


@pytest.fixture
def key(engine: str, store: Store, address: str) -> Callable[[bytes | None], None]:
    """Replace or remove the node's key directly."""

    def put(secret: bytes | None) -> None:
        if engine == "sqlite":
            store.close()
            Path(f"{address}.key").unlink()
            if secret is not None:
                Path(f"{address}.key").write_bytes(secret)
        else:
            with raw_connection(address) as raw:
                raw.execute("delete from node_key")
                if secret is not None:
                    raw.execute("insert into node_key (secret) values (%s)", (secret,))

    return put


def test_entries_are_numbered_without_gaps_in_commit_order(hold: Holdfast, store: Store) -> None:
    one = hold.store(title="One", content="first").id
    hold.bulk_store(memories=[{"title": "Two", "content": "second"}, {"title": "Three", "content": "third"}])
    hold.update(id=one, content="again")
    found = entries(store)
    assert [(entry.seq, entry.n, entry.batch, entry.op) for entry in found] == [
        (1, 1, 1, "store"),
        (2, 2, 2, "store"),
        (3, 3, 2, "store"),
        (4, 4, 4, "update"),
    ]
    assert {entry.origin for entry in found} == {found[0].origin}


def test_a_rollback_leaves_no_gap(hold: Holdfast, store: Store) -> None:
    hold.store(title="One", content="first")
    with pytest.raises(OperationCancelled):
        hold.call("store", {"title": "Not kept", "content": "given up"}, progress=Progress(stop=given_up()))
    hold.store(title="Two", content="second")
    assert [(entry.seq, entry.n) for entry in entries(store)] == [(1, 1), (2, 2)]


def test_kept_at_never_decreases_with_a_clock_set_back(store: Store, holdfast_over: Callable[..., Holdfast]) -> None:
    clock = [10 * HOUR]
    hold = holdfast_over(store, now=lambda: clock[0])
    for clock[0] in (10 * HOUR, 9 * HOUR, 11 * HOUR):
        hold.store(title=f"At {clock[0]}", content="x")
    assert [entry.recorded_at // HOUR for entry in entries(store)] == [10, 10, 11]


def test_an_untouched_journal_verifies(hold: Holdfast) -> None:
    assert breaks(hold) == []
    for number in range(5):
        hold.store(title=f"Title {number}", content="something")
    assert breaks(hold) == []


def test_two_copies_of_a_store_continue_as_two_new_incarnations_of_its_node(
    hold: Holdfast, store: Store, holdfast_over: Callable[..., Holdfast], tmp_path: Path
) -> None:
    hold.store(title="Before", content="the copy")
    origins = {entries(store)[0].origin}
    for name in ("one.db", "other.db"):
        store.snapshot(tmp_path / name)
        with closing(open_store(str(tmp_path / name))) as copy:
            holdfast_over(copy).store(title="After", content="the copy")
            assert breaks(holdfast_over(copy)) == []
            assert [entry.n for entry in entries(copy)] == [1, 1]
            origins |= {entry.origin for entry in entries(copy)}
    assert len(origins) == 3
    assert len({origin.split(".")[0] for origin in origins}) == 1


def test_a_copy_without_writes_of_its_own_verifies(
    hold: Holdfast, store: Store, holdfast_over: Callable[..., Holdfast], tmp_path: Path
) -> None:
    hold.store(title="Before", content="the copy")
    store.snapshot(tmp_path / "copy.db")
    with closing(open_store(str(tmp_path / "copy.db"))) as copy:
        with holdfast_over(copy).ctx.transaction():
            pass
        assert breaks(holdfast_over(copy)) == []


def test_a_store_without_its_key_continues_as_a_new_incarnation(
    hold: Holdfast, store: Store, key: Callable[[bytes | None], None]
) -> None:
    hold.store(title="Before", content="the key was lost")
    key(None)
    hold.store(title="After", content="the key was lost")
    assert breaks(hold) == []
    assert len({entry.origin for entry in entries(store)}) == 2


def test_a_damaged_key_is_reported_and_nothing_is_written(
    hold: Holdfast, store: Store, key: Callable[[bytes | None], None]
) -> None:
    hold.store(title="Before", content="the key was damaged")
    key(b"short")
    with pytest.raises(StoreDamaged):
        hold.store(title="After", content="the key was damaged")
    assert len(entries(store)) == 1


def test_undo_returns_to_the_previous_state_of_the_same_record_kind(hold: Holdfast) -> None:
    """An agent and a namespace's standard may have the same id."""
    memory = hold.store(title="How we work", content="Carefully.").id
    hold.agent_register(agent_id="alice", agent_type="human")
    with hold.ctx.transaction() as write:
        write.add(STANDARD, Standard("alice", memory, None, write.now, write.now, write.origin, 1), "standard")
    hold.agent_register(agent_id="alice", agent_type="ai:alice")
    hold.undo(change=4)
    with hold.ctx.transaction() as write:
        agent = write.get(AGENT, "alice")
    assert agent is not None
    assert agent.agent_type == "human"

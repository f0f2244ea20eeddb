"""Processes that share a store: concurrent opening, serialized writes, immediate visibility."""

from collections.abc import Callable
from contextlib import closing

import pytest
from processes import at_once

from holdfast.app import Holdfast
from holdfast.features.history import service as history
from holdfast.kernel.errors import TitleTaken
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import Store


@pytest.mark.parametrize("round", range(4))
def test_eight_processes_opening_a_new_store_concurrently_get_the_same_one(db: str, round: int) -> None:
    def first_open(number: int) -> str:
        with closing(open_store(db)) as store, store.transaction() as session:
            session.do("meta_put", name=str(number), body="here")
            return journal.get_head(session).node

    answers = at_once(8, first_open)
    with closing(open_store(db)) as store, store.reading() as session:
        assert answers == [{"answer": journal.get_head(session).node}] * 8
        assert len(session.rows("meta_list")) == 8
        assert len(session.rows("migration_list")) == len({number for number, _ in session.rows("migration_list")})
    assert store.faults() == []


def test_concurrent_processes_lose_no_count(address: str, store: Store) -> None:
    def count(number: int) -> None:
        with closing(open_store(address)) as own:
            for _ in range(30):
                with own.transaction() as session:
                    counted = int(dict(session.rows("meta_list")).get("count", "0"))
                    session.do("meta_put", name="count", body=str(counted + 1))

    assert at_once(6, count) == [{"answer": None}] * 6
    with store.reading() as session:
        assert session.rows("meta_list") == [("count", "180")]


def test_the_journal_of_many_processes_is_one_dense_hash_chain(
    address: str, store: Store, holdfast_over: Callable[..., Holdfast]
) -> None:
    def write(number: int) -> list[str]:
        with closing(open_store(address)) as own:
            hold = holdfast_over(own)
            kept = [hold.store(title=f"{number}-{each}", content="word").id for each in range(10)]
            hold.bulk_store(memories=[{"title": f"{number}-b{each}", "content": "word"} for each in range(5)])
            return kept

    answers = at_once(6, write)
    ids = {id for answer in answers for id in answer["answer"]}
    hold = holdfast_over(store)
    with store.reading() as session:
        entries = list(journal.iter_entries(session))
        assert history.verify(hold.ctx, session) == []
    assert [entry.seq for entry in entries] == list(range(1, 91))
    assert [entry.n for entry in entries] == list(range(1, 91))
    assert len({entry.batch for entry in entries}) == 66
    assert len(ids) == 60
    assert ids <= {entry.record for entry in entries}
    assert store.faults() == []


def test_a_store_by_one_process_is_visible_to_another_at_once(
    address: str, hold: Holdfast, holdfast_over: Callable[..., Holdfast]
) -> None:
    hold.recall(context="anything")

    def keep(number: int) -> str:
        with closing(open_store(address)) as own:
            return str(holdfast_over(own).store(title="From another process", content="Found at once.").id)

    for answer in at_once(1, keep):
        assert [memory.id for memory in hold.recall(context="found at once").memories] == [answer["answer"]]
        assert hold.get(id=answer["answer"]).title == "From another process"


def test_concurrent_changes_of_one_version_are_one_change_and_one_conflict(
    address: str, hold: Holdfast, holdfast_over: Callable[..., Holdfast]
) -> None:
    id = hold.store(title="Contended", content="first").id

    def change(number: int) -> int:
        with closing(open_store(address)) as own:
            return int(holdfast_over(own).update(id=id, content=f"by {number}", expected_version=1).version)

    answers = at_once(8, change)
    assert [answer for answer in answers if "answer" in answer] == [{"answer": 2}]
    assert all("VersionConflict" in answer["error"] for answer in answers if "error" in answer)
    assert hold.get(id=id).version == 2


def test_a_title_stored_by_many_processes_is_one_memory(
    address: str, hold: Holdfast, holdfast_over: Callable[..., Holdfast]
) -> None:
    def take(number: int) -> int:
        taken = 0
        with closing(open_store(address)) as own:
            for title in range(10):
                try:
                    holdfast_over(own).store(title=f"Title {title}", content=f"by {number}", on_conflict="error")
                    taken += 1
                except TitleTaken:
                    continue
        return taken

    answers = at_once(8, take)
    assert sum(answer["answer"] for answer in answers) == 10
    assert sorted(memory.title for memory in hold.list().memories) == [f"Title {title}" for title in range(10)]
    with hold.ctx.reading() as session:
        assert history.verify(hold.ctx, session) == []


@pytest.mark.full
def test_a_journal_follower_never_sees_a_change_before_an_earlier_one(
    address: str, store: Store, holdfast_over: Callable[..., Holdfast]
) -> None:
    """A number assigned before its commit would be skipped by readers that have seen a later one."""
    writers, each = 16, 8

    def write(number: int) -> None:
        with closing(open_store(address)) as own:
            hold = holdfast_over(own)
            try:
                for change in range(0, each, 2):
                    hold.store(title=f"{number}-{change}", content="word")
                    hold.bulk_store(memories=[{"title": f"{number}-{change + 1}", "content": "word"}])
            finally:
                with own.transaction() as session:
                    session.do("meta_put", name=f"writer {number} is done", body="")

    def follow() -> list[int]:
        seen: list[int] = []
        with closing(open_store(address)) as own:
            while True:
                with own.reading() as session:
                    page = [row[0] for row in session.rows("journal_page", after=seen[-1] if seen else 0, limit=5)]
                    if not page and len(session.rows("meta_list")) == writers:
                        return seen
                seen += page
                own.wait_for_commit(0.01)

    answers = at_once(writers + 2, lambda number: follow() if number < 2 else write(number))
    assert answers[2:] == [{"answer": None}] * writers
    assert answers[:2] == [{"answer": list(range(1, writers * each + 1))}] * 2

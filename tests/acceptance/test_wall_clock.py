"""The wall clock jumps back an hour between writes: order, history and `known_at` stay correct."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from datetimes import to_datetime
from holdfast.kernel.errors import NotFound
from holdfast.kernel.timestamps import format_timestamp, parse_timestamp

HOUR = 3600 * 1_000_000
TEN = parse_timestamp("2026-03-01T10:00:00Z", "ten")


class Clock:
    """A settable wall clock that advances by a second per reading."""

    def __init__(self) -> None:
        self.at = TEN

    def __call__(self) -> int:
        self.at += 1_000_000
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hold(tmp_path: Path, clock: Clock) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(tmp_path / "memory.db"), agent_id="ai:tester@here", now=clock) as opened:
        yield opened


def test_the_feed_keeps_commit_order_and_its_times_never_decrease(hold: holdfast.Holdfast, clock: Clock) -> None:
    for number, hour in enumerate((0, -1, -2, 1, 0)):
        clock.at = TEN + hour * HOUR
        hold.store(title=f"Title {number}", content="x")
    changes = hold.events(after=0).events
    assert [change.seq for change in changes] == [1, 2, 3, 4, 5]
    times = [change.at for change in changes]
    assert times == sorted(times)
    assert hold.verify().intact


def test_a_later_change_wins_with_a_clock_behind(hold: holdfast.Holdfast, clock: Clock) -> None:
    id = hold.store(title="Title", content="at ten", tags=["a"]).id
    clock.at -= HOUR
    hold.update(id=id, content="at nine", tags=["b"])
    clock.at -= HOUR
    hold.update(id=id, content="at eight")
    assert (hold.get(id=id).content, hold.get(id=id).tags) == ("at eight", ("b",))
    assert [change.version for change in hold.history(id=id).changes] == [1, 2, 3]
    assert hold.verify().intact


def test_no_memory_changes_before_its_creation_time(hold: holdfast.Holdfast, clock: Clock) -> None:
    stored = hold.store(title="Title", content="at ten")
    clock.at -= HOUR
    updated = hold.update(id=stored.id, content="at nine")
    assert updated.created_at == stored.created_at
    assert updated.updated_at >= stored.updated_at


def content_at(hold: holdfast.Holdfast, id: str, moment: int, name: str) -> str | None:
    try:
        return str(hold.get(**{"id": id, name: format_timestamp(moment)}).content)
    except NotFound:
        return None


@pytest.mark.parametrize("name", ["known_at", "as_of"])
def test_history_at_any_time_is_in_order(hold: holdfast.Holdfast, clock: Clock, name: str) -> None:
    contents = ["first", "second", "third", "fourth"]
    id = hold.store(title="Title", content=contents[0]).id
    for content, hours in zip(contents[1:], (-1, 3, -2), strict=True):
        clock.at += hours * HOUR
        hold.update(id=id, content=content)
    moments = range(TEN - 2 * HOUR, TEN + 5 * HOUR, HOUR // 4)
    told = [content for moment in moments if (content := content_at(hold, id, moment, name))]
    assert told == sorted(told, key=contents.index)
    assert told[-1] == "fourth"
    assert content_at(hold, id, TEN - 1, name) is None


def test_a_memory_is_known_at_the_time_it_was_stored(hold: holdfast.Holdfast, clock: Clock) -> None:
    id = hold.store(title="Title", content="at ten").id
    clock.at -= HOUR
    hold.update(id=id, content="at nine")
    times = [change.at for change in hold.history(id=id).changes]
    assert hold.get(id=id, known_at=times[-1]).content == "at nine"


def test_undo_and_deletion_hold_with_a_clock_set_back(hold: holdfast.Holdfast, clock: Clock) -> None:
    id = hold.store(title="Title", content="at ten").id
    clock.at -= HOUR
    hold.update(id=id, content="at nine")
    clock.at -= HOUR
    hold.undo(change=2)
    assert hold.get(id=id).content == "at ten"
    clock.at -= HOUR
    hold.delete(id=id)
    with pytest.raises(NotFound):
        hold.get(id=id)
    assert hold.verify().intact


def test_a_store_reopened_with_the_clock_behind_continues_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")

    def store_at(moment: int) -> None:
        now: Callable[[], int] = lambda: moment  # noqa: E731
        with holdfast.open(path, agent_id="ai:tester@here", now=now) as hold:
            hold.store(title="One title", content=f"at {moment}")

    for hour in (0, -1, -5, 2):
        store_at(TEN + hour * HOUR)
    with holdfast.open(path, agent_id="ai:tester@here") as hold:
        changes = hold.events(after=0).events
        assert [change.at for change in changes] == [to_datetime(TEN)] * 3 + [to_datetime(TEN + 2 * HOUR)]
        assert [change.version for change in changes] == [1, 2, 3, 4]
        assert hold.verify().intact

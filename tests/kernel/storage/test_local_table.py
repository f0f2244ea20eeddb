"""Local tables: everything is derived from one struct, on both engines."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

import pytest
from msgspec import Struct

import holdfast
from holdfast.kernel.records.fields import Mark
from holdfast.kernel.storage import local_table
from holdfast.kernel.storage.local_table import LocalTable, Owner, Retention
from holdfast.kernel.storage.port import Session, Sql


class Jar(Struct, frozen=True, kw_only=True):
    id: str
    owner: Annotated[str, Mark.FIXED]
    filled_at: int
    labels: tuple[str, ...] = ()
    about: dict[str, Any] = {}
    is_open: bool = False
    memory: str | None = None


class Spoon(Struct, frozen=True, kw_only=True):
    jar: str
    place: int


class Keep(Struct, frozen=True):
    jars: int = 0


JARS = LocalTable(
    Jar,
    "jar",
    plural="jars",
    owner=Owner("filled_at", "owner"),
    retention=Retention("jars", "filled_at"),
    memories=("memory",),
)
SPOONS = LocalTable(Spoon, "spoon", ("jar", "place"), plural="spoons", parent=(JARS, "jar"), updates=())
SCHEMA = (
    "create table jar (id text primary key, owner text not null, filled_at bigint not null, labels text not null, "
    "about text not null, is_open bigint not null, memory text)",
    "create table spoon (jar text not null references jar (id), place bigint not null, primary key (jar, place))",
)


def jar(id: str, **more: Any) -> Jar:
    return Jar(**{"id": id, "owner": "ann", "filled_at": 1, **more})


class _Rollback(Exception):
    pass


@pytest.fixture
def session(hold: holdfast.Holdfast) -> Iterator[Session]:
    """A transaction with the tables, which is rolled back."""
    with suppress(_Rollback), hold.ctx.store.transaction() as session:
        for sql in SCHEMA:
            session.execute_sql(sql, [{}])
        yield session
        raise _Rollback


def test_a_record_is_read_back_as_it_was_written(session: Session) -> None:
    full = jar("a", labels=("x", "ü"), about={"n": [1, None]}, is_open=True, memory="m")
    assert JARS.put(session, full) == full
    assert (JARS.get(session, "a"), JARS.get(session, "b")) == (full, None)
    assert JARS.get_many(session, ["b", "a"]) == [full]


def test_an_update_leaves_fixed_columns_and_immutable_rows_alone(session: Session) -> None:
    JARS.put(session, jar("a"))
    JARS.put(session, jar("a", owner="bob", filled_at=2))
    assert JARS.get(session, "a") == jar("a", filled_at=2)
    assert (JARS.mutable, SPOONS.mutable) == (("filled_at", "labels", "about", "is_open", "memory"), ())
    SPOONS.put(session, Spoon(jar="a", place=1))
    SPOONS.put(session, Spoon(jar="a", place=1))
    assert SPOONS.count(session) == 1


def test_pages_follow_the_whole_key(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_table, "PAGE_ROWS", 2)
    JARS.put_many(session, [jar("a"), jar("b")])
    spoons = [Spoon(jar=id, place=place) for id in "ab" for place in (1, 2, 10)]
    SPOONS.put_many(session, reversed(spoons))
    assert list(SPOONS.iterate(session)) == spoons


def test_a_row_is_deleted_with_its_children(session: Session) -> None:
    JARS.put_many(session, [jar("a"), jar("b")])
    SPOONS.put_many(session, [Spoon(jar=id, place=1) for id in "ab"])
    assert (JARS.delete(session, "a"), JARS.delete(session, "a")) == (True, False)
    assert [one.jar for one in SPOONS.iterate(session)] == ["b"]


def test_a_person_is_erased_up_to_a_time_with_what_belongs_to_their_rows(session: Session) -> None:
    JARS.put_many(session, [jar("a"), jar("b", filled_at=9), jar("c", owner="bob"), jar("d", owner="slack:U1")])
    SPOONS.put_many(session, [Spoon(jar=id, place=1) for id in "abcd"])
    assert JARS.erase_person(session, ["ann", "slack:U1"], 5) == {"spoons": 2, "jars": 2}
    assert [one.jar for one in SPOONS.iterate(session)] == [one.id for one in JARS.iterate(session)] == ["b", "c"]
    assert sorted(JARS.list_owners(session)) == ["ann", "bob"]


def test_rows_past_their_retention_are_deleted_oldest_first(session: Session) -> None:
    JARS.put_many(session, [jar(id, filled_at=at) for id, at in (("a", 3), ("b", 1), ("c", 2), ("d", 9))])
    SPOONS.put(session, Spoon(jar="b", place=1))
    assert JARS.oldest_kept(10, Keep()) is None
    assert JARS.count_expired(session, 9) == 3
    assert JARS.delete_expired(session, 9, limit=2) == 2
    assert [one.id for one in JARS.iterate(session)] == ["a", "d"]


def test_rows_of_purged_memories_are_deleted(session: Session) -> None:
    JARS.put_many(session, [jar("a", memory="m"), jar("b", memory="n"), jar("c")])
    JARS.purge_memories(session, ["m", "x"])
    assert [one.id for one in JARS.iterate(session)] == ["b", "c"]


def test_named_clauses_and_derived_statements_are_joined(session: Session) -> None:
    JARS.put_many(session, [jar("a", filled_at=2), jar("b", filled_at=1)])
    newest = Sql(" and t.filled_at > :after order by t.filled_at desc")
    assert [one.id for one in JARS.select(session, (newest,), {"after": 0})] == ["a", "b"]
    assert JARS.count(session, (Sql(" and t.filled_at > :after"),), {"after": 1}) == 1

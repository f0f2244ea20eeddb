"""Rights of database users, and the errors of missing ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from schemas import READS, SECRET, WORKS, as_user, describe_error, grant, schema_of

import holdfast
from engines import Postgres, raw_connection
from holdfast.kernel import errors
from holdfast.kernel.storage.open_by_address import open_store
from timeouts import wait_until


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
def passwords_count(postgres: Postgres, user: str) -> Iterator[None]:
    """Make the server require this user's password."""
    with postgres.admin() as admin:
        ((found,),) = admin.execute("show hba_file").fetchall()
        file = Path(str(found))
        before = file.read_text()
        file.write_text(f"local all {user} scram-sha-256\n{before}")
        admin.execute("select pg_reload_conf()")
    wait_until(lambda: not connects(as_user(postgres.url(), user)))
    yield
    file.write_text(before)
    with postgres.admin() as admin:
        admin.execute("select pg_reload_conf()")


def connects(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.usefixtures("passwords_count")
@pytest.mark.parametrize("password", ["", f"not {SECRET}"], ids=["none", "a wrong one"])
def test_a_wrong_password_is_reported_and_not_repeated(db: str, user: str, password: str) -> None:
    with pytest.raises(errors.StoreUnreachable, match="password") as refused:
        open_store(as_user(db, user, password))
    assert SECRET not in describe_error(refused.value)


@pytest.mark.usefixtures("passwords_count")
def test_a_password_opens_the_store_and_is_displayed_nowhere(db: str, user: str) -> None:
    with raw_connection(db) as raw:
        raw.execute(f"create schema {schema_of(db)} authorization {user}")
    address = as_user(db, user, SECRET)
    with holdfast.open(address) as hold:
        hold.store(title="One", content="first")
        store: Any = hold.ctx.store
        shown = [store.path, repr(store), repr(vars(store)), str(store.sidecar_path("x")), hold.stats(), hold.doctor()]
        assert not [text for text in map(repr, shown) if SECRET in text]
        assert user in store.path


def test_a_user_with_row_rights_only_can_do_everything(db: str, user: str) -> None:
    open_store(db).close()
    with holdfast.open(grant(db, user, WORKS), agent_id="ai:tester@here") as hold:
        one = hold.store(title="One", content="first", tags=["a"]).id
        other = hold.store(title="Two", content="second").id
        hold.link(source_id=one, target_id=other, relation="related_to")
        hold.update(id=one, content="first of all", tags=["b"])
        hold.archive(ids=[other])
        hold.archive_purge(ids=[other])
        assert [memory.id for memory in hold.recall(context="first").memories] == [one]
        hold.undo(change=4)
        hold.delete(id=one)
        hold.gc()
        assert hold.verify().intact
        assert hold.ctx.store.faults() == []


def test_a_read_only_user_reads_and_gets_an_error_when_writing(db: str, user: str) -> None:
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    with holdfast.open(grant(db, user, READS)) as hold:
        assert [memory.id for memory in hold.recall(context="first").memories] == [id]
        assert hold.get(id=id).title == "One"
        assert len(hold.events(after=0).events) == 1
        for write in (lambda: hold.store(title="Two", content="x"), lambda: hold.delete(id=id)):
            with pytest.raises(errors.StoreUnreachable, match="has no right"):
                write()
    with holdfast.open(db) as hold:
        assert hold.stats().total == 1


def test_a_replica_reads_and_gives_an_error_when_writing(db: str, user: str) -> None:
    """For a writer, a database configured as read-only behaves the same."""
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    reads_only = f"{grant(db, user, WORKS)}&options=-c%20default_transaction_read_only%3Don"
    with holdfast.open(reads_only) as hold:
        assert hold.get(id=id).title == "One"
        with pytest.raises(errors.StoreUnreachable, match="is read-only"):
            hold.store(title="Two", content="x")


def test_a_user_without_the_right_to_create_tables_is_referred_to_the_owner(db: str, user: str) -> None:
    with pytest.raises(errors.StoreUnreachable, match="as the owner of the schema"):
        open_store(as_user(db, user))
    with raw_connection(db) as raw:
        assert raw.execute("select to_regnamespace(%s)", (schema_of(db),)).fetchall() == [(None,)]


def test_a_user_without_any_rights_gets_an_error(db: str, user: str) -> None:
    open_store(db).close()
    with pytest.raises(errors.StoreUnreachable, match="has no right"):
        open_store(as_user(db, user))

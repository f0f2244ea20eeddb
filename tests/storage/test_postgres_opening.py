"""Opening a schema: ours, brought up to this release whole or not at all, and anything else left as it is."""

import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from processes import at_once

import holdfast
from engines import Postgres, past_holdfast
from holdfast.domain import errors
from holdfast.storage import migrate
from holdfast.storage.locate import open_store
from holdfast.storage.port import Store
from holdfast.storage.postgres import engine as postgres_engine
from holdfast.storage.postgres import opening
from holdfast.storage.postgres.address import address_of

Raw = psycopg.Connection[tuple[Any, ...]]
SECRET = "kept-to-itself-7351"


@pytest.fixture
def engine() -> str:
    return "postgres"


def schema_of(url: str) -> str:
    return address_of(url, Path()).schema


def as_user(url: str, user: str, password: str = "") -> str:
    """The same address for another user of the database."""
    parts = urlsplit(url)
    login = quote(user) + (f":{quote(password, safe='')}" if password else "")
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))


def catalog(raw: Raw, schema: str) -> set[tuple[str, ...]]:
    """Everything that is defined in a schema, and how; its own name left out."""
    rows = raw.execute(
        """
        select 'column', table_name, column_name, ordinal_position::text, data_type, collation_name, is_nullable,
          column_default, identity_generation from information_schema.columns where table_schema = %(schema)s
        union all
        select 'constraint', conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid), null, null,
          null, null from pg_constraint where connamespace = %(schema)s::regnamespace
        union all
        select 'index', tablename, indexname, indexdef, null, null, null, null, null from pg_indexes
        where schemaname = %(schema)s
        union all
        select 'relation', relname, relkind::text, relpersistence::text, reloptions::text, null, null, null, null
        from pg_class where relnamespace = %(schema)s::regnamespace
        union all
        select 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(t.oid), tgenabled::text, null, null, null,
          null from pg_trigger t join pg_class c on c.oid = tgrelid
        where relnamespace = %(schema)s::regnamespace and not tgisinternal
        union all
        select 'function', proname, pg_get_functiondef(oid), null, null, null, null, null, null from pg_proc
        where pronamespace = %(schema)s::regnamespace
        """,
        {"schema": schema},
    ).fetchall()
    return {tuple(str(value).replace(f"{schema}.", "") for value in row) for row in rows}


def everything(url: str) -> tuple[set[tuple[str, ...]], dict[str, list[tuple[Any, ...]]]]:
    """How the tables of a schema are defined, and every row of them."""
    with past_holdfast(url) as raw:
        defined = catalog(raw, schema_of(url))
        tables = sorted(entry[1] for entry in defined if entry[0] == "relation" and entry[2] == "r")
        return defined, {table: sorted(raw.execute(f'select * from "{table}"').fetchall(), key=str) for table in tables}


# Made, and the same as made step by step


def test_an_empty_schema_becomes_a_store(db: str) -> None:
    with past_holdfast(db) as raw:
        raw.execute(f"create schema {schema_of(db)}")
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    with holdfast.open(db) as hold:
        assert hold.get(id=id).content == "first"


def test_a_store_is_the_sum_of_its_migrations(db: str, postgres: Postgres) -> None:
    open_store(db).close()
    with postgres.new_store() as other, past_holdfast(other) as raw:
        raw.execute(f"create schema {schema_of(other)}")
        raw.execute(migrate.portable(migrate.TABLE + ";"))
        for migration in migrate.known(*postgres_engine.FOLDERS):
            raw.execute(migrate.portable(migration.script))
        step_by_step = catalog(raw, schema_of(other))
        opened = catalog(raw, schema_of(db))
    assert opened == step_by_step
    assert len(opened) > 150


def test_texts_are_ordered_by_their_bytes_and_numbers_are_as_large_as_in_a_file(db: str) -> None:
    open_store(db).close()
    with past_holdfast(db) as raw:
        rows = raw.execute(
            """select data_type, collation_name from information_schema.columns
            where table_schema = current_schema and data_type in ('text', 'character varying', 'integer', 'bigint',
              'smallint', 'numeric', 'real', 'double precision')"""
        ).fetchall()
    assert set(rows) == {("text", "C"), ("bigint", None), ("double precision", None)}


@pytest.mark.parametrize(
    "edit",
    [
        "alter table memory add column more text",
        "alter table memory alter column title drop not null",
        "drop index memory_order",
        "drop trigger chain_moved on chain",
        "alter table link drop constraint link_source_fkey",
    ],
)
def test_a_table_that_was_altered_is_told(db: str, edit: str) -> None:
    with closing(open_store(db)) as store:
        assert store.faults() == []
        with past_holdfast(db) as raw:
            raw.execute(edit)
        assert store.faults() != []


def test_words_that_were_altered_are_told(db: str) -> None:
    with holdfast.open(db) as hold, past_holdfast(db) as raw:
        hold.store(title="One", content="first")
        for edit in ("update memory_text set words = '''other''' ", "delete from memory_text"):
            raw.execute(edit)
            assert [fault.part for fault in hold.hold.store.faults()] == ["full_text"]


# Ours


@pytest.mark.parametrize("theirs", ["create table t (x int)", "create view v as select 1", "create sequence s"])
def test_a_schema_of_another_program_is_refused_untouched(db: str, theirs: str) -> None:
    with past_holdfast(db) as raw:
        raw.execute(f"create schema {schema_of(db)}")
        raw.execute(theirs)
    before = everything(db)
    with pytest.raises(errors.NotAStore, match="another program"):
        open_store(db)
    assert everything(db) == before


def test_a_table_of_migrations_that_another_program_has_is_not_taken_for_ours(db: str) -> None:
    with past_holdfast(db) as raw:
        raw.execute(f"create schema {schema_of(db)}")
        raw.execute("create table migration (number int, checksum text)")
    before = everything(db)
    with pytest.raises(errors.NotAStore):
        open_store(db)
    assert everything(db) == before


def test_a_store_of_a_later_release_is_refused_untouched(db: str) -> None:
    open_store(db).close()
    with past_holdfast(db) as raw:
        raw.execute("insert into migration values (9999, 'later', 'x', 0); create table later (x int)")
    before = everything(db)
    with pytest.raises(errors.NewerStore):
        open_store(db)
    assert everything(db) == before


def test_a_store_that_was_migrated_otherwise_is_refused_untouched(db: str) -> None:
    open_store(db).close()
    with past_holdfast(db) as raw:
        raw.execute("update migration set checksum = 'another' where number = 1")
    before = everything(db)
    with pytest.raises(errors.StoreDamaged):
        open_store(db)
    assert everything(db) == before


def test_a_store_whose_schema_is_dropped_acknowledges_nothing(db: str) -> None:
    with holdfast.open(db) as hold:
        hold.store(title="One", content="first")
        with past_holdfast(db) as raw:
            raw.execute(f"drop schema {schema_of(db)} cascade")
        with pytest.raises(errors.StoreDamaged):
            hold.store(title="Two", content="second")
        with pytest.raises(errors.StoreDamaged):
            hold.recall(context="first")


def test_two_stores_in_one_database_know_nothing_of_each_other(db: str, postgres: Postgres) -> None:
    with postgres.new_store() as other, holdfast.open(db) as one, holdfast.open(other) as two:
        one.store(title="One", content="apple")
        assert two.recall(context="apple").memories == []
        assert one.hold.store.identity() != two.hold.store.identity()


def test_a_table_of_migrations_where_pgvector_is_stays_another_programs(postgres: Postgres) -> None:
    with postgres.admin(database := postgres.new_database()) as raw:
        raw.execute("create table public.migration (number bigint, checksum text)")
        raw.execute("insert into public.migration values (99, 'theirs')")
        with holdfast.open(postgres.url(database)) as hold:
            hold.store(title="One", content="first")
            assert hold.verify().intact
        assert raw.execute("select * from public.migration").fetchall() == [(99, "theirs")]


def test_no_store_is_made_where_pgvector_is(postgres: Postgres, tmp_path: Path) -> None:
    """All others look there too, and would find its tables wherever one of their own is gone."""
    url = postgres.url(postgres.new_database())
    holdfast.open(url).close()
    with pytest.raises(errors.Misconfigured, match="schema=NAME"):
        holdfast.open(f"{url}&schema=public")
    with holdfast.open(str(tmp_path / "memory.db")) as hold, pytest.raises(errors.Misconfigured, match="schema=NAME"):
        hold.migrate(to=f"{url}&schema=public")


# Where it is


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@[::1/memory",
        f"postgresql://me:{SECRET}/memory",
        f"postgresql://me:a@{SECRET}@host/memory",
        f"postgresql://me:12/{SECRET}@host/memory",
        f"postgresql://me:a?{SECRET}@host/memory",
        f"postgresql://me:a#{SECRET}@host/memory",
        f"postgresql://me:%zz{SECRET}@host/memory",
        f"postgresql://me:{SECRET}@host/memory?no_such_option=1",
        f"postgresql://me:{SECRET}@host/memory?pool_size=0",
        f"postgresql://me:{SECRET}@host/memory?prepare=maybe",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(errors.Misconfigured) as refused:
        open_store(url)
    assert SECRET not in told(refused.value)


@pytest.fixture
def by_socket(postgres: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """libpq's own ways to say where the server is: the environment, and a file of services."""
    said = psycopg.conninfo.conninfo_to_dict(postgres.url(postgres.database))
    for variable, name in (("PGHOST", "host"), ("PGUSER", "user"), ("PGDATABASE", "dbname")):
        monkeypatch.setenv(variable, str(said[name]))
    services = tmp_path / "services.conf"
    services.write_text("".join(f"[{name}]\nport=5432\nuser={said['user']}\n" for name in ("one", "two")))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    return said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///{dbname}",
        "postgres:///{dbname}",
        "postgresql:///{dbname}?host={host}&user={user}",
        "postgresql://?dbname={dbname}",
        "postgresql:///?service=one",
        "postgresql://",
        "postgresql://{user}@/{dbname}?application_name=a+b@c",
    ],
)
def test_an_address_that_psql_takes_opens_the_same_database(url: str, by_socket: dict[str, Any], db: str) -> None:
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    own = f"schema={schema_of(db)}"
    told = url.format(**by_socket)
    with holdfast.open(f"{told}{'&' if '?' in told else '?'}{own}") as hold:
        assert hold.get(id=id).content == "first"


def test_a_service_is_shown_by_its_name() -> None:
    assert address_of("postgresql:///?service=one&schema=red", Path()).shown == "postgresql://?service=one&schema=red"


def test_what_an_option_says_reaches_libpq_as_it_stands() -> None:
    said = address_of("postgresql://?host=@abstract&password=a+b%2Bc%26d&schema=red", Path()).conninfo
    found = psycopg.conninfo.conninfo_to_dict(said)
    assert found == {"host": "@abstract", "password": "a+b+c&d"}


def test_an_option_that_nobody_knows_is_named_without_its_value() -> None:
    with pytest.raises(errors.Misconfigured, match="no option poolsize") as refused:
        open_store(f"postgresql://me:{SECRET}@host/memory?poolsize={SECRET}")
    assert SECRET not in told(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:a?{SECRET}=b@host/memory",
        f"postgresql://me@host/memory?password=a&{SECRET}=b",
        f"postgresql://me@host/memory?password=a&{SECRET}",
    ],
)
def test_what_may_be_a_piece_of_a_password_is_not_named_as_an_option(url: str) -> None:
    with pytest.raises(errors.Misconfigured) as refused:
        open_store(url)
    assert SECRET not in told(refused.value)


@pytest.mark.parametrize("option", ["connect_timeout", "keepalives_idle", "tcp_user_timeout"])
@pytest.mark.parametrize("value", ["abc", "", "1.5"])
def test_an_option_that_is_no_number_is_named(option: str, value: str) -> None:
    with pytest.raises(errors.Misconfigured, match=f"{option} .* no whole number"):
        open_store(f"postgresql://host/memory?{option}={value}")


@pytest.mark.parametrize(
    "schema", ["", "Mine", "my-own", "1st", "a" * 64, 'x"; drop schema public; --', "pg_mine", "ö"]
)
def test_a_schema_that_is_no_plain_name_is_refused(postgres: Postgres, schema: str) -> None:
    with pytest.raises(errors.Misconfigured, match="schema"):
        open_store(postgres.url(postgres.database, schema=schema))


@pytest.mark.parametrize(
    "url",
    [f"postgresql://me:{SECRET}@127.0.0.1:1/memory", f"postgresql://me:{SECRET}@no-such-host.invalid/memory"],
    ids=["no server", "no such host"],
)
def test_a_server_that_does_not_answer_is_told_without_the_password(url: str) -> None:
    with pytest.raises(errors.StoreUnreachable) as refused:
        open_store(url)
    assert SECRET not in told(refused.value)


def test_a_database_that_is_not_there_is_told(postgres: Postgres) -> None:
    with pytest.raises(errors.StoreUnreachable, match="database"):
        open_store(postgres.url("no_such_database"))


def told(error: BaseException) -> str:
    """All that can be read of an error, in a log for instance."""
    return repr(error) + "".join(traceback.format_exception(error))


# Who may


@pytest.fixture
def user(postgres: Postgres) -> Iterator[str]:
    """A user of the database that may do nothing yet."""
    name = f"user_{os.getpid()}_{time.monotonic_ns()}"
    with postgres.admin() as admin:
        admin.execute(f"create role {name} login password '{SECRET}'")
    yield name
    with postgres.admin() as admin:
        databases = [row[0] for row in admin.execute("select datname from pg_database where datallowconn").fetchall()]
    for database in databases:
        with postgres.admin(str(database)) as admin:
            admin.execute(f"drop owned by {name} cascade")
    with postgres.admin() as admin:
        admin.execute(f"drop role {name}")


@pytest.fixture
def passwords_count(postgres: Postgres, user: str) -> Iterator[None]:
    """The server asks this user for its password."""
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


def wait_until(true: Callable[[], object]) -> None:
    """The test's time limit ends it otherwise."""
    while not true():
        time.sleep(0.01)


@pytest.mark.usefixtures("passwords_count")
@pytest.mark.parametrize("password", ["", f"not {SECRET}"], ids=["none", "a wrong one"])
def test_a_wrong_password_is_told_and_not_repeated(db: str, user: str, password: str) -> None:
    with pytest.raises(errors.StoreUnreachable, match="password") as refused:
        open_store(as_user(db, user, password))
    assert SECRET not in told(refused.value)


@pytest.mark.usefixtures("passwords_count")
def test_a_password_opens_the_store_and_is_shown_nowhere(db: str, user: str) -> None:
    with past_holdfast(db) as raw:
        raw.execute(f"create schema {schema_of(db)} authorization {user}")
    address = as_user(db, user, SECRET)
    with holdfast.open(address) as hold:
        hold.store(title="One", content="first")
        store: Any = hold.hold.store
        shown = [store.path, repr(store), repr(vars(store)), str(store.beside("x")), hold.stats(), hold.doctor()]
        assert not [text for text in map(repr, shown) if SECRET in text]
        assert user in store.path


def beside(url: str) -> Path:
    with closing(open_store(url)) as store:
        return store.beside("backups")


def test_snapshots_are_in_one_folder_for_everybody_and_on_every_way_to_the_store(
    db: str, user: str, by_socket: dict[str, Any], tmp_path: Path
) -> None:
    with holdfast.open(db) as hold:
        kept = hold.backup().snapshot
    other_name = tmp_path / "socket"
    other_name.symlink_to(by_socket["host"])
    own = f"schema={schema_of(db)}"
    ways = [
        db,
        grant(db, user, READS),
        f"postgresql:///{by_socket['dbname']}?host={other_name}&{own}",
        f"postgresql:///?service=one&{own}",
        f"postgresql://?{own}",
    ]
    assert len({beside(way) for way in ways}) == 1
    assert beside(db).name.startswith(f"{by_socket['dbname']}.{schema_of(db)}-")
    for way in ways:
        with holdfast.open(way) as hold:
            assert [one.snapshot for one in hold.backup_list().snapshots] == [kept]


def test_stores_whose_names_are_alike_have_a_folder_each(
    postgres: Postgres, by_socket: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with another_database(postgres) as one, another_database(postgres) as two:
        with postgres.admin() as admin:
            admin.execute(f"alter database {two} rename to {one}_schema_b")
        urls = [postgres.url(one), postgres.url(one, schema="b"), postgres.url(f"{one}_schema_b")]
        assert len({beside(url) for url in urls}) == 3
        by_service = set()
        for database in (one, f"{one}_schema_b"):
            monkeypatch.setenv("PGDATABASE", database)
            by_service.add(beside("postgresql:///?service=one"))
        assert by_service == {beside(urls[0]), beside(urls[2])}
        with postgres.admin() as admin:
            admin.execute(f"alter database {one}_schema_b rename to {two}")


@pytest.mark.parametrize("more", [' "x', "/../y", "ö"])
def test_a_folder_is_named_plainly_whatever_the_database_is_called(postgres: Postgres, more: str) -> None:
    with another_database(postgres) as database, postgres.admin() as admin:
        rename = psycopg.sql.SQL("alter database {} rename to {}")
        plain, strange = (psycopg.sql.Identifier(name) for name in (database, f"{database}{more}"))
        admin.execute(rename.format(plain, strange))
        try:
            found = beside(postgres.url(quote(f"{database}{more}", safe="")))
        finally:
            admin.execute(rename.format(strange, plain))
    assert re.fullmatch(rf"{database}_[xy]?\.holdfast-[0-9]+-[0-9]+-[0-9]+\.backups", found.name)
    assert found.parent.name == "postgresql"


WORKS = """grant usage on schema {schema} to {user};
grant select, insert, update, delete on all tables in schema {schema} to {user};
grant usage on all sequences in schema {schema} to {user}"""
READS = "grant usage on schema {schema} to {user}; grant select on all tables in schema {schema} to {user}"


def grant(url: str, user: str, rights: str) -> str:
    with past_holdfast(url) as raw:
        raw.execute(rights.format(schema=schema_of(url), user=user))
    return as_user(url, user)


def test_a_user_that_may_only_work_with_the_rows_can_do_everything(db: str, user: str) -> None:
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
        assert hold.hold.store.faults() == []


def test_a_user_that_may_only_read_reads_and_is_told_when_it_writes(db: str, user: str) -> None:
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    with holdfast.open(grant(db, user, READS)) as hold:
        assert [memory.id for memory in hold.recall(context="first").memories] == [id]
        assert hold.get(id=id).title == "One"
        assert len(hold.events(after=0).events) == 1
        for write in (lambda: hold.store(title="Two", content="x"), lambda: hold.delete(id=id)):
            with pytest.raises(errors.StoreUnreachable, match="may not"):
                write()
    with holdfast.open(db) as hold:
        assert hold.stats().total == 1


def test_a_replica_reads_and_is_told_when_it_writes(db: str, user: str) -> None:
    """As far as one who writes is concerned: a database that is set to be read only answers in the same way."""
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    reads_only = f"{grant(db, user, WORKS)}&options=-c%20default_transaction_read_only%3Don"
    with holdfast.open(reads_only) as hold:
        assert hold.get(id=id).title == "One"
        with pytest.raises(errors.StoreUnreachable, match="takes no changes"):
            hold.store(title="Two", content="x")


def test_a_user_that_may_not_make_the_tables_is_told_who_may(db: str, user: str) -> None:
    with pytest.raises(errors.StoreUnreachable, match="as the owner of the schema"):
        open_store(as_user(db, user))
    with past_holdfast(db) as raw:
        assert raw.execute("select to_regnamespace(%s)", (schema_of(db),)).fetchall() == [(None,)]


def test_a_user_without_any_right_is_told(db: str, user: str) -> None:
    open_store(db).close()
    with pytest.raises(errors.StoreUnreachable, match="may not"):
        open_store(as_user(db, user))


# What it needs


@contextmanager
def another_database(postgres: Postgres, more: str = "") -> Iterator[str]:
    name = f"other_{os.getpid()}_{time.monotonic_ns()}"
    with postgres.admin() as admin:
        admin.execute(f"create database {name} {more}")
        try:
            yield name
        finally:
            admin.execute(f"drop database {name} with (force)")


def test_a_user_that_may_not_switch_pgvector_on_is_told_how(postgres: Postgres, user: str) -> None:
    with another_database(postgres) as database:
        url = as_user(postgres.url(database), user)
        with pytest.raises(errors.StoreUnreachable, match="create extension vector"):
            open_store(url)
        with postgres.admin(database) as admin:
            admin.execute(f"create extension vector; create schema holdfast authorization {user}")
        open_store(url).close()


def test_a_server_without_pgvector_is_told_where_to_get_it(postgres: Postgres) -> None:
    with another_database(postgres) as database:
        with postgres.admin() as admin:
            admin.execute(f"alter database {database} set extension_control_path = '/nowhere'")
        with pytest.raises(errors.StoreUnreachable, match="install it there"):
            open_store(postgres.url(database))


@pytest.mark.parametrize("name", ["extensions", 'We ird"x', "a'; --%s"])
def test_pgvector_may_be_in_a_schema_of_its_own(postgres: Postgres, name: str) -> None:
    with another_database(postgres) as database:
        with postgres.admin(database) as admin:
            own = psycopg.sql.Identifier(name)
            admin.execute(psycopg.sql.SQL("create schema {0}; create extension vector schema {0}").format(own))
        with holdfast.open(postgres.url(database)) as hold:
            hold.store(title="One", content="first")
            assert len(hold.recall(context="first").memories) == 1
            assert hold.hold.store.faults() == []


def test_a_database_that_is_not_encoded_in_utf8_is_refused_untouched(postgres: Postgres) -> None:
    ascii = "encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0"
    with another_database(postgres, ascii) as database:
        with pytest.raises(errors.StoreUnreachable, match="UTF8"):
            open_store(postgres.url(database))
        with postgres.admin(database) as admin:
            assert admin.execute("select to_regnamespace('holdfast')").fetchall() == [(None,)]


# Migrations


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes this the release after, with one more migration; tells the folder that it is in."""

    def next_release(script: str) -> Path:
        folder = tmp_path / "next"
        (folder / "migrations").mkdir(parents=True, exist_ok=True)
        (folder / "migrations" / "9000_next.sql").write_text(script)
        monkeypatch.setattr(opening, "FOLDERS", (*postgres_engine.FOLDERS, folder))
        return folder

    return next_release


def applied(url: str) -> tuple[bool, set[str]]:
    """Whether the migration is recorded, and which of the tables are there."""
    with past_holdfast(url) as raw:
        found = "select relname from pg_class where relname = any(%s) and relnamespace = to_regnamespace(%s)"
        rows = raw.execute(found, (["memory", "later", "last"], schema_of(url))).fetchall()
        tables = {str(name) for (name,) in rows}
        recorded = raw.execute("select 1 from migration where number = 9000").fetchall() if tables else []
        return bool(recorded), tables


LATER = "create table later (\n  x text not null\n);\n"


def test_a_later_migration_is_applied_once(db: str, release: Callable[[str], Path]) -> None:
    with holdfast.open(db) as hold:
        kept = hold.store(title="Before", content="the migration").id
    release(LATER)
    for _ in range(2):
        with holdfast.open(db) as hold:
            assert hold.get(id=kept).content == "the migration"
    assert applied(db) == (True, {"memory", "later"})


def test_a_migration_that_fails_leaves_the_store_as_it_was(db: str, release: Callable[[str], Path]) -> None:
    open_store(db).close()
    before = everything(db)
    release(LATER + "insert into no_such_table values (1);\n")
    with pytest.raises(errors.StoreError):
        open_store(db)
    assert everything(db) == before


def test_a_user_that_may_not_migrate_is_told_who_may(db: str, user: str, release: Callable[[str], Path]) -> None:
    open_store(db).close()
    release(LATER)
    with pytest.raises(errors.StoreUnreachable, match="as the owner of the schema"):
        open_store(grant(db, user, WORKS))
    assert applied(db) == (False, {"memory"})


@pytest.mark.parametrize("before", ["a new store", "a store of the release before"])
def test_servers_that_open_a_store_at_once_migrate_it_once(
    db: str, release: Callable[[str], Path], before: str
) -> None:
    if before != "a new store":
        open_store(db).close()
    release(LATER + "insert into later values ('once');\n")
    assert at_once(8, lambda number: open_store(db).close()) == [{"answer": None}] * 8
    with past_holdfast(db) as raw:
        assert raw.execute("select x from later").fetchall() == [("once",)]
    assert applied(db) == (True, {"memory", "later"})


OPEN = """
import sys
from pathlib import Path
from holdfast.storage.locate import open_store
from holdfast.storage.postgres import engine, opening
opening.FOLDERS = (*engine.FOLDERS, Path(sys.argv[2]))
open_store(sys.argv[1]).close()
"""


def opener(url: str, folder: Path) -> "subprocess.Popen[bytes]":
    """A process that opens a store by the release after this one."""
    return subprocess.Popen([sys.executable, "-c", OPEN, url, str(folder)])


@pytest.mark.parametrize("before", ["a new store", "a store of the release before"])
def test_a_process_killed_within_a_migration_leaves_nothing_of_it(
    db: str, postgres: Postgres, release: Callable[[str], Path], before: str
) -> None:
    if before != "a new store":
        open_store(db).close()
    was = applied(db)
    folder = release(LATER + "select pg_sleep(1) /* within */;\n" + LATER.replace("later", "last"))
    process = opener(db, folder)
    backends = "select pid from pg_stat_activity where query like '%/* within */%' and pid <> pg_backend_pid()"
    with postgres.admin() as admin:
        wait_until(lambda: admin.execute(backends).fetchall())
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not admin.execute(backends).fetchall())
    assert applied(db) == was
    open_store(db).close()
    assert applied(db) == (True, {"memory", "later", "last"})


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_the_old_store_or_the_new_one(
    postgres: Postgres, release: Callable[[str], Path]
) -> None:
    """At moments spread over the whole of it, so that some fall before, some within and some after."""
    folder = release(LATER + "select pg_sleep(0.1);\n" + LATER.replace("later", "last"))
    random, states = Random(2), []
    with postgres.new_store() as measured:
        begun = time.monotonic()
        opener(measured, folder).wait()
        lasts = time.monotonic() - begun
    for _ in range(12):
        with postgres.new_store() as url:
            process = opener(url, folder)
            time.sleep(lasts * random.uniform(0.5, 1.0))
            process.send_signal(signal.SIGKILL)
            process.wait()
            states.append(applied(url))
            open_store(url).close()
            assert applied(url) == (True, {"memory", "later", "last"})
    assert all(state in ((False, set()), (True, {"memory", "later", "last"})) for state in states), states
    assert (False, set()) in states


def test_a_store_that_others_have_open_goes_on_after_a_migration(db: str, release: Callable[[str], Path]) -> None:
    with holdfast.open(db) as old:
        for number in range(12):
            old.store(title=f"Before {number}", content="the migration")
        release("alter table memory add column later bigint;\n")
        with holdfast.open(db) as new:
            new.store(title="New", content="After the migration")
        old.store(title="Old", content="after the migration")
        assert old.stats().total == 14


def test_a_store_may_be_opened_while_another_writes(opened: Callable[[], Store]) -> None:
    with opened().writing() as session:
        session.do("kept_put", name="colour", body="blue")
        other = opened()
        with other.reading() as reading:
            assert reading.rows("kept_all") == []

"""Opening a schema: ours is created all or nothing; others are not changed."""

from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from schemas import another_database, as_user, catalog, everything, schema_of

import holdfast
from engines import Postgres, raw_connection
from holdfast.kernel import errors
from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.postgres import engine as postgres_engine


@pytest.fixture
def engine() -> str:
    return "postgres"


def test_an_empty_schema_becomes_a_store(db: str) -> None:
    with raw_connection(db) as raw:
        raw.execute(f"create schema {schema_of(db)}")
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    with holdfast.open(db) as hold:
        assert hold.get(id=id).content == "first"


def test_a_store_is_the_sum_of_its_migrations(db: str, postgres: Postgres) -> None:
    open_store(db).close()
    with postgres.new_store() as other, raw_connection(other) as raw:
        raw.execute(f"create schema {schema_of(other)}")
        raw.execute(migrations.to_postgres(migrations.TABLE + ";"))
        for migration in migrations.load_migrations(*postgres_engine.FOLDERS):
            raw.execute(migrations.to_postgres(migration.script))
        step_by_step = catalog(raw, schema_of(other))
        opened = catalog(raw, schema_of(db))
    assert opened == step_by_step
    assert len(opened) > 150


def test_texts_are_ordered_by_bytes_and_numbers_have_the_same_range_as_in_a_file(db: str) -> None:
    open_store(db).close()
    with raw_connection(db) as raw:
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
        "drop trigger journal_head_moved on journal_head",
        "alter table link drop constraint link_source_fkey",
    ],
)
def test_an_altered_table_is_reported(db: str, edit: str) -> None:
    with closing(open_store(db)) as store:
        assert store.faults() == []
        with raw_connection(db) as raw:
            raw.execute(edit)
        assert store.faults() != []


def test_altered_search_terms_are_reported(db: str) -> None:
    with holdfast.open(db) as hold, raw_connection(db) as raw:
        hold.store(title="One", content="first")
        for edit in ("update memory_text set words = '''other''' ", "delete from memory_text"):
            raw.execute(edit)
            assert [fault.part for fault in hold.ctx.store.faults()] == ["full_text"]


@pytest.mark.parametrize("theirs", ["create table t (x int)", "create view v as select 1", "create sequence s"])
def test_a_schema_of_another_program_is_refused_unchanged(db: str, theirs: str) -> None:
    with raw_connection(db) as raw:
        raw.execute(f"create schema {schema_of(db)}")
        raw.execute(theirs)
    before = everything(db)
    with pytest.raises(errors.NotAStore, match="another program"):
        open_store(db)
    assert everything(db) == before


def test_a_migration_table_of_another_program_is_not_mistaken_for_ours(db: str) -> None:
    with raw_connection(db) as raw:
        raw.execute(f"create schema {schema_of(db)}")
        raw.execute("create table migration (number int, checksum text)")
    before = everything(db)
    with pytest.raises(errors.NotAStore):
        open_store(db)
    assert everything(db) == before


def test_a_store_of_a_later_release_is_refused_unchanged(db: str) -> None:
    open_store(db).close()
    with raw_connection(db) as raw:
        raw.execute("insert into migration values (9999, 'later', 'x', 0); create table later (x int)")
    before = everything(db)
    with pytest.raises(errors.NewerStore):
        open_store(db)
    assert everything(db) == before


def test_a_store_with_other_migrations_is_refused_unchanged(db: str) -> None:
    open_store(db).close()
    with raw_connection(db) as raw:
        raw.execute("update migration set checksum = 'another' where number = 1")
    before = everything(db)
    with pytest.raises(errors.StoreDamaged):
        open_store(db)
    assert everything(db) == before


def test_a_store_with_a_dropped_schema_acknowledges_nothing(db: str) -> None:
    with holdfast.open(db) as hold:
        hold.store(title="One", content="first")
        with raw_connection(db) as raw:
            raw.execute(f"drop schema {schema_of(db)} cascade")
        with pytest.raises(errors.StoreDamaged):
            hold.store(title="Two", content="second")
        with pytest.raises(errors.StoreDamaged):
            hold.recall(context="first")


def test_two_stores_in_one_database_are_independent(db: str, postgres: Postgres) -> None:
    with postgres.new_store() as other, holdfast.open(db) as one, holdfast.open(other) as two:
        one.store(title="One", content="apple")
        assert two.recall(context="apple").memories == []
        assert one.ctx.store.identity() != two.ctx.store.identity()


def test_a_foreign_migration_table_in_the_schema_of_pgvector_is_untouched(postgres: Postgres) -> None:
    with postgres.admin(database := postgres.new_database()) as raw:
        raw.execute("create table public.migration (number bigint, checksum text)")
        raw.execute("insert into public.migration values (99, 'theirs')")
        with holdfast.open(postgres.url(database)) as hold:
            hold.store(title="One", content="first")
            assert hold.verify().intact
        assert raw.execute("select * from public.migration").fetchall() == [(99, "theirs")]


def test_no_store_is_created_in_the_schema_of_pgvector(postgres: Postgres, tmp_path: Path) -> None:
    """All stores search that schema too, and would find its tables in place of missing ones."""
    url = postgres.url(postgres.new_database())
    holdfast.open(url).close()
    with pytest.raises(errors.InvalidSetting, match="schema=NAME"):
        holdfast.open(f"{url}&schema=public")
    with holdfast.open(str(tmp_path / "memory.db")) as hold, pytest.raises(errors.InvalidSetting, match="schema=NAME"):
        hold.migrate(to=f"{url}&schema=public")


def test_a_user_without_the_right_to_enable_pgvector_is_told_how(postgres: Postgres, user: str) -> None:
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
def test_pgvector_can_be_in_its_own_schema(postgres: Postgres, name: str) -> None:
    with another_database(postgres) as database:
        with postgres.admin(database) as admin:
            own = psycopg.sql.Identifier(name)
            admin.execute(psycopg.sql.SQL("create schema {0}; create extension vector schema {0}").format(own))
        with holdfast.open(postgres.url(database)) as hold:
            hold.store(title="One", content="first")
            assert len(hold.recall(context="first").memories) == 1
            assert hold.ctx.store.faults() == []


def test_a_database_with_another_encoding_than_utf8_is_refused_unchanged(postgres: Postgres) -> None:
    ascii = "encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0"
    with another_database(postgres, ascii) as database:
        with pytest.raises(errors.StoreUnreachable, match="UTF8"):
            open_store(postgres.url(database))
        with postgres.admin(database) as admin:
            assert admin.execute("select to_regnamespace('holdfast')").fetchall() == [(None,)]

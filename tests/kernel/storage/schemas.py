"""Inspect PostgreSQL schemas directly."""

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

from engines import Postgres, raw_connection
from holdfast.kernel.storage.postgres.address import parse_address

Raw = psycopg.Connection[tuple[Any, ...]]
SECRET = "kept-to-itself-7351"


def schema_of(url: str) -> str:
    return parse_address(url, Path()).schema


def as_user(url: str, user: str, password: str = "") -> str:
    """Return the address for another database user."""
    parts = urlsplit(url)
    login = quote(user) + (f":{quote(password, safe='')}" if password else "")
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))


def catalog(raw: Raw, schema: str) -> set[tuple[str, ...]]:
    """Return all definitions in a schema, without its name."""
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
    """Return the definitions and all rows of a schema."""
    with raw_connection(url) as raw:
        defined = catalog(raw, schema_of(url))
        tables = sorted(entry[1] for entry in defined if entry[0] == "relation" and entry[2] == "r")
        return defined, {table: sorted(raw.execute(f'select * from "{table}"').fetchall(), key=str) for table in tables}


def describe_error(error: BaseException) -> str:
    """Return everything readable in an error, as in a log."""
    return repr(error) + "".join(traceback.format_exception(error))


@contextmanager
def another_database(postgres: Postgres, more: str = "") -> Iterator[str]:
    name = f"other_{os.getpid()}_{time.monotonic_ns()}"
    with postgres.admin() as admin:
        admin.execute(f"create database {name} {more}")
        try:
            yield name
        finally:
            admin.execute(f"drop database {name} with (force)")


WORKS = """grant usage on schema {schema} to {user};
grant select, insert, update, delete on all tables in schema {schema} to {user};
grant usage on all sequences in schema {schema} to {user}"""
READS = "grant usage on schema {schema} to {user}; grant select on all tables in schema {schema} to {user}"


def grant(url: str, user: str, rights: str) -> str:
    with raw_connection(url) as raw:
        raw.execute(rights.format(schema=schema_of(url), user=user))
    return as_user(url, user)

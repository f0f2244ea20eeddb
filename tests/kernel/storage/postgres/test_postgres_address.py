"""Database addresses: all forms that psql accepts, and no password in any message."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from schemas import READS, SECRET, another_database, describe_error, grant, schema_of

import holdfast
from engines import Postgres
from holdfast.kernel import errors
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.postgres.address import parse_address


@pytest.fixture
def engine() -> str:
    return "postgres"


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
def test_an_unreadable_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(errors.InvalidSetting) as refused:
        open_store(url)
    assert SECRET not in describe_error(refused.value)


@pytest.fixture
def by_socket(postgres: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Configure the server by libpq's environment variables and a service file."""
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
def test_an_address_valid_for_psql_opens_the_same_database(url: str, by_socket: dict[str, Any], db: str) -> None:
    with holdfast.open(db) as hold:
        id = hold.store(title="One", content="first").id
    own = f"schema={schema_of(db)}"
    told = url.format(**by_socket)
    with holdfast.open(f"{told}{'&' if '?' in told else '?'}{own}") as hold:
        assert hold.get(id=id).content == "first"


def test_a_service_is_displayed_by_its_name() -> None:
    assert (
        parse_address("postgresql:///?service=one&schema=red", Path()).display == "postgresql://?service=one&schema=red"
    )


def test_option_values_reach_libpq_unchanged() -> None:
    said = parse_address("postgresql://?host=@abstract&password=a+b%2Bc%26d&schema=red", Path()).conninfo
    found = psycopg.conninfo.conninfo_to_dict(said)
    assert found == {"host": "@abstract", "password": "a+b+c&d"}


def test_an_unknown_option_is_named_without_its_value() -> None:
    with pytest.raises(errors.InvalidSetting, match="Unknown option poolsize") as refused:
        open_store(f"postgresql://me:{SECRET}@host/memory?poolsize={SECRET}")
    assert SECRET not in describe_error(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:a?{SECRET}=b@host/memory",
        f"postgresql://me@host/memory?password=a&{SECRET}=b",
        f"postgresql://me@host/memory?password=a&{SECRET}",
    ],
)
def test_a_possible_piece_of_a_password_is_not_named_as_an_option(url: str) -> None:
    with pytest.raises(errors.InvalidSetting) as refused:
        open_store(url)
    assert SECRET not in describe_error(refused.value)


@pytest.mark.parametrize("option", ["connect_timeout", "keepalives_idle", "tcp_user_timeout"])
@pytest.mark.parametrize("value", ["abc", "", "1.5"])
def test_a_non_numeric_option_is_named(option: str, value: str) -> None:
    with pytest.raises(errors.InvalidSetting, match=f"{option} .* must be an integer"):
        open_store(f"postgresql://host/memory?{option}={value}")


@pytest.mark.parametrize(
    "schema", ["", "Mine", "my-own", "1st", "a" * 64, 'x"; drop schema public; --', "pg_mine", "ö"]
)
def test_an_unusual_schema_name_is_refused(postgres: Postgres, schema: str) -> None:
    with pytest.raises(errors.InvalidSetting, match="schema"):
        open_store(postgres.url(postgres.database, schema=schema))


@pytest.mark.parametrize(
    "url",
    [f"postgresql://me:{SECRET}@127.0.0.1:1/memory", f"postgresql://me:{SECRET}@no-such-host.invalid/memory"],
    ids=["no server", "no such host"],
)
def test_an_unresponsive_server_is_reported_without_the_password(url: str) -> None:
    with pytest.raises(errors.StoreUnreachable) as refused:
        open_store(url)
    assert SECRET not in describe_error(refused.value)


def test_a_missing_database_is_reported(postgres: Postgres) -> None:
    with pytest.raises(errors.StoreUnreachable, match="database"):
        open_store(postgres.url("no_such_database"))


def beside(url: str) -> Path:
    with closing(open_store(url)) as store:
        return store.sidecar_path("backups")


def test_snapshots_have_one_folder_for_every_user_and_address_of_the_store(
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


def test_stores_with_similar_names_have_separate_folders(
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
def test_a_folder_has_a_plain_name_for_any_database_name(postgres: Postgres, more: str) -> None:
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

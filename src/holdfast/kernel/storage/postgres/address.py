"""Parse the address of a database."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from holdfast.kernel.errors import InvalidSetting

DEFAULT_SCHEMA = "holdfast"
DEFAULT_POOL_SIZE = 10
MIN_POOL_SIZE = 2
"""A write may read through a second connection."""
WAIT_SECONDS = 10.0
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_OWN = ("schema", "pool_size", "prepare")
_NUMBERS = (
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)
"""Integer options that libpq checks only when it connects."""
_UNREADABLE = (
    "The database address is not valid: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE; "
    "in a password, write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, & as %26 and % as %25."
)


class Address(NamedTuple):
    """A database, a schema in it, and connection options."""

    conninfo: str
    """For the driver. May contain a password and is never shown."""
    display: str
    """For people, without a password."""
    schema: str
    pool_size: int
    use_prepared: bool
    folder: Path
    """Folder for the local files of stores, each under the store's name."""
    wait_seconds: float = WAIT_SECONDS
    vector_schema: str = "public"
    """Schema of pgvector's types."""

    def __repr__(self) -> str:
        return self.display

    @property
    def path_setting(self) -> str:
        return f"set local search_path = {_quote(self.schema)}, {_quote(self.vector_schema)}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def parse_address(url: str, data: Path) -> Address:
    """Parse a PostgreSQL URL with our options `schema`, `pool_size` and `prepare` in addition to libpq's."""
    try:
        given, known, conninfo = _parse_url(url)
    except (psycopg.Error, ValueError):
        # libpq's message may repeat a part of it.
        raise InvalidSetting(_UNREADABLE) from None
    schema, pool_size = given.get("schema", DEFAULT_SCHEMA), given.get("pool_size", str(DEFAULT_POOL_SIZE))
    prepare = given.get("prepare", "on")
    if not _NAME.fullmatch(schema):
        raise InvalidSetting(
            "schema in the database address: use lower-case letters, digits and _, not starting with pg_"
        )
    if not pool_size.isascii() or not pool_size.isdigit() or not MIN_POOL_SIZE <= int(pool_size) <= 1000:
        raise InvalidSetting(f"pool_size in the database address: must be {MIN_POOL_SIZE} to 1000")
    if prepare not in ("on", "off"):
        raise InvalidSetting("prepare in the database address: must be on or off")
    shown = _display_url(known, schema)
    return Address(conninfo, shown, schema, int(pool_size), prepare == "on", data / "postgresql")


def _parse_url(url: str) -> tuple[dict[str, str], Mapping[str, object], str]:
    """Split a URL into our options, libpq's parsed options, and the driver's connection string."""
    parts = urlsplit(url)
    if parts.netloc.count("@") > 1 or "@" in parts.path + parts.fragment:
        raise ValueError("an unescaped password would be parsed as a host or a database")
    where, _, query = url.partition("?")
    options = [(part.partition("=")[0], part) for part in query.split("&") if part]
    _check_options([name for name, _ in options], query)
    own = {name: unquote(part.partition("=")[2]) for name, part in options if name in _OWN}
    # libpq parses everything before an @ as a user, even here.
    theirs = "&".join(part for name, part in options if name not in _OWN).replace("@", "%40")
    conninfo = f"{where}?{theirs}" if theirs else where
    known = conninfo_to_dict(conninfo)
    if not re.fullmatch(r"[0-9,]*", str(known.get("port") or "")):
        raise ValueError("a password without a host would be parsed as a port")
    for name in _NUMBERS:
        if not re.fullmatch(r"-?[0-9]{1,9}", str(known.get(name, 0))):
            raise InvalidSetting(f"{name} in the database address: must be an integer")
    return own, known, conninfo


def _check_options(names: Sequence[str], query: str) -> None:
    """Raise for an unknown option; name it unless it may be part of a password."""
    known = {*_OWN, "ssl", *(option.keyword.decode() for option in pq.Conninfo.get_defaults())}
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return
    if "@" in query or any("password" in name or "secret" in name for name in names):
        raise InvalidSetting(f"{_UNREADABLE} Or one of its options is unknown.")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", unknown):
        raise InvalidSetting(_UNREADABLE)
    raise InvalidSetting(
        f"Unknown option {unknown} in the database address: use libpq's options, or {', '.join(_OWN)}."
    )


def _display_url(known: Mapping[str, object], schema: str) -> str:
    user, host, port, database = (known.get(name) for name in ("user", "host", "port", "dbname"))
    at = "".join(
        (f"{user}@" if user else "", str(host or ""), f":{port}" if port else "", f"/{database}" if database else "")
    )
    service, own = known.get("service"), None if schema == DEFAULT_SCHEMA else schema
    more = "&".join(f"{name}={value}" for name, value in (("service", service), ("schema", own)) if value)
    return f"postgresql://{at}" + (f"?{more}" if more else "")

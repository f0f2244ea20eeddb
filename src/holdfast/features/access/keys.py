"""API keys: limit a caller to a right, namespaces and an agent until revoked."""

import re
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.context import ALL_NAMESPACES, Caller, Context, Right, validate_agent_id
from holdfast.kernel.errors import Forbidden, Invalid, NotFound
from holdfast.kernel.records import validate
from holdfast.kernel.records.fields import Agent, Named, Timestamp
from holdfast.kernel.storage.port import Row, Session

ANY_AGENT = "*"
"""Agent of a key that takes the agent from the request."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_NAMESPACES = 32


class Key(Struct, frozen=True):
    """A key without its secret, of which only a hash is stored."""

    id: str
    name: str
    right: Annotated[Right, Named("scope")]
    namespaces: list[str]
    agent: Agent
    created_at: Timestamp
    revoked_at: Timestamp | None = None


def key_of(row: Row) -> Key:
    id, name, right, namespaces, *rest = row
    return Key(id, name, right, msgspec.json.decode(namespaces), *rest)


def new_secret() -> str:
    """Generate a random secret."""
    return "hf_" + secrets.token_urlsafe(32)


def create(
    ctx: Context, name: str, right: Right, namespaces: Iterable[str] = ALL_NAMESPACES, agent: str | None = None
) -> tuple[Key, str]:
    """Create a key; return it with its secret, which is not stored. A key never reaches further than its creator."""
    if not _NAME.fullmatch(name):
        raise Invalid("name: 1 to 64 letters, digits or _ . -", fields=["name"])
    paths = validate_paths(namespaces)
    if not covers_namespaces(ctx.caller, paths):
        raise Forbidden("namespaces: a key cannot reach namespaces that its creator does not reach")
    speaks_as = agent or f"key:{name}"
    if speaks_as != ANY_AGENT:
        validate_agent_id(speaks_as)
    if "*" not in ctx.caller.namespaces:
        require_own_agent(ctx, speaks_as)
    secret = new_secret()
    key = Key(ctx.new_id(), name, right, list(paths), speaks_as, ctx.now())
    with ctx.transaction() as write:
        write.session.do(
            "key_add",
            id=key.id,
            name=name,
            hash=hash_secret(secret),
            access_right=right,
            namespaces=msgspec.json.encode(paths).decode(),
            agent=speaks_as,
            created_at=key.created_at,
        )
    return key, secret


def require_own_agent(ctx: Context, agent: str) -> None:
    """Raise unless the agent is the caller or new: a key with limited namespaces cannot impersonate other agents."""
    if agent == ctx.caller.agent:
        return
    with ctx.reading() as session:
        key_agents = {key_of(row).agent for row in session.rows("key_list")}
        is_known = session.row("agent_get", id=agent) or session.row("journal_last_change_of", actor=agent)
        messages = session.rows("notice_list", recipient=agent, limit=1)
    if agent == ANY_AGENT or agent in key_agents or is_known or messages:
        raise Forbidden(f"agent_id: this key cannot create a key for the agent {agent!r}.")


def validate_paths(namespaces: Iterable[str]) -> tuple[str, ...]:
    """Convert namespace patterns to paths: `team` and `team/*` both mean `team` and everything below."""
    paths = tuple(
        dict.fromkeys(
            path if path == "*" else validate.namespace(path.removesuffix("/*"), "namespaces") for path in namespaces
        )
    )
    if not paths or len(paths) > MAX_NAMESPACES:
        raise Invalid(f"namespaces: must have 1 to {MAX_NAMESPACES} entries", fields=["namespaces"])
    if any("*" in path and path != "*" for path in paths):
        raise Invalid("namespaces: * is allowed only alone or after a final /", fields=["namespaces"])
    return ALL_NAMESPACES if "*" in paths else paths


def covers_namespaces(caller: Caller, namespaces: Iterable[str]) -> bool:
    """Return whether the caller reaches all of these namespaces."""
    return "*" in caller.namespaces or all(path != "*" and caller.can_access(path) for path in namespaces)


def list_keys(ctx: Context, session: Session) -> list[Key]:
    """List the keys that reach no further than the caller, oldest first."""
    keys = [key_of(row) for row in session.rows("key_list")]
    return [key for key in keys if covers_namespaces(ctx.caller, key.namespaces)]


def revoke(ctx: Context, id: str) -> Key:
    """Revoke a key; it is invalid when this returns."""
    with ctx.transaction() as write:
        found = next((key for key in list_keys(ctx, write.session) if key.id == id and key.revoked_at is None), None)
        if found is None:
            raise NotFound(f"No active key {id!r}.", id=id)
        write.session.do("key_revoke", id=id, now=write.now)
    return replace(found, revoked_at=write.now)


def hash_secret(secret: str) -> bytes:
    """Hash a secret. It has 256 random bits, so it needs no salt or slow hash."""
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def has_active_key(session: Session) -> bool:
    row = session.row("key_active")
    return row is not None and row[0] > 0


def has_any_key(session: Session) -> bool:
    """Return whether a key was ever created: from then on one is required, even if all are revoked."""
    row = session.row("key_count")
    return row is not None and row[0] > 0


def caller_of(key: Key, source: str) -> Caller:
    """Return the caller for a key. A key for any agent is not bound to one."""
    agent = f"key:{key.name}" if key.agent == ANY_AGENT else key.agent
    return Caller(
        agent=agent,
        right=key.right,
        namespaces=tuple(key.namespaces),
        key=key.id,
        has_fixed_agent=key.agent != ANY_AGENT,
        source=source,
    )


def find_key(session: Session, secret: str) -> Key | None:
    """Return the active key with this secret. Lookup by hash, so timing reveals nothing about the secret."""
    row = session.row("key_by_hash", hash=hash_secret(secret))
    key = key_of(row) if row else None
    return key if key is not None and key.revoked_at is None else None

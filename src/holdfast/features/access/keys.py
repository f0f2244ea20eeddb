"""Keys: who holds one may do what it says, nowhere else and not for a moment longer."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

import msgspec

from holdfast.kernel.caller import ALL_NAMESPACES, Caller, Right, admit_agent
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden, Invalid, NotFound
from holdfast.kernel.records import validate as admit
from holdfast.kernel.storage.port import Row, Session

ANY_AGENT = "*"
"""As a key's agent: whoever the request says it is."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MOST_NAMESPACES = 32


class Key(NamedTuple):
    """A key as the store knows it: the secret itself is nowhere."""

    id: str
    name: str
    right: Right
    namespaces: tuple[str, ...]
    agent: str
    created_at: int
    revoked_at: int | None


def key_of(row: Row) -> Key:
    id, name, right, namespaces, *rest = row
    return Key(id, name, right, tuple(msgspec.json.decode(namespaces)), *rest)


def new_secret() -> str:
    """What nobody can guess."""
    import secrets

    return "hf_" + secrets.token_urlsafe(32)


def create(
    hold: Hold, name: str, right: Right, namespaces: Iterable[str] = ALL_NAMESPACES, agent: str | None = None
) -> tuple[Key, str]:
    """A new key and its secret, which cannot be read again. No key reaches further than who makes it."""
    if not _NAME.fullmatch(name):
        raise Invalid("name: 1 to 64 letters, digits or _ . -", fields=["name"])
    paths = admit_paths(namespaces)
    if not within(hold.caller, paths):
        raise Forbidden("A key cannot reach namespaces that its maker does not.")
    speaks_as = agent or f"key:{name}"
    if speaks_as != ANY_AGENT:
        admit_agent(speaks_as)
    if "*" not in hold.caller.namespaces:
        must_be_own(hold, speaks_as)
    secret = new_secret()
    key = Key(hold.new_id(), name, right, paths, speaks_as, hold.now(), None)
    with hold.writing() as write:
        write.session.do(
            "key_add",
            id=key.id,
            name=name,
            hash=hash_of(secret),
            access_right=right,
            namespaces=msgspec.json.encode(paths).decode(),
            agent=speaks_as,
            created_at=key.created_at,
        )
    return key, secret


def must_be_own(hold: Hold, agent: str) -> None:
    """A maker that is confined to some namespaces speaks for itself or for a new agent, not for one of elsewhere."""
    if agent == hold.caller.agent:
        return
    with hold.reading() as session:
        taken = {key_of(row).agent for row in session.rows("key_list")}
        known = session.row("agent_get", id=agent) or session.row("journal_seen_last", actor=agent)
        told = session.rows("notice_list", recipient=agent, limit=1)
    if agent == ANY_AGENT or agent in taken or known or told:
        raise Forbidden(f"This key cannot make one that speaks as {agent!r}.")


def admit_paths(namespaces: Iterable[str]) -> tuple[str, ...]:
    """Namespace patterns as paths: `team` and `team/*` both mean `team` and what lies below."""
    paths = tuple(
        dict.fromkeys(
            path if path == "*" else admit.namespace(path.removesuffix("/*"), "namespaces") for path in namespaces
        )
    )
    if not paths or len(paths) > MOST_NAMESPACES:
        raise Invalid(f"namespaces: 1 to {MOST_NAMESPACES} of them", fields=["namespaces"])
    if any("*" in path and path != "*" for path in paths):
        raise Invalid("namespaces: a * stands alone, or at the end after a /", fields=["namespaces"])
    return ALL_NAMESPACES if "*" in paths else paths


def within(caller: Caller, namespaces: Iterable[str]) -> bool:
    """Whether a caller reaches all that a key does."""
    return "*" in caller.namespaces or all(path != "*" and caller.reaches(path) for path in namespaces)


def every(hold: Hold, session: Session) -> list[Key]:
    """The keys that reach no further than the caller, oldest first."""
    keys = [key_of(row) for row in session.rows("key_list")]
    return [key for key in keys if within(hold.caller, key.namespaces)]


def revoke(hold: Hold, id: str) -> Key:
    """End a key: from the moment that this returns it opens nothing."""
    with hold.writing() as write:
        found = next((key for key in every(hold, write.session) if key.id == id and key.revoked_at is None), None)
        if found is None:
            raise NotFound(f"There is no active key {id!r}.", id=id)
        write.session.do("key_revoke", id=id, now=write.now)
    return found._replace(revoked_at=write.now)


def hash_of(secret: str) -> bytes:
    """What is kept of a secret. It is 256 random bits, so that no salt or slow hash is needed."""
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def any_active(session: Session) -> bool:
    row = session.row("key_active")
    return row is not None and row[0] > 0


def any_made(session: Session) -> bool:
    """Whether there ever was a key: from then on one is needed, whatever became of it."""
    row = session.row("key_count")
    return row is not None and row[0] > 0


def caller_of(key: Key, source: str) -> Caller:
    """Whom a key makes of who holds it. One that leaves its agent open is bound to none."""
    agent = f"key:{key.name}" if key.agent == ANY_AGENT else key.agent
    return Caller(
        agent=agent, right=key.right, namespaces=key.namespaces, key=key.id, bound=key.agent != ANY_AGENT, source=source
    )


def opened_by(session: Session, secret: str) -> Key | None:
    """The active key with this secret. It is looked up by its hash, so that time tells nothing of the secret."""
    row = session.row("key_by_hash", hash=hash_of(secret))
    key = key_of(row) if row else None
    return key if key is not None and key.revoked_at is None else None

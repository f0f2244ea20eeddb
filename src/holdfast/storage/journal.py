"""The journal: one append-only, hash-chained table that is history, audit trail and feed at once."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from ..domain.errors import StoreDamaged
from . import signer
from .port import Session, Store

GENESIS = b""


class Entry(NamedTuple):
    """One committed change: the whole record after it, who made it, and its place."""

    seq: int
    origin: str
    n: int
    batch: int
    at: int
    kept_at: int
    actor: str
    op: str
    kind: str
    record: str
    about: str | None
    body: str | None
    delta: str | None
    digest: bytes
    hash: bytes


class Pending(NamedTuple):
    """A change that waits for its place at the end of its transaction."""

    at: int
    op: str
    kind: str
    record: str
    about: str | None
    body: str
    delta: str | None


class Head(NamedTuple):
    node: str
    incarnation: int
    origin: str
    identity: str
    public_key: bytes
    seq: int
    n: int
    hash: bytes
    kept_at: int
    signature: bytes


def digest_of(fields: Sequence[Any]) -> bytes:
    """A hash over every column of an entry that is not itself a hash."""
    return sha256(msgspec.json.encode(fields)).digest()


def link_of(previous: bytes, seq: int, digest: bytes) -> bytes:
    return sha256(previous + seq.to_bytes(8, "big") + digest).digest()


def witness_of(node: str, seq: int, hash: bytes) -> bytes:
    """What the node signs."""
    return msgspec.json.encode([node, seq, hash.hex()])


def head_of(session: Session) -> Head:
    row = session.row("chain_head")
    assert row is not None, "a migrated store has a head"
    return Head(*row)


def settle(session: Session, store: Store) -> tuple[Head, bytes]:
    """The head and the key to sign it with; a copied or re-keyed store first becomes a new incarnation."""
    head, key = head_of(session), own_key(store)
    if (head.public_key, head.identity) == (signer.public_of(key), store.identity()):
        return head, key
    number = head.incarnation + (1 if head.public_key else 0)
    return renew(session, store, head.node, number), key


def own_key(store: Store) -> bytes:
    """The key beside the store, made if there is none."""
    key = store.signing_key()
    if key is None:
        key = signer.new_key()
        store.make_signing_key(key)
    if len(key) != signer.KEY_SIZE:
        raise StoreDamaged("The key file beside the store is damaged: bring it back from a copy, or move it away.")
    return key


def renew(session: Session, store: Store, node: str, incarnation: int) -> Head:
    """Begin a new incarnation of a node: from here on this copy numbers its changes anew, under the store's own key."""
    head, key = head_of(session), own_key(store)
    origin, public = f"{node}.{incarnation}", signer.public_of(key)
    signature = signer.sign(key, witness_of(node, head.seq, head.hash)) if head.seq else b""
    session.do(
        "chain_renew",
        was=head.node,
        node=node,
        incarnation=incarnation,
        origin=origin,
        identity=store.identity(),
        public_key=public,
        signature=signature,
    )
    session.do("signer_add", origin=origin, public_key=public, since=head.seq + 1)
    return head_of(session)


def place(session: Session, head: Head, key: bytes, entries: Sequence[Pending], actor: str, now: int) -> list[int]:
    """Append entries at the end of the chain, dense and in commit order, and sign the new head."""
    if not entries:
        return []
    taken = session.row("chain_take", node=head.node, count=len(entries))
    assert taken is not None
    seq, n, previous, kept_at = taken
    kept_at, batch, rows = max(now, kept_at), seq + 1, []
    for entry in entries:
        seq, n = seq + 1, n + 1
        fields = (seq, head.origin, n, batch, entry.at, kept_at, actor, *entry[1:])
        digest = digest_of(fields)
        previous = link_of(previous, seq, digest)
        rows.append(dict(zip(Entry._fields, (*fields, digest, previous), strict=True)))
    session.many("journal_add", rows)
    signature = signer.sign(key, witness_of(head.node, seq, previous))
    session.do("chain_set", node=head.node, hash=previous, kept_at=kept_at, signature=signature)
    return [row["seq"] for row in rows]


def pages(session: Session, statement: str = "journal_page", size: int = 1000) -> Iterator[Entry]:
    after = 0
    while page := session.rows(statement, after=after, limit=size):
        yield from (Entry(*row) for row in page)
        after = page[-1][0]


class Break(NamedTuple):
    """Where the chain does not hold, and how."""

    seq: int
    what: str


def verify(session: Session, own_public_key: bytes | None) -> Iterator[Break]:
    """Everything that an untouched journal cannot show."""
    head = head_of(session)
    previous, expected, numbers, erased = GENESIS, 1, dict[str, int](), dict[str, int]()
    kept_at = 0
    for entry in pages(session):
        if entry.seq != expected:
            yield Break(expected, f"entries {expected} to {entry.seq - 1} are missing")
        if entry.body is None:
            erased[entry.record] = entry.seq
        else:
            if digest_of(entry[:13]) != entry.digest:
                yield Break(entry.seq, "the entry was edited")
            if entry.op == "purge":
                erased.pop(entry.record, None)
        if link_of(previous, entry.seq, entry.digest) != entry.hash:
            yield Break(entry.seq, "the entry does not follow from the one before it")
        if entry.n != numbers.get(entry.origin, 0) + 1:
            yield Break(entry.seq, f"change {entry.n} of {entry.origin} is out of order")
        if entry.kept_at < kept_at:
            yield Break(entry.seq, "it was kept before the one before it")
        numbers[entry.origin], kept_at = entry.n, entry.kept_at
        previous, expected = entry.hash, entry.seq + 1
    for seq in erased.values():
        yield Break(seq, "the entry was erased without a purge")
    if (head.seq, head.hash) != (expected - 1, previous):
        yield Break(head.seq, "the journal does not end where its head says: its tail was cut or added to")
    if head.seq and not signer.verifies(head.public_key, head.signature, witness_of(head.node, head.seq, head.hash)):
        yield Break(head.seq, "the head's signature is not by this node's key: the chain was rebuilt")
    if own_public_key is not None and head.seq and own_public_key != head.public_key:
        yield Break(head.seq, "the head names another key than the one kept beside the store")

"""Detect and repair forked origins: two histories under one replica id, after a database file was copied."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.features.sync import fork_store, read_changes
from holdfast.features.sync.endpoint import Endpoint, LocalEndpoint
from holdfast.features.sync.fork_store import RepairResult
from holdfast.features.sync.read_changes import Handshake, VectorEntry
from holdfast.features.sync.receive_changes import find_forked_origins, is_different, is_signed
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Forbidden
from holdfast.kernel.journal import journal
from holdfast.kernel.records.change import Change, history_mark, node_of
from holdfast.kernel.storage.port import Session

PAGE = 500


class RemoteChange(NamedTuple):
    """A change of an origin, as another store has it."""

    n: int
    mark: str
    is_authentic: bool
    """Whether its signature is valid."""


def repair_forks(here: Endpoint, there: Endpoint, *, only_here: bool = False) -> list[RepairResult]:
    """Repair whichever local store was restored from a copy, before any change is exchanged.

    `only_here`: leave a source that is only read unchanged, if all its changes are known here.
    """
    repairs = []
    for mine, other in ((here, there), (there, here)):
        if isinstance(mine, LocalEndpoint):
            if not (only_here and mine is there and _knows_all_of(other, mine.read_handshake())):
                repairs += repair_own_fork(mine.ctx, other, is_trusted=mine.scope.admin)
            repairs += _follow_repairs(mine.ctx, other)
            if repairs:
                other.forget_handshake()
    return repairs


def _knows_all_of(here: Endpoint, theirs: Handshake) -> bool:
    """Whether a store has the last own change of another store, and so all before it."""
    last = theirs.vector.get(theirs.origin)
    if last is None or not isinstance(here, LocalEndpoint):
        return last is None
    with here.ctx.reading() as session:
        return read_changes.find_mark(session, theirs.origin, last.n) == last.mark


def _follow_repairs(ctx: Context, other: Endpoint) -> list[RepairResult]:
    """Follow the repair of another store: treat changes received from its copy as the reissued ones."""
    theirs = other.read_handshake()
    with ctx.reading() as session:
        mine, own = (
            read_changes.build_handshake(session, ctx.now()),
            {origin for origin, *_ in session.rows("signer_list")},
        )
        doubted = find_forked_origins(session, theirs) | other.find_forked_origins(mine)
        keys = {origin: key for origin, key, _ in session.rows("author_list")}
    repairs = []
    for name in sorted(name for name in doubted - own if name in mine.vector and _goes_on_renamed(theirs, name)):
        signed = [one for one in _fetch_changes(other, name, theirs.vector, keys.get(name, b"")) if one.is_authentic]
        common = _find_common_number(ctx, name, mine, theirs, _marks_by_number(signed))
        with ctx.transaction() as write:
            repairs.append(fork_store.unnumber_changes(write, ctx.store, name, theirs.origin, common))
    return repairs


def _goes_on_renamed(theirs: Handshake, name: str) -> bool:
    return node_of(name) == theirs.node and name != theirs.origin


def find_forks(here: Endpoint, there: Endpoint) -> frozenset[str]:
    """Find forked origins of third stores: one of the two endpoints received changes of a copy."""
    return here.find_forked_origins(there.read_handshake()) | there.find_forked_origins(here.read_handshake())


def repair_own_fork(ctx: Context, other: Endpoint, *, is_trusted: bool) -> list[RepairResult]:
    """Continue under a new replica id if another store has more or different changes of the current one.

    An untrusted store must prove it with such a change, signed by this store's key.
    """
    theirs = other.read_handshake()
    with ctx.reading() as session:
        mine = read_changes.build_handshake(session, ctx.now())
        if not _is_forked(session, mine, theirs):
            return []
        key = journal.get_head(session).public_key
    changes = [one for one in _fetch_changes(other, mine.origin, theirs.vector, key) if is_trusted or one.is_authentic]
    if not (is_trusted or _is_proven(ctx, mine, changes)):
        raise Forbidden(
            f"{theirs.node} claims changes of this store that are unknown here, but cannot show any. Nothing was "
            "exchanged. If this store was restored from a copy, mark that peer admin and try again."
        )
    common = _find_common_number(ctx, mine.origin, mine, theirs, _marks_by_number(changes))
    with ctx.transaction() as write:
        return [fork_store.reissue_changes(write, ctx.store, common)]


def _is_forked(session: Session, mine: Handshake, theirs: Handshake) -> bool:
    claimed, own = theirs.vector.get(mine.origin), mine.vector.get(mine.origin, VectorEntry(0, ""))
    if claimed is None:
        return False
    return claimed.n > own.n or is_different(session, mine.origin, claimed)


def _is_proven(ctx: Context, mine: Handshake, told: Sequence[RemoteChange]) -> bool:
    """Whether one of the changes signed by this store is unknown here."""
    with ctx.reading() as session:
        return any(read_changes.find_mark(session, mine.origin, one.n) != one.mark for one in told)


def _find_common_number(ctx: Context, name: str, mine: Handshake, theirs: Handshake, marks: Mapping[int, str]) -> int:
    """Find the last number with the same change on both sides, and so the same changes before it.

    Compacted changes cannot be compared, so the result may be too low: then some changes are reissued twice.
    """
    last = min(mine.vector.get(name, VectorEntry(0, "")).n, theirs.vector[name].n)
    with ctx.reading() as session:
        both = (n for n in range(last, 0, -1) if n in marks and marks[n] == read_changes.find_mark(session, name, n))
        return next(both, 0)


def _fetch_changes(other: Endpoint, origin: str, vector: Mapping[str, VectorEntry], key: bytes) -> list[RemoteChange]:
    """Fetch every change of one origin from another store, and nothing else."""
    known = {name: reached.n for name, reached in vector.items()} | {origin: 0}
    changes: list[RemoteChange] = []
    after, more = 0, True
    while more:
        page = other.read_changes(after, known, PAGE)
        changes += [_to_remote_change(change, key) for change in page.changes if change.origin == origin]
        if base := page.bases.get(origin):
            changes.append(RemoteChange(base.n, base.mark, is_authentic=False))
        after, more = page.upto, page.more
    return changes


def _to_remote_change(change: Change, key: bytes) -> RemoteChange:
    about = (change.at, change.op, change.kind, change.record)
    return RemoteChange(change.n, history_mark(change.origin, change.n, *about), bool(key) and is_signed(key, change))


def _marks_by_number(told: Sequence[RemoteChange]) -> dict[int, str]:
    return {one.n: one.mark for one in told}

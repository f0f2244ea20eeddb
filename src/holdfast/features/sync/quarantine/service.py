"""List, retry and drop quarantined changes."""

import logging
import traceback
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from holdfast.features.sync.apply_changes import RejectedChange, SyncResult, apply_quarantined, put_in_quarantine
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers.filter import NamespaceFilter
from holdfast.features.sync.quarantine import store as quarantine_store
from holdfast.features.sync.quarantine.store import RETRYABLE, QuarantinedChange
from holdfast.features.sync.validate_changes import Refusal
from holdfast.kernel.context import Context
from holdfast.kernel.errors import OperationCancelled, StoreError
from holdfast.kernel.journal.journal import Position
from holdfast.kernel.records.change import ChangeId
from holdfast.kernel.records.namespace_patterns import EVERYTHING, FULL_SCOPE, PeerScope
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import is_too_far_ahead

MAX_OUT_OF_SCOPE = 1000
"""Maximum number of out-of-scope changes, newest first, that are checked again after each page."""
log = logging.getLogger("holdfast")
_by_peer = attrgetter("peer")


class QuarantineRetry:
    """Retry quarantined changes of senders with the same scope.

    A retry is outside of any page, so that its failure cannot roll back other changes.
    """

    def __init__(
        self,
        ctx: Context,
        result: SyncResult,
        *,
        owner: str | None,
        scope: PeerScope,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._ctx, self._result = ctx, result
        self._owner, self._scope, self._files = owner, scope, files or {}
        self.positions: list[Position] = []
        """The journal positions of each transaction."""

    def after_page(self, sent: Collection[ChangeId], *, applied: bool) -> None:
        """Retry changes that may be applicable now, except those of the page itself.

        Never fails the page, which is durable: on an error the retry happens after the next page.
        """
        try:
            with self._ctx.reading() as session:
                changes = self._list_due(session) + self._list_back_in_scope(session)
                changes += self._list_waiting(session) if applied else []
            self.retry([one for one in changes if one.name not in sent])
        except (OperationCancelled, StoreError) as error:
            log.warning("Could not retry quarantined changes: %s", error.message)

    def retry_due(self) -> None:
        """Retry changes from fast clocks whose time has come."""
        with self._ctx.reading() as session:
            changes = self._list_due(session)
        self.retry(changes)

    def retry(self, changes: Sequence[QuarantinedChange]) -> None:
        """Retry changes, then those that waited for the applied ones."""
        while changes:
            done = self._apply({one.name: one for one in changes})
            done.rejected_by_name = {
                name: why for name, why in done.rejected_by_name.items() if name in self._result.rejected_by_name
            }
            self._result.add(done)
            with self._ctx.reading() as session:
                changes = self._list_waiting(session) if done.applied else []

    def _apply(self, changes: Mapping[ChangeId, QuarantinedChange]) -> SyncResult:
        """Apply all in one transaction; if that fails, split them in halves to isolate the failing one."""
        done = type(self._result)()
        try:
            with self._ctx.transaction() as write:
                for _, many in groupby(sorted(changes.values(), key=_by_peer), key=_by_peer):
                    apply_quarantined(write, list(many), done, owner=self._owner, scope=self._scope, files=self._files)
        except Exception as error:
            if isinstance(error, OperationCancelled) or (
                isinstance(error, StoreError) and type(error) is not StoreError
            ):
                raise  # not the fault of the changes
            return self._apply_apart(changes, error)
        self.positions.extend(write.positions)
        return done

    def _apply_apart(self, changes: Mapping[ChangeId, QuarantinedChange], error: Exception) -> SyncResult:
        if len(changes) == 1:
            return self._give_up(next(iter(changes.values())), error)
        names, done = list(changes), type(self._result)()
        for part in (names[: len(names) // 2], names[len(names) // 2 :]):
            done.add(self._apply({name: changes[name] for name in part}))
        return done

    def _give_up(self, one: QuarantinedChange, error: Exception) -> SyncResult:
        """Mark a change that always fails as invalid, so it is not retried automatically."""
        where = "".join(traceback.format_tb(error.__traceback__))
        log.warning("A change in quarantine could not be applied: %s: %s\n%s", type(error).__name__, error, where)
        why, done = Refusal("invalid", f"It could not be applied: {type(error).__name__}."), type(self._result)()
        with self._ctx.transaction() as write:
            put_in_quarantine(write, one.change, why, one.peer)
        done.rejected_by_name[one.name] = RejectedChange(one.change, why.reason, why.detail)
        return done

    def _list_due(self, session: Session) -> list[QuarantinedChange]:
        """List changes from fast clocks whose time has come."""
        now_ms = self._ctx.now() // 1000
        candidates = self._select_same_scope(session, quarantine_store.list_by_reasons(session, ["future"]))
        return [one for one in candidates if not is_too_far_ahead(one.change.at, now_ms)]

    def _list_back_in_scope(self, session: Session) -> list[QuarantinedChange]:
        """List changes that were out of scope and whose records are within the scope now."""
        if EVERYTHING in self._scope.take:
            return []
        bounds = NamespaceFilter(session, self._scope.can_receive)
        candidates = self._select_same_scope(session, quarantine_store.list_out_of_scope(session, MAX_OUT_OF_SCOPE))
        return [one for one in candidates if bounds.contains_id(one.change.kind, one.change.record)]

    def _list_waiting(self, session: Session) -> list[QuarantinedChange]:
        return self._select_same_scope(session, quarantine_store.list_by_reasons(session, RETRYABLE))

    def _select_same_scope(self, session: Session, changes: list[QuarantinedChange]) -> list[QuarantinedChange]:
        """Select the changes of senders with exactly this scope."""
        alike = {node for node in {one.peer for one in changes} if peers.get_scope(session, node) == self._scope}
        return [one for one in changes if one.peer in alike]


def list_quarantined(ctx: Context, *, limit: int, skip: int) -> tuple[list[QuarantinedChange], int]:
    """List quarantined changes of all namespaces, newest first, with their total."""
    ctx.caller.require_all_namespaces()
    with ctx.reading() as session:
        return quarantine_store.list_page(session, limit=limit, skip=skip)


def get_quarantined(ctx: Context, id: str) -> QuarantinedChange:
    """Return a quarantined change by its public id."""
    ctx.caller.require_all_namespaces()
    with ctx.reading() as session:
        return quarantine_store.get_by_id(session, id)


def retry_quarantined(
    ctx: Context, ids: Sequence[str], *, trust_source: bool = False
) -> list[tuple[QuarantinedChange, QuarantinedChange | None]]:
    """Retry changes as if they had just arrived, separately per sender; without ids, all of them.

    Returns each change as it was, and as it is if it was rejected again.
    """
    ctx.caller.require_all_namespaces()
    owner = None if trust_source else ctx.caller.agent
    with ctx.reading() as session:
        changes = [quarantine_store.get_by_id(session, id) for id in dict.fromkeys(ids)] or quarantine_store.list_all(
            session
        )
        scopes = {sender: _get_scope(session, sender[0], beyond=sender[1]) for sender in map(_sender_key, changes)}
    for sender, many in groupby(sorted(changes, key=_sender_key), key=_sender_key):
        QuarantineRetry(ctx, SyncResult(), owner=owner, scope=scopes[sender]).retry(list(many))
    with ctx.reading() as session:
        remaining = {one.id: one for one in quarantine_store.list_all(session)}
    return [(one, remaining.get(one.id)) for one in changes]


def _sender_key(quarantined: QuarantinedChange) -> tuple[str, bool]:
    """Return the sender, and whether the change exceeded the sender's rights."""
    return quarantined.peer, quarantined.reason in ("scope", "governance")


def _get_scope(session: Session, node: str, *, beyond: bool) -> PeerScope:
    """Return the scope of a node. A removed peer's changes beyond its rights are never applied."""
    peer = peers.find_by_node(session, node)
    if peer is None:
        return PeerScope((), ()) if beyond else FULL_SCOPE
    return peer.scope


def apply_due(ctx: Context) -> None:
    """Apply changes from fast clocks whose time has come, without waiting for an exchange."""
    with ctx.reading() as session:
        senders = {one.peer for one in quarantine_store.list_by_reasons(session, ["future"])}
        scopes = {_get_scope(session, peer, beyond=False) for peer in senders}
    for scope in sorted(scopes):
        QuarantineRetry(ctx, SyncResult(), owner=None, scope=scope).retry_due()


def drop_quarantined(ctx: Context, ids: Sequence[str]) -> list[QuarantinedChange]:
    """Drop changes permanently and return them; they are rejected if they arrive again."""
    ctx.caller.require_all_namespaces()
    with ctx.transaction() as write:
        changes = [quarantine_store.get_by_id(write.session, id) for id in dict.fromkeys(ids)]
        for one in changes:
            quarantine_store.drop_change(write.session, one, ctx.caller.agent, write.now)
    return changes

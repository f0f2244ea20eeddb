"""Dry run: execute changes in one transaction, each seeing the previous ones, and roll it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from holdfast.kernel.context import Context
from holdfast.kernel.storage.port import Session, Store


class _Rollback(Exception):
    """Rolls back the transaction of a dry run."""


@contextmanager
def open_dry_run(ctx: Context) -> Iterator[Context]:
    """Open a context whose changes all belong to one transaction that is never committed."""
    try:
        with ctx.activity.track_write(), ctx.store.transaction() as session:
            store = cast(Store, _StoreInTransaction(ctx.store, session))
            yield replace(ctx, store=store, on_commit=lambda: None, on_memories_written=lambda: None, flagged=[])
            raise _Rollback
    except _Rollback:
        pass


class _StoreInTransaction:
    """A store inside one transaction: every read and write uses it."""

    def __init__(self, store: Store, session: Session) -> None:
        self._store = store
        self._session = session
        self._key: bytes | None = None
        """Signing key created by the dry run; never stored."""

    @contextmanager
    def reading(self) -> Iterator[Session]:
        yield self._session

    @contextmanager
    def transaction(self, before_commit: Callable[[], None] = lambda: None) -> Iterator[Session]:
        yield self._session

    def lacks_key(self) -> bool:
        return False

    def signing_key(self, session: Session) -> bytes | None:
        return self._key or self._store.signing_key(session)

    def make_signing_key(self, session: Session, key: bytes) -> None:
        self._key = key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

"""Write buffered accesses and recalls in a batch, after the reads."""

import atexit
import logging
import threading
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.features.memories.store import AccessLog
from holdfast.features.recall import recall_log
from holdfast.features.recall.recall_log import PendingRecall, RecallLog, oldest_kept_time
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, OutcomeUnknown, StoreError
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction

log = logging.getLogger("holdfast")

FLUSH_SECONDS = 60.0
"""Pause between two flushes of a process that keeps its store open."""


def flush_access_log(ctx: Context) -> int:
    """Count accesses, extend expiry times, promote memories that are used often. Return the number of memories.

    Changes are made in the name of the agent that used the memories. What cannot be written now waits for the next
    flush; without one it is lost, which is acceptable for a hint.
    """
    written = 0
    used_by, pending_recalls = ctx.local[AccessLog].drain(), ctx.local[RecallLog].drain()
    for agent in dict.fromkeys([*used_by, *(one.agent for one in pending_recalls)]):
        used, own_recalls = used_by.get(agent, {}), [one for one in pending_recalls if one.agent == agent]
        user = ctx.for_caller(replace(ctx.caller, agent=agent))
        try:
            with user.transaction() as write:
                for id in sorted(used):
                    _count_access(user, write, id, *used[id])
                _log_recalls(user, write, own_recalls)
            written += len(used)
        except OutcomeUnknown:
            continue  # lose a count rather than count twice
        except StoreError:
            ctx.local[AccessLog].add(agent, used)
            ctx.local[RecallLog].put_back(own_recalls)
    return written


class AccessFlusher:
    """Flushes accesses in the background, for a process that keeps its store open. Starts with the first access."""

    def __init__(self, ctx: Context, seconds: float = FLUSH_SECONDS) -> None:
        self._ctx = ctx
        self._seconds = seconds
        self._accesses = ctx.local[AccessLog]
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast-access", daemon=True)
        self._accesses.on_first = self._start

    def close(self) -> None:
        """Stop the thread; what it has not flushed is for the caller to flush."""
        self._is_closed, self._accesses.on_first = True, None
        self._accesses.has_accesses.set()
        self._accesses.is_full.set()
        if self._thread.is_alive():
            self._thread.join()
        atexit.unregister(self.close)

    def _start(self) -> None:
        atexit.register(self.close)
        self._thread.start()

    def _run(self) -> None:
        has_accesses, is_full = self._accesses.has_accesses, self._accesses.is_full
        while has_accesses.wait():
            is_full.wait(self._seconds)
            has_accesses.clear()
            is_full.clear()
            if self._is_closed:
                return
            try:
                flush_access_log(self._ctx)
            except HoldfastError as error:
                log.warning("Cannot count accesses now: %s", error.message)


def _log_recalls(ctx: Context, write: Transaction, recalls: Sequence[PendingRecall]) -> None:
    """Store recalls for a while, so that they can be rated."""
    if recalls:
        recall_log.add_recalls(
            write.session, [one.to_record(with_question=ctx.recall_retention_days > 0) for one in recalls]
        )
        recall_log.prune_recalls(write.session, oldest_kept_time(write.now, ctx.recall_retention_days))


def _count_access(ctx: Context, write: Transaction, id: str, uses: int, at: int) -> None:
    memory = write.get(MEMORY, id)
    if memory is None or memory.state != "live":
        return
    write.session.do("memory_access_add", memory=id, origin=write.origin, uses=uses, used_at=at)
    if memory.expires_at is None:
        return
    write.session.do("memory_extend", id=id, until=ctx.lifetimes.extend(memory.tier, at))
    total = write.session.rows("memory_access_of", ids=[id])[0][1]
    if memory.tier == "mid" and 0 < ctx.lifetimes.promote_after <= total:
        write.change(MEMORY, memory, replace(memory, tier="long", expires_at=None), "promote")

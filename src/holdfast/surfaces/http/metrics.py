"""Server metrics in Prometheus format."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

import msgspec

from holdfast.app import Holdfast
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING
from holdfast.features.sync import status
from holdfast.features.webhooks import service as subscriptions
from holdfast.kernel.context import Caller
from holdfast.version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts of this process since its start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self.streams = 0

    def record_request(self, operation: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        with self._lock:
            self._requests[operation, status] += 1
            self._seconds.setdefault(operation, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
            self._sums[operation] += seconds  # type: ignore[assignment]

    def text(self, holdfast: Holdfast, caller: Caller) -> str:
        with self._lock:
            lines = [*self._counts(), *self._histogram()]
        stores = (self._gauges, self._subscriptions, self._peers)
        return "\n".join([*lines, *(line for part in stores for line in part(holdfast, caller)), ""])

    def _counts(self) -> Iterator[str]:
        yield "# HELP holdfast_requests_total Requests answered, by operation and status code."
        yield "# TYPE holdfast_requests_total counter"
        for (operation, code), count in sorted(self._requests.items()):
            yield f'holdfast_requests_total{{operation="{operation}",code="{code}"}} {count}'

    def _histogram(self) -> Iterator[str]:
        yield "# HELP holdfast_request_seconds Time to answer, by operation."
        yield "# TYPE holdfast_request_seconds histogram"
        for operation, counts in sorted(self._seconds.items()):
            total = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                yield f'holdfast_request_seconds_bucket{{operation="{operation}",le="{bound}"}} {total}'
            yield f'holdfast_request_seconds_sum{{operation="{operation}"}} {self._sums[operation]:.6f}'
            yield f'holdfast_request_seconds_count{{operation="{operation}"}} {total}'

    def _gauges(self, holdfast: Holdfast, caller: Caller) -> Iterator[str]:
        ctx = holdfast.ctx
        with ctx.reading() as session:
            count = memories.count(session, caller, EVERYTHING, ctx.now())
        for name, help, value in (
            ("holdfast_memories", "Live memories visible to the caller.", count),
            ("holdfast_store_bytes", "Size of the store in bytes.", ctx.store.size()),
            ("holdfast_event_streams", "Open event streams.", self.streams),
            (f'holdfast_build_info{{version="{__version__}"}}', "The release.", 1),
        ):
            bare = name.partition("{")[0]
            yield from (f"# HELP {bare} {help}", f"# TYPE {bare} gauge", f"{name} {value}")

    def _subscriptions(self, holdfast: Holdfast, caller: Caller) -> Iterator[str]:
        """Undelivered events per subscription: the caller's own, or all for an admin."""
        ctx = holdfast.ctx.for_caller(caller)
        with ctx.reading() as session:
            found = subscriptions.list_statuses(ctx, session)
        replay = "`holdfast webhook replay ID"
        for name, help, values in (
            (
                "ended",
                f"1 if it ended; to resume: {replay} --since PLACE`.",
                [int(one.state == "ended") for one in found],
            ),
            ("waiting", "Events waiting for a retry.", [one.waiting for one in found]),
            ("dead_letters", f"Dead letters; to resend: {replay} --all-dead-letters`.", [one.dead for one in found]),
        ):
            bare = f"holdfast_subscription_{name}"
            yield from (f"# HELP {bare} {help}", f"# TYPE {bare} gauge")
            yield from (f'{bare}{{id="{one.id}"}} {value}' for one, value in zip(found, values, strict=True))

    def _peers(self, holdfast: Holdfast, caller: Caller) -> Iterator[str]:
        """Replication state of each peer; admins only."""
        if not caller.has_right("admin") or "*" not in caller.namespaces:
            return
        peers = status.read_status(holdfast.ctx).peers
        for name, help, values in (
            ("behind_here", "Journal entries of the peer not yet pulled here.", [one.behind_here for one in peers]),
            ("behind_there", "Local journal entries the peer has not yet pulled.", [one.behind_there for one in peers]),
            (
                "failures",
                "Consecutive failed exchanges.",
                [one.failures if one.last_success or one.last_failure else None for one in peers],
            ),
            ("quarantined", "Quarantined changes of the peer.", [one.quarantined for one in peers]),
        ):
            yield from (f"# HELP holdfast_peer_{name} {help}", f"# TYPE holdfast_peer_{name} gauge")
            for peer, value in zip(peers, values, strict=True):
                if value is not None:
                    yield f"holdfast_peer_{name}{{peer={msgspec.json.encode(peer.name).decode()}}} {value}"

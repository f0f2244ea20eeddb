"""A log that does not grow with the number of requests: a repeated error is logged once a minute."""

import logging
from collections.abc import Callable
from time import monotonic

INTERVAL_SECONDS = 60.0
log = logging.getLogger("holdfast")


class ThrottledLog:
    """Log each kind of error once a minute, then the number of suppressed ones."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._recent: dict[str, tuple[float, int]] = {}
        """Kinds of the last minute: when each was logged, and how often it was suppressed since."""

    def error(self, kind: str, text: str) -> None:
        self._log_suppressed()
        at, more = self._recent.get(kind, (self._now(), -1))
        self._recent[kind] = (at, more + 1)
        if more < 0:
            log.error("%s", text)

    def _log_suppressed(self) -> None:
        """Log the counts of the kinds whose minute is over."""
        for kind, (at, more) in list(self._recent.items()):
            if self._now() - at >= INTERVAL_SECONDS:
                del self._recent[kind]
                if more:
                    log.error("%d more requests since then: %s", more, kind)

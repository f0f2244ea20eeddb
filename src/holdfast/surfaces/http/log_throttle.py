"""A log that does not grow with the number of requests: a repeated error is logged once a minute."""

import logging
from collections.abc import Callable
from time import monotonic

SECONDS = 60.0
log = logging.getLogger("holdfast")


class Seldom:
    """Log each kind of error once a minute, then the number of suppressed ones."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._told: dict[str, tuple[float, int]] = {}
        """Kinds of the last minute: when each was logged, and how often it was suppressed since."""

    def error(self, kind: str, text: str) -> None:
        self._tell_the_rest()
        at, more = self._told.get(kind, (self._now(), -1))
        self._told[kind] = (at, more + 1)
        if more < 0:
            log.error("%s", text)

    def _tell_the_rest(self) -> None:
        """Log the counts of the kinds whose minute is over."""
        for kind, (at, more) in list(self._told.items()):
            if self._now() - at >= SECONDS:
                del self._told[kind]
                if more:
                    log.error("%d more requests since then: %s", more, kind)

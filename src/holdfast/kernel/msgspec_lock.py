"""Register types with msgspec, one thread at a time.

msgspec analyses a type on first use and crashes the process if two threads do that at the same time.
"""

from threading import Lock
from typing import Any

import msgspec

_learnt: set[Any] = set()
_learning = Lock()


def learn(kind: Any) -> None:
    """Make msgspec analyse a type before several threads use it."""
    if kind not in _learnt:
        with _learning:
            msgspec.json.Decoder(kind)
        _learnt.add(kind)

"""Types that msgspec has learnt.

It learns a type when that is first used, and crashes the process if two threads make it learn one at the same time.
"""

from threading import Lock
from typing import Any

import msgspec

_learnt: set[Any] = set()
_learning = Lock()


def learn(kind: Any) -> None:
    """Let msgspec learn a type, one thread at a time, before many threads use it."""
    if kind not in _learnt:
        with _learning:
            msgspec.json.Decoder(kind)
        _learnt.add(kind)

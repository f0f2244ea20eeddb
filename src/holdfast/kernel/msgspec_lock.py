"""Register types with msgspec, one thread at a time.

msgspec analyses a type on first use and crashes the process if two threads do that at the same time.
"""

from threading import Lock
from typing import Any

import msgspec

_registered: set[Any] = set()
_lock = Lock()


def register_type(kind: Any) -> None:
    """Make msgspec analyse a type before several threads use it."""
    if kind not in _registered:
        with _lock:
            msgspec.json.Decoder(kind)
        _registered.add(kind)

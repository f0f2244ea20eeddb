"""Register types with msgspec, one thread at a time.

msgspec analyses a type on first use and crashes the process if two threads do that at the same time.
"""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import msgspec

_lock = Lock()


def _analyse_type(kind: Any) -> None:
    with _lock:
        msgspec.json.Decoder(kind)


register_type: Callable[[Any], None] = cache(_analyse_type)
"""Make msgspec analyse a type before several threads use it. Cheap when repeated: every call of an operation does."""

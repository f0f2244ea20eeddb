"""In-memory state of features for a store or a transaction. The kernel does not know its types."""

import threading
from typing import TypeVar, cast

T = TypeVar("T")


class TypedLocals:
    """Holds one instance per type, created on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: dict[type, object] = {}

    def __call__(self, kind: type[T]) -> T:
        with self._lock:
            found = self._instances.get(kind)
            if found is None:
                found = self._instances[kind] = kind()
        return cast(T, found)

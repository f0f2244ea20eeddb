"""What features keep in memory beside a store or a transaction, without the kernel knowing their types."""

import threading
from typing import TypeVar, cast

T = TypeVar("T")


class Locals:
    """One instance of each type, made by its constructor when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: dict[type, object] = {}

    def __call__(self, kind: type[T]) -> T:
        with self._lock:
            found = self._instances.get(kind)
            if found is None:
                found = self._instances[kind] = kind()
        return cast(T, found)

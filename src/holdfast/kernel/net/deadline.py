"""Work that may take for ever, such as looking up a name, in a thread that can be left alone."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """What the work gives, or TimeoutError; the caller then ends what the thread still waits for."""
    future: Future[T] = Future()
    Thread(target=_settle, args=(future, work), name="holdfast-asking", daemon=True).start()
    return future.result(seconds)


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised again where the answer is waited for
        future.set_exception(error)

"""Run blocking work that cannot be cancelled, such as a DNS lookup, in a thread that can be abandoned."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def run_within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of the work or raise TimeoutError; the caller then closes what the thread waits for."""
    future: Future[T] = Future()
    Thread(target=_run, args=(future, work), name="holdfast-asking", daemon=True).start()
    return future.result(seconds)


def _run(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised again in the waiting thread
        future.set_exception(error)

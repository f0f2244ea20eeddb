"""Requests to the client's model (sampling) over stdio."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import count
from typing import Any, Protocol

from holdfast.features.llm.sampling import use_sampling
from holdfast.kernel.errors import ModelFailed, OperationCancelled

METHOD = "sampling/createMessage"
NOT_OFFERED = "The connected agent does not offer its model (no `sampling` capability)."
NOT_IN_THIS_REVISION = (
    "This revision of MCP has no requests to the client, so the connected agent's model cannot be used."
)
CLIENT_GONE = "The connected agent disconnected before its model answered."


class Call(Protocol):
    """A client's call for which its model is asked."""

    @property
    def stop(self) -> threading.Event:
        """Set when the call is cancelled."""


Send = Callable[[dict[str, Any]], None]


class ClientRequests:
    """Open requests to the client. Any thread may ask; the reader thread delivers the answers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._waiting: dict[str, tuple[Call, Future[Mapping[str, Any]]]] = {}
        self._gone = False

    def offer(self, call: Call, *, stateless: bool, sampling: bool) -> AbstractContextManager[None]:
        """Make the client's model available to a call, or the reason why it is not."""
        if stateless:
            return use_sampling(NOT_IN_THIS_REVISION)
        return use_sampling(partial(self.ask, call) if sampling else NOT_OFFERED)

    def ask(self, call: Call, params: dict[str, Any], seconds: float) -> Mapping[str, Any]:
        """Ask the client and wait for its answer; raise ModelFailed, or Cancelled if the call is cancelled."""
        id, answer = self._register(call)
        try:
            if call.stop.is_set():
                raise OperationCancelled
            self._send({"id": id, "method": METHOD, "params": params})
            return answer.result(seconds)
        except TimeoutError:
            self._send(
                {"method": "notifications/cancelled", "params": {"requestId": id, "reason": "It took too long."}}
            )
            raise late_error(seconds) from None
        finally:
            with self._lock:
                self._waiting.pop(id, None)

    def _register(self, call: Call) -> tuple[str, Future[Mapping[str, Any]]]:
        id, answer = f"holdfast-{next(self._numbers)}", Future[Mapping[str, Any]]()
        with self._lock:
            if self._gone:
                raise ModelFailed(CLIENT_GONE, unpaid=True)
            self._waiting[id] = call, answer
        return id, answer

    def deliver(self, message: Mapping[str, Any]) -> None:
        """Deliver an answer to its waiting thread; ignore one that nobody waits for."""
        with self._lock:
            _, answer = self._waiting.get(str(message.get("id")), (None, None))
        if answer is not None:
            _resolve(answer, _result(message))

    def cancel(self, call: Call) -> None:
        """Cancel the requests of a cancelled call."""
        self._fail_pending(OperationCancelled, lambda whose: whose is call)

    def close(self) -> None:
        """Fail all open requests: the client has disconnected."""
        with self._lock:
            self._gone = True
        self._fail_pending(lambda: ModelFailed(CLIENT_GONE), lambda _: True)

    def _fail_pending(self, error: Callable[[], Exception], concerned: Callable[[Call], bool]) -> None:
        with self._lock:
            ended = [answer for whose, answer in self._waiting.values() if concerned(whose)]
        for answer in ended:
            _resolve(answer, error())


def _result(message: Mapping[str, Any]) -> Mapping[str, Any] | ModelFailed:
    """Convert the client's answer. Its error text is not passed on, only the error number."""
    if (error := message.get("error")) is not None:
        return declined_error(error.get("code") if isinstance(error, dict) else None)
    result = message.get("result")
    if isinstance(result, dict):
        return result
    return ModelFailed("The connected agent's answer has no message.", answered=True)


def declined_error(code: object) -> ModelFailed:
    known = f" (error {code})" if isinstance(code, int) else ""
    return ModelFailed(f"The connected agent declined to ask its model{known}.", unpaid=True, answered=True)


def late_error(seconds: float) -> ModelFailed:
    return ModelFailed(f"The connected agent's model did not answer within {seconds:g} seconds.", retryable=True)


def _resolve(answer: Future[Mapping[str, Any]], end: Mapping[str, Any] | Exception) -> None:
    with suppress(InvalidStateError):  # already answered or cancelled
        if isinstance(end, Exception):
            answer.set_exception(end)
        else:
            answer.set_result(end)

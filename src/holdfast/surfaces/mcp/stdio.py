"""MCP over standard input and output. Loads neither the SDK nor asyncio, so it starts fast."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.app import Holdfast
from holdfast.features.recall import flush_access
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import OperationCancelled
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.mcp import identity
from holdfast.surfaces.mcp.answers import (
    Answers,
    RequestContext,
    progress_reporter,
    progress_token,
    serves,
    to_protocol_error,
)
from holdfast.surfaces.mcp.protocol import (
    HANDSHAKE,
    HANDSHAKE_CAPABILITIES,
    INSTRUCTIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_INFO,
    Initialize,
    ProtocolError,
    convert_params,
    has_envelope,
    read_envelope,
    unsupported_version,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.surfaces.mcp.call_pool import CallPool
    from holdfast.surfaces.mcp.client_requests import ClientRequests

Id = int | str
Params = Mapping[str, Any] | None

MAX_LINE_BYTES = 16 * 1024 * 1024
CHUNK = 1 << 16
THREADS = 8
GRACE_SECONDS = 5.0
"""Seconds that running calls get after the client has disconnected."""
FLUSH_SECONDS = 5.0
_STORE_METHODS = {
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/directory/read",
    "skills/list",
    "skills/get",
}


def serve(holdfast: Holdfast, profile: str) -> int:
    """Serve one client until it disconnects or a signal arrives. Every call is answered or rolled back."""
    answers = Answers(holdfast, profile)
    identity.local_caller(holdfast, None)
    source, sink = detach_standard_streams()
    StdioServer(holdfast, answers, source, sink).run()
    return 0


def detach_standard_streams() -> tuple[int, int]:
    """Take over standard input and output: other code reads end of file from 0, and writes to 1 go to the log."""
    nothing = os.open(os.devnull, os.O_RDWR)
    while nothing <= 2:  # a standard stream is closed: the protocol's descriptors must not get its number
        nothing = os.open(os.devnull, os.O_RDWR)
    source, sink = os.dup(0), os.dup(1)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, sink


class StopSignal(BaseException):
    """Raised by a signal while the loop waits for a line."""


class LineReader:
    """Read lines until end of input or a signal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting = False
        self.stopped = False

    def stop(self, *_: object) -> None:
        # Raise only while waiting, so a line being handled and an answer being written are completed.
        self.stopped = True
        if self._waiting:
            raise StopSignal

    def lines(self) -> Iterator[bytes | None]:
        """Yield each line; None for one over the limit, whose rest is skipped."""
        parts: list[bytes] = []
        size = 0
        while chunk := self._read():
            *ended, rest = chunk.split(b"\n")
            for piece in ended:
                yield b"".join((*parts, piece)) if size + len(piece) <= MAX_LINE_BYTES else None
                parts, size = [], 0
            size += len(rest)
            parts = [*parts, rest] if size <= MAX_LINE_BYTES else []
        if size:
            yield b"".join(parts) if size <= MAX_LINE_BYTES else None

    def _read(self) -> bytes:
        try:
            self._waiting = True
            return b"" if self.stopped else os.read(self._fd, CHUNK)
        finally:
            self._waiting = False


class LineWriter:
    """Write answers as whole lines, also from several threads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._gone = False

    def send(self, message: dict[str, Any]) -> None:
        line = memoryview(wire.encode({"jsonrpc": "2.0", **message}) + b"\n")
        with self._lock:
            while line and not self._gone:
                try:
                    line = line[os.write(self._fd, line) :]
                except OSError:
                    self._gone = True


class Call:
    """A running request."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.done = threading.Event()


class StdioServer:
    """One client connection. The first request decides the era; calls run in threads and may finish in any order."""

    def __init__(self, holdfast: Holdfast, answers: Answers, source: int, sink: int) -> None:
        self._holdfast = holdfast
        self._answers = answers
        self._source = LineReader(source)
        self._sink = LineWriter(sink)
        self._stateless: bool | None = None
        self._version: str | None = None
        self._client: str | None = None
        self._client_samples = False
        self._calls: dict[Id, Call] = {}
        self._last_write: threading.Event | None = None
        self._running: set[Future[None]] = set()
        self._flushed = monotonic()

    def run(self) -> None:
        """Run until the client disconnects, then wait briefly for running calls. A signal stops them at once."""
        with _signals(self._source):
            with suppress(StopSignal):
                for line in self._source.lines():
                    self._handle_line(line)
            if self._source.stopped:
                self._stop_calls()
        if self._uses_client_model:
            self._client_requests.close()
        self._drain()

    def _drain(self) -> None:
        if self._running:
            self._pool.wait(self._running, GRACE_SECONDS)
            self._stop_calls()
            self._pool.shutdown()

    def _stop_calls(self) -> None:
        for call in list(self._calls.values()):
            self._stop_call(call)

    def _stop_call(self, call: Call) -> None:
        call.stop.set()
        if self._uses_client_model:
            self._client_requests.cancel(call)

    def _handle_line(self, line: bytes | None) -> None:
        """Handle one line; an error in it never stops the loop."""
        if line is not None and not line.strip():
            return
        id: Id | None = None
        try:
            message = _decode_line(line)
            id = _id_of(message)
            self._handle(id, message)
        except ProtocolError as refused:
            self._sink.send({"id": id, "error": refused.body()})

    def _handle(self, id: Id | None, message: dict[str, Any]) -> None:
        if "method" not in message and ("result" in message or "error" in message):
            if self._uses_client_model:
                self._client_requests.deliver(message)
            return
        method, params = message.get("method"), message.get("params")
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
            raise ProtocolError(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0" and method a string')
        if params is not None and not isinstance(params, dict):
            raise ProtocolError(INVALID_PARAMS, "Invalid request: params must be an object")
        if id is None:
            self._handle_notification(method, params or {})
        else:
            self._handle_request(id, method, params)

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        cancelled = params.get("requestId") if method == "notifications/cancelled" else None
        call = self._calls.get(cancelled) if isinstance(cancelled, int | str) else None
        if call is not None:
            self._stop_call(call)

    def _handle_request(self, id: Id, method: str, params: Params) -> None:
        if self._stateless is None:
            self._stateless = method != "initialize" and has_envelope(params)
        if method == "initialize":
            self._sink.send({"id": id, "result": self._initialize(params)})
            return
        version, client = self._version_and_client(method, params)
        if not serves(method, version):
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", method)
        caller = partial(identity.local_caller, self._holdfast, client)
        if method in _STORE_METHODS:
            self._start_call(id, method, params, partial(RequestContext, version, caller))
        else:
            self._sink.send({"id": id, "result": self._answers.answer(method, params, RequestContext(version, caller))})

    def _initialize(self, params: Params) -> dict[str, Any]:
        if self._stateless:
            raise unsupported_version(
                (params or {}).get("protocolVersion"), "This connection is stateless: do not send initialize"
            )
        asked = convert_params(params, Initialize)
        self._version, self._client = asked.negotiated_version, asked.client_info.name
        self._client_samples = isinstance(asked.capabilities.get("sampling"), dict)
        return {
            "protocolVersion": asked.negotiated_version,
            "capabilities": HANDSHAKE_CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": INSTRUCTIONS,
        }

    def _version_and_client(self, method: str, params: Params) -> tuple[str, str | None]:
        """Return the revision and the client's name, from the envelope or the handshake."""
        if self._stateless:
            return read_envelope(params)
        if has_envelope(params):
            raise ProtocolError(
                INVALID_REQUEST, "This connection started with a handshake: do not send a protocol version in _meta"
            )
        if self._version is None and method != "ping" and serves(method, HANDSHAKE[-1]):
            raise ProtocolError(INVALID_PARAMS, "Send initialize first")
        return self._version or HANDSHAKE[-1], self._client

    def _start_call(self, id: Id, method: str, params: Params, asked: partial[RequestContext]) -> None:
        """Run a call in a thread, after the short writes requested before it."""
        if id in self._calls:
            taken = ProtocolError(INVALID_REQUEST, f"Invalid request: {id!r} is the id of a running request")
            self._sink.send({"id": None, "error": taken.body()})
            return
        call, before = Call(), self._last_write
        self._calls[id] = call
        if self._answers.is_short_write(method, params):
            self._last_write = call.done
        progress = Progress(progress_reporter(params, partial(self._send_progress, progress_token(params))), call.stop)
        work = partial(self._answers.answer, method, params, asked(progress))
        running = self._pool.submit(self._run, id, call, before, work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    @cached_property
    def _pool(self) -> CallPool:
        from holdfast.surfaces.mcp.call_pool import CallPool  # loads concurrent.futures, 3 ms that `initialize` saves

        return CallPool(THREADS, thread_name_prefix="holdfast-mcp")

    def _send_progress(self, token: Id | None, done: int, total: int, what: str) -> None:
        said = {"progressToken": token, "progress": done, "total": total, "message": what}
        self._sink.send({"method": "notifications/progress", "params": said})

    def _run(self, id: Id, call: Call, before: threading.Event | None, work: Callable[[], dict[str, Any]]) -> None:
        """Run and answer a call. One cancelled before its commit wrote nothing and gets no answer."""
        answer: dict[str, Any] | None = None
        try:
            if before is not None:
                before.wait()
            if not call.stop.is_set():
                with self._with_client_model(call):
                    answer = {"id": id, "result": work()}
        except OperationCancelled:
            pass
        except Exception as error:  # noqa: BLE001 - the request is answered, the log has the cause
            answer = {"id": id, "error": to_protocol_error(error).body()}
        # Free the id before sending the answer: the client may reuse it at once.
        del self._calls[id]
        call.done.set()
        if answer is not None:
            self._sink.send(answer)
        self._flush_access()

    @property
    def _uses_client_model(self) -> bool:
        """Whether a model is set, which may be the client's own: nothing is loaded for it otherwise."""
        return self._holdfast.ctx.model is not None

    @cached_property
    def _client_requests(self) -> ClientRequests:
        from holdfast.surfaces.mcp.client_requests import ClientRequests  # only with a model of the client

        return ClientRequests(self._sink.send)

    def _with_client_model(self, call: Call) -> AbstractContextManager[None]:
        """Make the client's model available to the call, or the reason why it is not."""
        if not self._uses_client_model:
            return nullcontext()
        return self._client_requests.offer(call, stateless=bool(self._stateless), sampling=self._client_samples)

    def _flush_access(self) -> None:
        """Flush the access counts from time to time, after an answer, so a read does not wait for a write."""
        if monotonic() - self._flushed > FLUSH_SECONDS:
            self._flushed = monotonic()
            flush_access.flush_access_log(self._holdfast.ctx)


def _decode_line(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise ProtocolError(PARSE_ERROR, f"Parse error: a line may have at most {MAX_LINE_BYTES} bytes")
    try:
        message = msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(PARSE_ERROR, f"Parse error: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(
            INVALID_REQUEST, "Invalid request: send one JSON object per line; batches are not supported"
        )
    return message


def _id_of(message: dict[str, Any]) -> Id | None:
    """Return the id of a request, or None for a notification."""
    id = message.get("id")
    if "id" in message and (not isinstance(id, int | str) or isinstance(id, bool)):
        raise ProtocolError(INVALID_REQUEST, "Invalid request: id must be a string or an integer")
    return id


@contextmanager
def _signals(source: LineReader) -> Iterator[None]:
    """Stop reading on SIGINT or SIGTERM; a second signal kills the process while the last calls finish."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, source.stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

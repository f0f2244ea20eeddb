"""What every request passes through: host check, headers, errors, metrics."""

import logging
import traceback
from collections.abc import Callable
from time import monotonic, perf_counter

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.kernel.errors import AuthenticationRequired, HoldfastError, MethodNotAllowed, TooLarge
from holdfast.settings import Settings
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.http.authentication import check_host_and_origin, strip_headers
from holdfast.surfaces.http.metrics import Metrics

SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
"""Headers of every answer."""

CLIENT_CLOSED_STATUS = 499
INTERVAL_SECONDS = 60.0
log = logging.getLogger("holdfast")


class ThrottledLog:
    """Log each kind of error once a minute, then the number of suppressed ones."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._recent: dict[str, tuple[float, int]] = {}
        """Kinds of the last minute: when each was logged, and how often it was suppressed since."""

    def error(self, kind: str, text: str) -> None:
        self._log_suppressed()
        at, more = self._recent.get(kind, (self._now(), -1))
        self._recent[kind] = (at, more + 1)
        if more < 0:
            log.error("%s", text)

    def _log_suppressed(self) -> None:
        """Log the counts of the kinds whose minute is over."""
        for kind, (at, more) in list(self._recent.items()):
            if self._now() - at >= INTERVAL_SECONDS:
                del self._recent[kind]
                if more:
                    log.error("%d more requests since then: %s", more, kind)


class RequestMiddleware:
    """Middleware for all paths: check the host, answer errors as JSON, add security headers, record metrics."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._log = ThrottledLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at, answering = perf_counter(), ResponseSender(send)
        state = scope.setdefault("state", {})
        scope["headers"] = strip_headers(scope["headers"])
        try:
            check_host_and_origin(self._settings, scope["headers"])
            await self._app(scope, receive, answering.send)
        except Exception as error:  # noqa: BLE001 - the caller gets JSON whatever the error
            log_error(error, scope, self._log)
            if not answering.status:
                await error_response(error)(scope, receive, answering.send)
        finally:
            self._metrics.record_request(
                state.get("operation", "none"), answering.status or CLIENT_CLOSED_STATUS, perf_counter() - started_at
            )


class ResponseSender:
    """Send an answer with the security headers added."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in SECURITY_HEADERS if pair[0] not in given)]
        await self._send(message)


def error_response(error: Exception) -> Response:
    """Convert an error to its JSON response; an unexpected one reveals no internals."""
    known = error if isinstance(error, HoldfastError) else wire.internal_error(error)
    headers = {}
    if isinstance(known, AuthenticationRequired):
        headers["www-authenticate"] = "Bearer"
    if isinstance(known, MethodNotAllowed):
        headers["allow"] = ", ".join(known.details["allow"])
    if isinstance(known, TooLarge):
        headers["connection"] = "close"
    if known.retryable:
        headers["retry-after"] = str(wire.RETRY_AFTER_SECONDS)
    return Response(
        wire.encode(known.to_json()),
        status_code=wire.STATUS[known.code],
        headers=headers,
        media_type="application/json",
    )


def log_error(error: Exception, scope: Scope, log: ThrottledLog) -> None:
    """Log a server error: where it happened, without request data."""
    where = f"{scope['method']} {scope['path']!r}"
    if not isinstance(error, HoldfastError):
        failed = f"failed with {type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"
        log.error(failed, f"{where} {failed}")
    elif wire.STATUS[error.code] >= 500:
        log.error(error.message, f"{where}: {error.message}")

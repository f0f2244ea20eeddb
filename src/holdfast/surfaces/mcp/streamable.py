"""MCP over streamable HTTP: the SDK's transport and sessions with our answers."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.app import Holdfast
from holdfast.features.llm.sampling import use_sampling
from holdfast.kernel.context import Caller, Progress
from holdfast.kernel.errors import OperationCancelled, OutcomeUnknown, TimedOut
from holdfast.surfaces.mcp import identity
from holdfast.surfaces.mcp.answers import (
    METHODS,
    Answers,
    RequestContext,
    error_result,
    progress_reporter,
    to_protocol_error,
)
from holdfast.surfaces.mcp.client_requests_http import HttpClientRequests
from holdfast.surfaces.mcp.protocol import EXTENSIONS, INSTRUCTIONS, NAME, TITLE, stamp_result
from holdfast.version import __version__

THREADS = 8
WRITE_THREADS = 4
"""Threads for writes. The store takes one at a time; waiting writes must not delay reads."""
MODEL_THREADS = 4
"""Threads for calls that use a model."""
WAIT_THREADS = 32
"""Threads for calls that wait for hooks."""
GRACE_SECONDS = 5.0
"""Seconds a timed-out call has to report whether it committed."""
MAX_SESSIONS = 1000
IDLE_SECONDS = 30 * 60

Context = ServerRequestContext[Any, Any]


def endpoint(holdfast: Holdfast, profile: str | None = None) -> tuple[ASGIApp, AbstractAsyncContextManager[None]]:
    """Return the ASGI application and its lifespan context, which must be entered once.

    It serves the handshake revisions in sessions, and the stateless one. The caller is `scope["state"]["caller"]`,
    set by the authentication before it.
    """
    served = Endpoint(holdfast, holdfast.settings.mcp_profile if profile is None else profile)
    return served, served.running()


class HandshakeServer(Server[Any]):
    """The SDK's server; in a handshake it lists the extensions as experimental capabilities."""

    def create_initialization_options(self, *given: Any, **more: Any) -> InitializationOptions:
        return super().create_initialization_options(*given, **{"experimental_capabilities": EXTENSIONS} | more)


class Endpoint:
    """An MCP server over HTTP."""

    def __init__(
        self, holdfast: Holdfast, profile: str, *, grace: float = GRACE_SECONDS, max_sessions: int = MAX_SESSIONS
    ) -> None:
        self._holdfast = holdfast
        self._grace = grace
        self._answers = Answers(holdfast, profile)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-mcp")
        self._writers = ThreadPoolExecutor(WRITE_THREADS, thread_name_prefix="holdfast-mcp-writer")
        self._askers = ThreadPoolExecutor(MODEL_THREADS, thread_name_prefix="holdfast-mcp-asker")
        self._waiters = ThreadPoolExecutor(WAIT_THREADS, thread_name_prefix="holdfast-mcp-waiter")
        self._manager = StreamableHTTPSessionManager(
            self.server(),
            max_request_body_size=holdfast.settings.body_limit,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=max_sessions,
        )

    def server(self) -> Server[Any]:
        """Build the SDK's server with our answers, for any transport."""
        server = HandshakeServer(
            NAME,
            version=__version__,
            title=TITLE,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=self._answers.input_schema,
        )
        server.extensions = EXTENSIONS
        for method in METHODS:
            server.add_request_handler(method, types.RequestParams, self._handle)
        return server

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            async with self._manager.run():
                yield
        finally:
            for pool in (self._pool, self._writers, self._askers, self._waiters):
                pool.shutdown(wait=True, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the SDK, which binds a session to the user who opened it."""
        caller = scope.get("state", {}).get("caller")
        await self._manager.handle_request({**scope, "user": _session_user(caller)} if caller else scope, receive, send)

    async def _handle(self, context: Context, _: types.RequestParams) -> dict[str, Any]:
        """Answer a request of either era."""
        asked = partial(RequestContext, context.protocol_version, partial(self._caller, context))
        work = partial(self._answers.answer, context.method, context.params)
        try:
            return await self._within_time(context, lambda progress: work(asked(progress)))
        except Exception as error:  # noqa: BLE001 - the SDK would reveal an unknown error's text
            if isinstance(error, (TimedOut, OutcomeUnknown)) and context.method == "tools/call":
                return stamp_result(context.method, context.protocol_version, error_result(error))
            raise _to_mcp_error(error) from None

    async def _within_time(self, context: Context, work: Callable[[Progress], dict[str, Any]]) -> dict[str, Any]:
        """Run work in a thread, with a time limit. After a timeout or cancellation it writes nothing more."""
        loop, stop = asyncio.get_running_loop(), threading.Event()
        reports: list[Future[None]] = []

        def tell(done: int, total: int, what: str) -> None:
            reports.append(asyncio.run_coroutine_threadsafe(context.session.report_progress(done, total, what), loop))

        progress, asking = Progress(progress_reporter(context.params, tell), stop), HttpClientRequests(context, loop)
        pool = self._pool_for(context)
        with use_sampling(asking.sampler()):
            job = loop.run_in_executor(pool, copy_context().run, work, progress)
        job.add_done_callback(_consume_error)
        try:
            await asyncio.wait({job}, timeout=self._holdfast.settings.timeout_secs)
            if not job.done():
                stop.set()
                asking.close()
                await asyncio.wait({job}, timeout=self._grace)
            await asyncio.gather(*map(asyncio.wrap_future, reports), return_exceptions=True)
            return job.result()
        except OperationCancelled:
            raise TimedOut from None
        except asyncio.InvalidStateError:
            progress.require_not_committing()
            raise TimedOut from None
        finally:
            stop.set()
            asking.close()

    def _pool_for(self, context: Context) -> ThreadPoolExecutor:
        """Choose the thread pool, so a call that waits for a hook or a model delays no others."""
        if self._answers.may_run_hooks(context.method, context.params):
            return self._waiters
        if self._answers.may_ask_model(context.method, context.params):
            return self._askers
        return self._writers if self._answers.may_write(context.method, context.params) else self._pool

    def _caller(self, context: Context) -> Caller:
        """Return the authenticated caller, under its program's name."""
        scope = context.request.scope if context.request is not None else {}
        caller = scope.get("state", {}).get("caller") or self._holdfast.ctx.caller
        client = context.session.client_params
        return identity.as_client(caller, client.client_info.name if client else None, _remote_host(scope))


def _consume_error(job: "asyncio.Future[Any]") -> None:
    """Retrieve the error of an abandoned call, so asyncio does not log it."""
    if not job.cancelled():
        job.exception()


def _remote_host(scope: Mapping[str, Any]) -> str | None:
    """Return the address of a remote client, or None for this machine."""
    host = str((scope.get("client") or ("127.0.0.1",))[0])
    return None if host == "::1" or host.startswith("127.") else host


def _session_user(caller: Caller) -> AuthenticatedUser:
    """Return the owner of a session: its key and, if fixed, its agent."""
    subject = caller.agent if caller.has_fixed_agent else None
    return AuthenticatedUser(AccessToken(token="", client_id=caller.key or "", scopes=[], subject=subject))


def _to_mcp_error(error: Exception) -> MCPError:
    refused = to_protocol_error(error)
    return MCPError(refused.code, refused.message, refused.data)

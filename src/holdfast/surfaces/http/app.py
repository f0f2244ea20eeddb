"""The HTTP application: a route for each operation, and a few other pages."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.app import Holdfast
from holdfast.features.memories.views import MemoryView
from holdfast.integrations.ai_memory import http as compat
from holdfast.kernel.context import Caller, Progress
from holdfast.kernel.errors import HoldfastError, MethodNotAllowed, NotFound
from holdfast.kernel.registry.encoding import to_wire
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.http import event_stream, openapi, page, peer_authentication
from holdfast.surfaces.http import gzip as compression
from holdfast.surfaces.http.authentication import authenticate
from holdfast.surfaces.http.background_jobs import run_background_jobs
from holdfast.surfaces.http.metrics import CONTENT_TYPE, Metrics
from holdfast.surfaces.http.middleware import RequestMiddleware
from holdfast.surfaces.http.request_parsing import has_body, parse_arguments, read_body
from holdfast.surfaces.http.thread_pool import TimedThreadPool
from holdfast.version import __version__

PUBLIC_PATHS = frozenset({"/health", "/api/v1/health", *(path for path, _ in page.list_files())})
"""Paths that need no key: they reveal no stored data."""

PROBE_SECONDS = 5.0
WRITE_THREADS = 4
"""Threads for writes. The store takes one at a time; waiting writes must not delay reads."""
MODEL_THREADS = 4
"""Threads for operations that call a model."""
WAIT_THREADS = 32
"""Threads for operations that wait for other stores or for hooks, so these delay no others."""
Lifespan = AbstractAsyncContextManager[Any]


def build_app(
    holdfast: Holdfast, mcp: tuple[ASGIApp, Lifespan] | None = None, operations: Iterable[Operation] = REGISTRY
) -> Starlette:
    """Build the ASGI application of an open store, with MCP at /mcp if given."""
    site = Site(holdfast, operations)
    routes = [Route(path, OperationRoute(site, verbs)) for path, verbs in group_by_path(operations)]
    routes += [Route(path, PageRoute(site, answer)) for path, answer in site.page_handlers().items()]
    if mcp is not None:
        routes.append(Route("/mcp", MountedApp(site, "mcp", mcp[0])))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(site.close)
            await stack.enter_async_context(run_background_jobs(holdfast))
            if mcp is not None:
                await stack.enter_async_context(mcp[1])
            yield

    front = Middleware(RequestMiddleware, settings=holdfast.settings, metrics=site.metrics)
    app = Starlette(routes=routes, middleware=[front], lifespan=lifespan)
    app.router.redirect_slashes = False
    app.router.default = UnknownRoute(site)
    app.state.closing = site.closing
    return app


def group_by_path(operations: Iterable[Operation]) -> list[tuple[str, dict[str, Operation]]]:
    """Group the operations by path and method; literal paths come before parameters, longer ones first."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        for route in openapi.routes_of(operation):
            method, path = route.split()
            paths.setdefault(path, {}).setdefault(method, operation)
    ordered = sorted(paths, key=lambda path: [*((part.startswith("{"), part) for part in path.split("/")), (True, "~")])
    return [(re.sub(r"{(namespace|skill_id)}", r"{\1:path}", path), paths[path]) for path in ordered]


class Site:
    """State shared by the routes of one application."""

    def __init__(self, holdfast: Holdfast, operations: Iterable[Operation]) -> None:
        self.holdfast = holdfast
        self.operations = operations
        self.threads = TimedThreadPool(holdfast.settings.timeout_secs)
        self.write_threads = TimedThreadPool(holdfast.settings.timeout_secs, threads=WRITE_THREADS)
        self.model_threads = TimedThreadPool(holdfast.settings.timeout_secs, threads=MODEL_THREADS)
        self.wait_threads = TimedThreadPool(holdfast.settings.timeout_secs, threads=WAIT_THREADS)
        self.probe = TimedThreadPool(PROBE_SECONDS, threads=1)
        self.metrics = Metrics()
        self.closing = asyncio.Event()
        self.watch = event_stream.ChangeWatcher(holdfast.ctx.store.wait_for_commit, self.closing)

    def close(self) -> None:
        self.threads.close()
        self.write_threads.close()
        self.model_threads.close()
        self.wait_threads.close()
        self.probe.close()

    def page_handlers(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        return {
            "/health": self.health,
            "/api/v1/health": self.health,
            "/metrics": self.metrics_page,
            "/api/v1/metrics": self.metrics_page,
            "/openapi.json": self.openapi_page,
            **dict.fromkeys(page.load_assets(), page.serve_asset),
        }

    async def identify_caller(self, scope: Scope) -> None:
        """Authenticate the caller and set `scope["state"]["caller"]`."""
        headers = scope["headers"]
        scope["state"]["caller"] = await self.threads.run(lambda _: authenticate(self.holdfast, headers))

    async def find_claim(self, scope: Scope) -> peer_authentication.Claim | None:
        """Return the peer that claims to have signed a request, on paths for peers."""
        if not peer_authentication.is_for_peers(scope["path"]):
            return None
        return await self.threads.run(lambda _: peer_authentication.find_claim(self.holdfast, scope))

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Run an operation for a request and build the response."""
        if operation.feed and event_stream.accepts_event_stream(request):
            return await self.stream(operation, request)
        body, claim = b"", await self.find_claim(request.scope)
        if has_body(request):
            if claim is None:
                await self.identify_caller(request.scope)
            body = await read_body(request, self.holdfast.settings, operation.most_bytes)
        if claim is not None:
            proof = partial(peer_authentication.verify_claim, self.holdfast, claim, body)
            request.scope["state"]["caller"] = await self.write_threads.run(lambda _: proof())
        writes = operation.effect is not Effect.READ
        watched = wait_for_disconnect(request) if writes or operation.reports else None
        threads = self.pool_for(operation)
        content, status, headers = await threads.run(partial(self.run_operation, operation, request, body), watched)
        return Response(content, status, headers, media_type="application/json")

    def pool_for(self, operation: Operation) -> TimedThreadPool:
        """Choose the thread pool, so a call that waits for a hook or a model delays no others."""
        if operation.has_hooks(self.holdfast.ctx):
            return self.wait_threads
        if operation.asks and self.holdfast.ctx.model is not None:
            return self.model_threads
        if operation.effect is Effect.READ:
            return self.threads
        waits = self.holdfast.settings.quorum_writes and not operation.path.startswith(
            peer_authentication.PEER_ONLY_PREFIX
        )
        return self.wait_threads if waits else self.write_threads

    def run_operation(
        self, operation: Operation, request: Request, body: bytes, progress: Progress
    ) -> tuple[bytes, int, dict[str, str]]:
        """Do the blocking part. Without a body the caller is authenticated here too, which saves a second thread."""
        caller = request.scope["state"].get("caller") or authenticate(self.holdfast, request.scope["headers"])
        arguments = parse_arguments(operation, request, compression.decompress_body(operation, request, body))
        call = partial(self.call, caller, progress)
        answer = call(operation, arguments)
        shown = compat.shape_answer(
            operation.name, answer, compat.CompatRequest(body, lambda id: call(REGISTRY["get"], {"id": id}))
        )
        headers = {"etag": f'"{answer.version}"'} if isinstance(answer, MemoryView) else {}
        waits = operation.waits and answer.status == "pending"
        content, more = compression.compress_answer(operation, request, wire.encode(shown))
        proof = peer_authentication.sign_answer(self.holdfast, request.scope, content)
        return content, wire.PENDING_STATUS if waits else operation.status, headers | more | proof

    def call(self, caller: Caller, progress: Progress, operation: Operation, arguments: dict[str, Any]) -> Any:
        return to_wire(operation.call(self.holdfast.ctx, caller, arguments, progress))

    async def stream(self, operation: Operation, request: Request) -> Response:
        """Stream a feed. Every poll authenticates again, so a revoked key sees no more."""
        asked = parse_arguments(operation, request, b"")

        def look(more: dict[str, int], progress: Progress) -> Any:
            caller = authenticate(self.holdfast, request.scope["headers"])
            return self.call(caller, progress, operation, {**asked, **more})

        async def page(after: int) -> Any:
            return await self.threads.run(partial(look, {"after": after}))

        first = await self.threads.run(partial(look, {}))
        return StreamingResponse(
            self.count_stream(event_stream.stream_events(first, page, self.watch)), media_type=event_stream.MEDIA_TYPE
        )

    async def count_stream(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.metrics.streams += 1
        try:
            async for event in events:
                yield event
        finally:
            self.metrics.streams -= 1

    async def health(self, _: Request) -> Response:
        """Answer whether the store can be read; uses a reserved thread, so load does not delay it."""
        try:
            await self.probe.run(self.check_store)
            status = "ok"
        except HoldfastError:
            status = "error"
        body = {"status": status, "service": "holdfast", "version": __version__}
        return Response(wire.encode(body), 200 if status == "ok" else 503, media_type="application/json")

    def check_store(self, _: Progress) -> None:
        with self.holdfast.ctx.reading() as session:
            session.row("journal_head_get")

    async def metrics_page(self, request: Request) -> Response:
        text = await self.threads.run(lambda _: self.metrics.text(self.holdfast, request.state.caller))
        return Response(text, media_type=CONTENT_TYPE)

    async def openapi_page(self, _: Request) -> Response:
        return Response(self.description, media_type="application/json")

    @cached_property
    def description(self) -> bytes:
        return wire.encode(openapi.build_document(self.operations))


async def wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class OperationRoute:
    """Route one path to its operations by method."""

    def __init__(self, site: Site, operations: dict[str, Operation]) -> None:
        self._site = site
        self._operations = operations
        self._allow = sorted({*operations, *(["HEAD"] if "GET" in operations else [])})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self._operations.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            await self._site.identify_caller(scope)
            raise MethodNotAllowed(allow=self._allow)
        scope["state"]["operation"] = operation.name
        await (await self._site.answer(operation, request))(scope, receive, send)


class PageRoute:
    """Route one path to a page that is not an operation."""

    def __init__(self, site: Site, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._site = site
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in PUBLIC_PATHS:
            await self._site.identify_caller(scope)
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(allow=["GET", "HEAD"])
        await (await self._answer(Request(scope, receive)))(scope, receive, send)


class MountedApp:
    """Mount another application at a path; it finds its caller in `scope["state"]["caller"]`."""

    def __init__(self, site: Site, name: str, app: ASGIApp) -> None:
        self._site = site
        self._name = name
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._site.identify_caller(scope)
        scope["state"]["operation"] = self._name
        await self._app(scope, receive, send)


class UnknownRoute:
    """Answer every other path with 404; without a key with 401, which does not reveal the paths."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._site.identify_caller(scope)
        raise NotFound("There is nothing at this path; see /openapi.json.")

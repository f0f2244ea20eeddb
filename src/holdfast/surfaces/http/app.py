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
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import HoldfastError, NotAllowed, NotFound
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.http import event_stream as feed
from holdfast.surfaces.http import gzip as packing
from holdfast.surfaces.http import openapi, page
from holdfast.surfaces.http import peer_authentication as guard_peer
from holdfast.surfaces.http.authentication import authenticate
from holdfast.surfaces.http.background_jobs import chores
from holdfast.surfaces.http.metrics import CONTENT_TYPE, Metrics
from holdfast.surfaces.http.middleware import Front
from holdfast.surfaces.http.request_parsing import arguments_of, body_of, is_carrying
from holdfast.surfaces.http.thread_pool import Threads
from holdfast.version import __version__

OPEN = frozenset({"/health", "/api/v1/health", *(path for path, _ in page.files())})
"""Paths that need no key: they reveal no stored data."""

PROBE_SECONDS = 5.0
WRITERS = 4
"""Threads for writes. The store takes one at a time; waiting writes must not delay reads."""
ASKERS = 4
"""Threads for operations that call a model."""
WAITERS = 32
"""Threads for operations that wait for other stores or for hooks, so these delay no others."""
Lifespan = AbstractAsyncContextManager[Any]


def build(
    holdfast: Holdfast, mcp: tuple[ASGIApp, Lifespan] | None = None, operations: Iterable[Operation] = REGISTRY
) -> Starlette:
    """Build the ASGI application of an open store, with MCP at /mcp if given."""
    site = Site(holdfast, operations)
    routes = [Route(path, Verbs(site, verbs)) for path, verbs in by_path(operations)]
    routes += [Route(path, Page(site, answer)) for path, answer in site.pages().items()]
    if mcp is not None:
        routes.append(Route("/mcp", Beside(site, "mcp", mcp[0])))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(site.close)
            await stack.enter_async_context(chores(holdfast))
            if mcp is not None:
                await stack.enter_async_context(mcp[1])
            yield

    front = Middleware(Front, settings=holdfast.settings, metrics=site.metrics)
    app = Starlette(routes=routes, middleware=[front], lifespan=lifespan)
    app.router.redirect_slashes = False
    app.router.default = Nowhere(site)
    app.state.closing = site.closing
    return app


def by_path(operations: Iterable[Operation]) -> list[tuple[str, dict[str, Operation]]]:
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
        self.threads = Threads(holdfast.settings.timeout_secs)
        self.writers = Threads(holdfast.settings.timeout_secs, threads=WRITERS)
        self.askers = Threads(holdfast.settings.timeout_secs, threads=ASKERS)
        self.waiters = Threads(holdfast.settings.timeout_secs, threads=WAITERS)
        self.probe = Threads(PROBE_SECONDS, threads=1)
        self.metrics = Metrics()
        self.closing = asyncio.Event()
        self.watch = feed.Watch(holdfast.hold.store.wait, self.closing)

    def close(self) -> None:
        self.threads.close()
        self.writers.close()
        self.askers.close()
        self.waiters.close()
        self.probe.close()

    def pages(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        return {
            "/health": self.health,
            "/api/v1/health": self.health,
            "/metrics": self.measured,
            "/api/v1/metrics": self.measured,
            "/openapi.json": self.described,
            **dict.fromkeys(page.assets(), page.shown),
        }

    async def admit(self, scope: Scope) -> None:
        """Authenticate the caller and set `scope["state"]["caller"]`."""
        headers = scope["headers"]
        scope["state"]["caller"] = await self.threads.run(lambda _: authenticate(self.holdfast, headers))

    async def claimed(self, scope: Scope) -> guard_peer.Claim | None:
        """Return the peer that claims to have signed a request, on paths for peers."""
        if not guard_peer.is_for_peers(scope["path"]):
            return None
        return await self.threads.run(lambda _: guard_peer.claimed(self.holdfast, scope))

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Run an operation for a request and build the response."""
        if operation.feed and feed.is_wanted(request):
            return await self.stream(operation, request)
        body, claim = b"", await self.claimed(request.scope)
        if is_carrying(request):
            if claim is None:
                await self.admit(request.scope)
            body = await body_of(request, self.holdfast.settings, operation.most_bytes)
        if claim is not None:
            proof = partial(guard_peer.proven, self.holdfast, claim, body)
            request.scope["state"]["caller"] = await self.writers.run(lambda _: proof())
        writes = operation.effect is not Effect.READ
        watched = gone(request) if writes or operation.reports else None
        threads = self.pool_for(operation)
        content, status, headers = await threads.run(partial(self.work, operation, request, body), watched)
        return Response(content, status, headers, media_type="application/json")

    def pool_for(self, operation: Operation) -> Threads:
        """Choose the thread pool, so a call that waits for a hook or a model delays no others."""
        if operation.has_hooks(self.holdfast.hold):
            return self.waiters
        if operation.asks and self.holdfast.hold.model is not None:
            return self.askers
        if operation.effect is Effect.READ:
            return self.threads
        waits = self.holdfast.settings.quorum_writes and not operation.path.startswith(guard_peer.PEERS_ALONE)
        return self.waiters if waits else self.writers

    def work(
        self, operation: Operation, request: Request, body: bytes, progress: Progress
    ) -> tuple[bytes, int, dict[str, str]]:
        """Do the blocking part. Without a body the caller is authenticated here too, which saves a second thread."""
        caller = request.scope["state"].get("caller") or authenticate(self.holdfast, request.scope["headers"])
        arguments = arguments_of(operation, request, packing.unpacked(operation, request, body))
        call = partial(self.call, caller, progress)
        answer = call(operation, arguments)
        shown = compat.shaped(operation.name, answer, compat.Asked(body, lambda id: call(REGISTRY["get"], {"id": id})))
        headers = {"etag": f'"{answer.version}"'} if isinstance(answer, MemoryView) else {}
        waits = operation.waits and answer.status == "pending"
        content, more = packing.packed(operation, request, wire.encode(shown))
        proof = guard_peer.answered(self.holdfast, request.scope, content)
        return content, wire.WAITING if waits else operation.status, headers | more | proof

    def call(self, caller: Caller, progress: Progress, operation: Operation, arguments: dict[str, Any]) -> Any:
        return operation.call(self.holdfast.hold, caller, arguments, progress)

    async def stream(self, operation: Operation, request: Request) -> Response:
        """Stream a feed. Every poll authenticates again, so a revoked key sees no more."""
        asked = arguments_of(operation, request, b"")

        def look(more: dict[str, int], progress: Progress) -> Any:
            caller = authenticate(self.holdfast, request.scope["headers"])
            return self.call(caller, progress, operation, {**asked, **more})

        async def page(after: int) -> Any:
            return await self.threads.run(partial(look, {"after": after}))

        first = await self.threads.run(partial(look, {}))
        return StreamingResponse(self.counted(feed.events(first, page, self.watch)), media_type=feed.MEDIA_TYPE)

    async def counted(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.metrics.streams += 1
        try:
            async for event in events:
                yield event
        finally:
            self.metrics.streams -= 1

    async def health(self, _: Request) -> Response:
        """Answer whether the store can be read; uses a reserved thread, so load does not delay it."""
        try:
            await self.probe.run(self.reads)
            status = "ok"
        except HoldfastError:
            status = "error"
        body = {"status": status, "service": "holdfast", "version": __version__}
        return Response(wire.encode(body), 200 if status == "ok" else 503, media_type="application/json")

    def reads(self, _: Progress) -> None:
        with self.holdfast.hold.reading() as session:
            session.row("chain_head")

    async def measured(self, request: Request) -> Response:
        text = await self.threads.run(lambda _: self.metrics.text(self.holdfast, request.state.caller))
        return Response(text, media_type=CONTENT_TYPE)

    async def described(self, _: Request) -> Response:
        return Response(self.description, media_type="application/json")

    @cached_property
    def description(self) -> bytes:
        return wire.encode(openapi.describe(self.operations))


async def gone(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Verbs:
    """Route one path to its operations by method."""

    def __init__(self, site: Site, operations: dict[str, Operation]) -> None:
        self._site = site
        self._operations = operations
        self._allow = sorted({*operations, *(["HEAD"] if "GET" in operations else [])})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self._operations.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            await self._site.admit(scope)
            raise NotAllowed(allow=self._allow)
        scope["state"]["operation"] = operation.name
        await (await self._site.answer(operation, request))(scope, receive, send)


class Page:
    """Route one path to a page that is not an operation."""

    def __init__(self, site: Site, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._site = site
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in OPEN:
            await self._site.admit(scope)
        if scope["method"] not in ("GET", "HEAD"):
            raise NotAllowed(allow=["GET", "HEAD"])
        await (await self._answer(Request(scope, receive)))(scope, receive, send)


class Beside:
    """Mount another application at a path; it finds its caller in `scope["state"]["caller"]`."""

    def __init__(self, site: Site, name: str, app: ASGIApp) -> None:
        self._site = site
        self._name = name
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._site.admit(scope)
        scope["state"]["operation"] = self._name
        await self._app(scope, receive, send)


class Nowhere:
    """Answer every other path with 404; without a key with 401, which does not reveal the paths."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._site.admit(scope)
        raise NotFound("There is nothing at this path; see /openapi.json.")

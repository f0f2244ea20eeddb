"""The HTTP application: a route for each path of the operations, and the few pages that are none."""

import asyncio
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

from ...app import Holdfast
from ...domain.caller import Caller
from ...domain.errors import HoldfastError, NotAllowed, NotFound
from ...operations import REGISTRY, Effect, Operation
from ...operations.views import MemoryView
from ...services.hold import Progress
from ...version import __version__
from .. import wire
from . import compat, feed, openapi
from .asking import arguments_of, body_of
from .chores import chores
from .front import Front
from .guard import authenticate
from .metrics import CONTENT_TYPE, Metrics
from .threads import Threads

Lifespan = AbstractAsyncContextManager[Any]


def build(holdfast: Holdfast, mcp: tuple[ASGIApp, Lifespan] | None = None) -> Starlette:
    """An open memory as an ASGI application, with MCP at /mcp if that is given."""
    site = Site(holdfast)
    routes = [Route(path, Verbs(site, operations)) for path, operations in by_path(REGISTRY)]
    routes += [Route(path, Page(answer)) for path, answer in site.pages().items()]
    if mcp is not None:
        routes.append(Route("/mcp", Named("mcp", mcp[0])))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(site.threads.close)
            await stack.enter_async_context(chores(holdfast))
            if mcp is not None:
                await stack.enter_async_context(mcp[1])
            yield

    front = Middleware(Front, holdfast=holdfast, threads=site.threads, metrics=site.metrics)
    app = Starlette(routes=routes, middleware=[front], lifespan=lifespan)
    app.router.redirect_slashes = False
    app.router.default = nowhere
    app.state.closing = site.closing
    return app


def by_path(operations: Iterable[Operation]) -> list[tuple[str, dict[str, Operation]]]:
    """What each method on each path does; literal paths come before those with a parameter."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        for route in openapi.routes_of(operation):
            method, path = route.split()
            paths.setdefault(path, {}).setdefault(method, operation)
    ordered = sorted(paths, key=lambda path: [(part.startswith("{"), part) for part in path.split("/")])
    return [(path.replace("{namespace}", "{namespace:path}"), paths[path]) for path in ordered]


async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound("There is nothing at this path; /openapi.json says what there is.")


class Site:
    """What the routes of one application share."""

    def __init__(self, holdfast: Holdfast) -> None:
        self.holdfast = holdfast
        self.threads = Threads(holdfast.settings.timeout_secs)
        self.metrics = Metrics()
        self.closing = asyncio.Event()

    def pages(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        return {
            "/health": self.health,
            "/api/v1/health": self.health,
            "/metrics": self.measured,
            "/api/v1/metrics": self.measured,
            "/openapi.json": self.described,
        }

    async def answer(self, operation: Operation, request: Request) -> Response:
        """What an operation answers to a request."""
        if operation.feed and feed.is_wanted(request):
            return await self.stream(operation, request)
        settings = self.holdfast.settings
        body = await body_of(request, settings.body_limit, settings.timeout_secs)
        watched = gone(request) if operation.effect is not Effect.READ or operation.reports else None
        content, headers = await self.threads.run(partial(self.work, operation, request, body), watched)
        return Response(content, operation.status, headers, media_type="application/json")

    def work(
        self, operation: Operation, request: Request, body: bytes, progress: Progress
    ) -> tuple[bytes, dict[str, str]]:
        """The part of it that blocks."""
        arguments = arguments_of(operation, request, body)
        call = partial(self.call, request.state.caller, progress)
        answer = call(operation, arguments)
        shown = compat.shaped(operation.name, answer, compat.Asked(body, lambda id: call(REGISTRY["get"], {"id": id})))
        return wire.encode(shown), {"etag": f'"{answer.version}"'} if isinstance(answer, MemoryView) else {}

    def call(self, caller: Caller, progress: Progress, operation: Operation, arguments: dict[str, Any]) -> Any:
        return operation.call(self.holdfast.hold, caller, arguments, progress)

    async def stream(self, operation: Operation, request: Request) -> Response:
        """A feed as it grows. Each look asks for the key again: one that is revoked sees no more."""
        place = feed.place_of(request)
        asked = arguments_of(operation, request, b"")

        def look(after: int | None, progress: Progress) -> Any:
            caller = authenticate(self.holdfast, request.scope["headers"])
            return self.call(caller, progress, operation, asked if after is None else {**asked, "after": after})

        async def page(after: int | None) -> Any:
            return await self.threads.run(partial(look, after))

        return StreamingResponse(
            self.counted(feed.events(await page(place), page, self.closing)), media_type=feed.MEDIA_TYPE
        )

    async def counted(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.metrics.streams += 1
        try:
            async for event in events:
                yield event
        finally:
            self.metrics.streams -= 1

    async def health(self, _: Request) -> Response:
        """Whether the store can be read, and nothing more."""
        try:
            await self.threads.run(self.reads)
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
        return wire.encode(openapi.describe(REGISTRY))


async def gone(request: Request) -> None:
    """Return when the caller has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Verbs:
    """One path of the operations."""

    def __init__(self, site: Site, operations: dict[str, Operation]) -> None:
        self._site = site
        self._operations = operations
        self._allow = sorted({*operations, *(["HEAD"] if "GET" in operations else [])})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self._operations.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            raise NotAllowed(allow=self._allow)
        scope["state"]["operation"] = operation.name
        await (await self._site.answer(operation, request))(scope, receive, send)


class Page:
    """One path that only shows something."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method not in ("GET", "HEAD"):
            raise NotAllowed(allow=["GET", "HEAD"])
        await (await self._answer(request))(scope, receive, send)


class Named:
    """Another application at a path, measured under its name. A class: a function would be taken for an endpoint."""

    def __init__(self, name: str, app: ASGIApp) -> None:
        self._name = name
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["operation"] = self._name
        await self._app(scope, receive, send)

"""Every MCP answer as plain dictionaries, shared by the stdio loop and the HTTP endpoint."""

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.app import Holdfast
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import TEXT_UPPER_BOUND
from holdfast.kernel.context import SILENT, Caller, Context, Progress
from holdfast.kernel.errors import HoldfastError, Invalid, NotFound, OperationCancelled
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.registry.encoding import to_wire
from holdfast.kernel.timestamps import format_timestamp
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.mcp import prompts, skills
from holdfast.surfaces.mcp.fence import fence_answer
from holdfast.surfaces.mcp.protocol import (
    CAPABILITIES,
    EXTENSIONS,
    HANDSHAKE,
    INSTRUCTIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    STATELESS,
    ProtocolError,
    convert_params,
    stamp_result,
)
from holdfast.surfaces.mcp.schema import hidden_fields
from holdfast.surfaces.mcp.tools import describe_tools, explain_unknown_tool, select_tools

SCHEME = "memory://"
Report = Callable[[int, int, str], None]
PAGE = 50
"""Resources per page."""
SKILLS_CURSOR = "skill/"
"""Prefix of the cursor of a page of skills; a memory id cannot start with it."""
MEMORIES_CURSOR = TEXT_UPPER_BOUND
"""Cursor of the first page that lists memories only."""


class NoParams(Struct, frozen=True):
    """No parameters."""


class PageParams(Struct, frozen=True):
    cursor: Annotated[str, Meta(max_length=128, pattern="^[^\\x00]+$")] | None = None


class CallTool(Struct, frozen=True):
    name: str
    arguments: dict[str, Any] | None = None


class ReadResource(Struct, frozen=True):
    uri: str


class GetPrompt(Struct, frozen=True):
    name: str
    arguments: dict[str, str] | None = None


@dataclass(frozen=True)
class RequestContext:
    """A request: its protocol revision, its caller and its progress, which also carries cancellation."""

    version: str
    caller: Callable[[], Caller]
    """Looked up at each call, because a key may have been revoked."""
    progress: Progress = SILENT


class Answers:
    """The answers of a server under one profile."""

    def __init__(self, holdfast: Holdfast, profile: str) -> None:
        self.profile = profile
        self._holdfast = holdfast
        self.tools = select_tools(profile)
        self._offered = frozenset(op.name for op in self.tools.values())

    @property
    def ctx(self) -> Context:
        """The context limited to the profile's tools; built at each call, as the server sets its quorum later."""
        return replace(self._holdfast.ctx, offered=self._offered)

    def answer(self, method: str, params: Mapping[str, Any] | None, request: RequestContext) -> dict[str, Any]:
        """Return the result of a request; raise a protocol error, or Cancelled if it was cancelled before it wrote."""
        if not serves(method, request.version):
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", method)
        type, answer = METHODS[method]
        return stamp_result(method, request.version, answer(self, convert_params(params, type), request))

    def may_write(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request may write."""
        operation = self._called_operation(method, params)
        return operation is not None and operation.effect is not Effect.READ

    def is_short_write(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request is a short write, which later requests wait for."""
        operation = self._called_operation(method, params)
        short = operation is not None and operation.effect is not Effect.READ and not operation.reports
        return short and not self.may_ask_model(method, params)

    def may_ask_model(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request may wait for a model."""
        operation = self._called_operation(method, params)
        return operation is not None and operation.asks and self.ctx.model is not None

    def may_run_hooks(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request may wait for a hook."""
        operation = self._called_operation(method, params)
        return operation is not None and operation.has_hooks(self.ctx)

    def _called_operation(self, method: str, params: Mapping[str, Any] | None) -> Operation | None:
        return self.tools.get(str((params or {}).get("name"))) if method == "tools/call" else None

    @cached_property
    def _tool_list(self) -> list[dict[str, Any]]:
        return describe_tools(self.tools)

    def input_schema(self, tool: str) -> dict[str, Any] | None:
        return next((one["inputSchema"] for one in self._tool_list if one["name"] == tool), None)

    def ping(self, params: NoParams, request: RequestContext) -> dict[str, Any]:
        return {}

    def discover(self, params: NoParams, request: RequestContext) -> dict[str, Any]:
        able = {**CAPABILITIES, "extensions": EXTENSIONS}
        return {"supportedVersions": list(STATELESS), "capabilities": able, "instructions": INSTRUCTIONS}

    def list_tools(self, params: PageParams, request: RequestContext) -> dict[str, Any]:
        _check_no_cursor(params)
        return {"tools": self._tool_list}

    def call_tool(self, params: CallTool, request: RequestContext) -> dict[str, Any]:
        """Call an operation. An error is a tool result too, with its stable code."""
        operation = self.tools.get(params.name)
        if operation is None:
            raise ProtocolError(INVALID_PARAMS, explain_unknown_tool(params.name, self.profile))
        try:
            return _tool_result(operation, self._run(operation, params.arguments or {}, request))
        except OperationCancelled:
            raise
        except HoldfastError as error:
            return error_result(error)
        except Exception as error:  # noqa: BLE001 - the caller gets an error result, the log the cause
            _log(error)
            return error_result(wire.internal_error(error))

    def _run(self, operation: Operation, arguments: dict[str, Any], request: RequestContext) -> Any:
        for name in hidden_fields(operation) & set(arguments):
            raise Invalid(f"{name}: unknown field", fields=[name])
        answer = to_wire(operation.call(self.ctx, request.caller(), arguments, request.progress))
        if operation.effect is Effect.READ:
            # A finished write is always answered; a cancelled read is not.
            request.progress.check()
        return answer

    def list_resources(self, params: PageParams, request: RequestContext) -> dict[str, Any]:
        """List the skills, then the memories visible to the caller, newest first, page by page."""
        ctx = self.ctx.for_caller(request.caller(), request.progress)
        cursor = params.cursor or SKILLS_CURSOR
        with ctx.reading() as session:
            if cursor.startswith(SKILLS_CURSOR):
                found, after = skills.page(ctx, session, cursor.removeprefix(SKILLS_CURSOR), PAGE)
                listed = [skills.skill_resource(shown) for shown in found]
                if after is not None:
                    return {"resources": listed, "nextCursor": SKILLS_CURSOR + after}
                cursor = TEXT_UPPER_BOUND
            else:
                listed = []
            most = PAGE - len(listed)
            newest = memories.list_newest(session, ctx.caller, ctx.now(), before=cursor, limit=most + 1)
        listed += map(_memory_resource, newest[:most])
        if len(newest) <= most:
            return {"resources": listed}
        return {"resources": listed, "nextCursor": newest[most - 1].id if most else MEMORIES_CURSOR}

    def list_templates(self, params: PageParams, request: RequestContext) -> dict[str, Any]:
        _check_no_cursor(params)
        template = {
            "uriTemplate": SCHEME + "{id}",
            "name": "memory",
            "description": "One memory by its id, fenced as data.",
            "mimeType": "text/plain",
        }
        return {"resourceTemplates": [template, skills.TEMPLATE]}

    def read_resource(self, params: ReadResource, request: RequestContext) -> dict[str, Any]:
        if params.uri.startswith(skills.SCHEME):
            return {"contents": [self._skill_content(params.uri, request)]}
        id = params.uri.removeprefix(SCHEME).removesuffix("/") if params.uri.startswith(SCHEME) else ""
        try:
            if not id:
                raise NotFound
            got = to_wire(REGISTRY["get"].call(self.ctx, request.caller(), {"id": id}, request.progress))
        except (NotFound, Invalid):
            raise _not_found(params.uri, request.version) from None
        return {"contents": [{"uri": params.uri, "mimeType": "text/plain", "text": fence_answer(got)}]}

    def _skill_content(self, uri: str, request: RequestContext) -> dict[str, Any]:
        ctx = self.ctx.for_caller(request.caller(), request.progress)
        with ctx.reading() as session:
            place = skills.find_skill(ctx, session, uri)
            found = None if place is None else skills.read_content(session, place, uri)
        if found is None:
            raise _not_found(uri, request.version)
        return found

    def list_skills(self, params: PageParams, request: RequestContext) -> dict[str, Any]:
        """List the current skills visible to the caller, each with its files, page by page."""
        ctx = self.ctx.for_caller(request.caller(), request.progress)
        with ctx.reading() as session:
            found, after = skills.page(ctx, session, params.cursor or "")
            listed = skills.list_entries(ctx, session, found)
        return {"skills": listed, **({} if after is None else {"nextCursor": after})}

    def get_skill(self, params: skills.UriParams, request: RequestContext) -> dict[str, Any]:
        shown, path = self._find_skill(params.uri, request)
        if path != skills.MANIFEST:
            raise ProtocolError(INVALID_PARAMS, "Not the SKILL.md of a skill", {"uri": params.uri})
        ctx = self.ctx.for_caller(request.caller(), request.progress)
        with ctx.reading() as session:
            return {"skill": skills.list_entries(ctx, session, [shown])[0]}

    def read_directory(self, params: skills.DirectoryParams, request: RequestContext) -> dict[str, Any]:
        if params.cursor is not None:
            raise ProtocolError(INVALID_PARAMS, "Invalid cursor: this list has one page")
        shown, path = self._find_skill(params.uri, request)
        found = skills.list_children(shown, path)
        if not found:
            raise ProtocolError(INVALID_PARAMS, "Not a directory", {"uri": params.uri})
        return {"resources": found}

    def _find_skill(self, uri: str, request: RequestContext) -> skills.SkillPath:
        ctx = self.ctx.for_caller(request.caller(), request.progress)
        with ctx.reading() as session:
            place = skills.find_skill(ctx, session, uri)
        if place is None:
            raise ProtocolError(INVALID_PARAMS, "No such skill", {"uri": uri})
        return place

    def list_prompts(self, params: PageParams, request: RequestContext) -> dict[str, Any]:
        _check_no_cursor(params)
        return {"prompts": prompts.list_prompts()}

    def get_prompt(self, params: GetPrompt, request: RequestContext) -> dict[str, Any]:
        return prompts.get_prompt(params.name, params.arguments or {})


METHODS: dict[str, tuple[type[Struct], Callable[[Answers, Any, RequestContext], dict[str, Any]]]] = {
    "ping": (NoParams, Answers.ping),
    "server/discover": (NoParams, Answers.discover),
    "tools/list": (PageParams, Answers.list_tools),
    "tools/call": (CallTool, Answers.call_tool),
    "resources/list": (PageParams, Answers.list_resources),
    "resources/templates/list": (PageParams, Answers.list_templates),
    "resources/read": (ReadResource, Answers.read_resource),
    "resources/directory/read": (skills.DirectoryParams, Answers.read_directory),
    "skills/list": (PageParams, Answers.list_skills),
    "skills/get": (skills.UriParams, Answers.get_skill),
    "prompts/list": (PageParams, Answers.list_prompts),
    "prompts/get": (GetPrompt, Answers.get_prompt),
}
_SINGLE_ERA = {"ping": HANDSHAKE, "server/discover": STATELESS}


def serves(method: str, version: str) -> bool:
    """Return whether a method exists in a revision."""
    return method in METHODS and version in _SINGLE_ERA.get(method, HANDSHAKE + STATELESS)


def to_protocol_error(error: Exception) -> ProtocolError:
    """Convert an error outside a tool call to a JSON-RPC error."""
    if isinstance(error, ProtocolError):
        return error
    if not isinstance(error, HoldfastError):
        _log(error)
        error = wire.internal_error(error)
    code = INVALID_PARAMS if isinstance(error, Invalid) else INTERNAL_ERROR
    return ProtocolError(code, error.message, error.to_json())


def _log(error: Exception) -> None:
    """Log where an error happened, without request data."""
    trace = "".join(traceback.format_tb(error.__traceback__))
    logging.getLogger("holdfast").error("MCP failed with %s\n%s", type(error).__name__, trace)


def progress_reporter(params: Mapping[str, Any] | None, send: Report) -> Report:
    """Return the progress callback of a call: it reports only advances, and only if the call has a progress token."""
    furthest = -1

    def report(done: int, total: int, what: str) -> None:
        nonlocal furthest
        if done > furthest:
            furthest = done
            send(done, total, what)

    return _silent if progress_token(params) is None else report


def progress_token(params: Mapping[str, Any] | None) -> int | str | None:
    meta = (params or {}).get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, int | str) and not isinstance(token, bool) else None


def _silent(done: int, total: int, what: str) -> None:
    pass


def _memory_resource(memory: Memory) -> dict[str, Any]:
    return {
        "uri": SCHEME + memory.id,
        "name": memory.title,
        "description": f"In {memory.namespace}, by {memory.agent}, changed {format_timestamp(memory.updated_at)}.",
        "mimeType": "text/plain",
    }


def _not_found(uri: str, version: str) -> ProtocolError:
    return ProtocolError(
        RESOURCE_NOT_FOUND if version in HANDSHAKE else INVALID_PARAMS, "Resource not found", {"uri": uri}
    )


def _check_no_cursor(params: PageParams) -> None:
    if params.cursor is not None:
        raise ProtocolError(INVALID_PARAMS, "Invalid cursor: this list has one page")


def _tool_result(operation: Operation, answer: Any) -> dict[str, Any]:
    text = fence_answer(answer, with_content=operation.effect is Effect.READ)
    return {"content": [{"type": "text", "text": text}], "structuredContent": wire.plain(answer), "isError": False}


def error_result(error: HoldfastError) -> dict[str, Any]:
    """Convert an error to a tool result."""
    body = error.to_json()
    text = {"type": "text", "text": wire.encode(body).decode()}
    return {"content": [text], "structuredContent": body, "isError": True}

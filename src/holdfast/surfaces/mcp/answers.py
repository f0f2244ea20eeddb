"""Every MCP answer as plain dictionaries, shared by the stdio loop and the HTTP endpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.app import Holdfast
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import LONGEST_TEXT
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import SILENT, Hold, Progress
from holdfast.kernel.errors import Cancelled, HoldfastError, Invalid, NotFound
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.timestamps import to_text
from holdfast.operations import REGISTRY, Effect, Operation
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.mcp import prompts, skills
from holdfast.surfaces.mcp.fence import fenced
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
    Refused,
    params_of,
    stamped,
)
from holdfast.surfaces.mcp.schema import hidden
from holdfast.surfaces.mcp.tools import beyond, families, listed, offered

SCHEME = "memory://"
Report = Callable[[int, int, str], None]
PAGE = 50
"""Resources per page."""
SKILLS_FROM = "skill/"
"""Prefix of the cursor of a page of skills; a memory id cannot start with it."""
MEMORIES_FROM = LONGEST_TEXT
"""Cursor of the first page that lists memories only."""


class Plain(Struct, frozen=True):
    """No parameters."""


class Paged(Struct, frozen=True):
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
class Asked:
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
        self._within = families(profile)
        self.tools = offered(self._within)

    @property
    def hold(self) -> Hold:
        """The context limited to the profile's families; built at each call, as the server sets its quorum later."""
        return replace(self._holdfast.hold, families=self._within)

    def answer(self, method: str, params: Mapping[str, Any] | None, asked: Asked) -> dict[str, Any]:
        """Return the result of a request; raise a protocol error, or Cancelled if it was cancelled before it wrote."""
        if not serves(method, asked.version):
            raise Refused(METHOD_NOT_FOUND, "Method not found", method)
        type, answer = METHODS[method]
        return stamped(method, asked.version, answer(self, params_of(params, type), asked))

    def writes(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request may write."""
        operation = self._called(method, params)
        return operation is not None and operation.effect is not Effect.READ

    def writes_shortly(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request is a short write, which later requests wait for."""
        operation = self._called(method, params)
        short = operation is not None and operation.effect is not Effect.READ and not operation.reports
        return short and not self.asks(method, params)

    def asks(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request may wait for a model."""
        operation = self._called(method, params)
        return operation is not None and operation.asks and self.hold.model is not None

    def has_hooks(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether a request may wait for a hook."""
        operation = self._called(method, params)
        return operation is not None and operation.has_hooks(self.hold)

    def _called(self, method: str, params: Mapping[str, Any] | None) -> Operation | None:
        return self.tools.get(str((params or {}).get("name"))) if method == "tools/call" else None

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        return listed(self.tools)

    def input_schema(self, tool: str) -> dict[str, Any] | None:
        return next((one["inputSchema"] for one in self._listed if one["name"] == tool), None)

    def ping(self, params: Plain, asked: Asked) -> dict[str, Any]:
        return {}

    def discover(self, params: Plain, asked: Asked) -> dict[str, Any]:
        able = {**CAPABILITIES, "extensions": EXTENSIONS}
        return {"supportedVersions": list(STATELESS), "capabilities": able, "instructions": INSTRUCTIONS}

    def list_tools(self, params: Paged, asked: Asked) -> dict[str, Any]:
        _only_page(params)
        return {"tools": self._listed}

    def call_tool(self, params: CallTool, asked: Asked) -> dict[str, Any]:
        """Call an operation. An error is a tool result too, with its stable code."""
        operation = self.tools.get(params.name)
        if operation is None:
            raise Refused(INVALID_PARAMS, beyond(params.name, self.profile))
        try:
            return _told(operation, self._run(operation, params.arguments or {}, asked))
        except Cancelled:
            raise
        except HoldfastError as error:
            return failed(error)
        except Exception as error:  # noqa: BLE001 - the caller gets an error result, the log the cause
            _log(error)
            return failed(wire.internal(error))

    def _run(self, operation: Operation, arguments: dict[str, Any], asked: Asked) -> Any:
        for name in hidden(operation) & set(arguments):
            raise Invalid(f"{name}: unknown field", fields=[name])
        answer = operation.call(self.hold, asked.caller(), arguments, asked.progress)
        if operation.effect is Effect.READ:
            # A finished write is always answered; a cancelled read is not.
            asked.progress.check()
        return answer

    def list_resources(self, params: Paged, asked: Asked) -> dict[str, Any]:
        """List the skills, then the memories visible to the caller, newest first, page by page."""
        hold = self.hold.seen_by(asked.caller(), asked.progress)
        cursor = params.cursor or SKILLS_FROM
        with hold.reading() as session:
            if cursor.startswith(SKILLS_FROM):
                found, after = skills.page(hold, session, cursor.removeprefix(SKILLS_FROM), PAGE)
                listed = [skills.resource(shown) for shown in found]
                if after is not None:
                    return {"resources": listed, "nextCursor": SKILLS_FROM + after}
                cursor = LONGEST_TEXT
            else:
                listed = []
            most = PAGE - len(listed)
            newest = memories.newest(session, hold.caller, hold.now(), before=cursor, limit=most + 1)
        listed += map(_memory_resource, newest[:most])
        if len(newest) <= most:
            return {"resources": listed}
        return {"resources": listed, "nextCursor": newest[most - 1].id if most else MEMORIES_FROM}

    def list_templates(self, params: Paged, asked: Asked) -> dict[str, Any]:
        _only_page(params)
        template = {
            "uriTemplate": SCHEME + "{id}",
            "name": "memory",
            "description": "One memory by its id, fenced as data.",
            "mimeType": "text/plain",
        }
        return {"resourceTemplates": [template, skills.TEMPLATE]}

    def read_resource(self, params: ReadResource, asked: Asked) -> dict[str, Any]:
        if params.uri.startswith(skills.SCHEME):
            return {"contents": [self._skill_content(params.uri, asked)]}
        id = params.uri.removeprefix(SCHEME).removesuffix("/") if params.uri.startswith(SCHEME) else ""
        try:
            if not id:
                raise NotFound
            got = REGISTRY["get"].call(self.hold, asked.caller(), {"id": id}, asked.progress)
        except (NotFound, Invalid):
            raise _not_found(params.uri, asked.version) from None
        return {"contents": [{"uri": params.uri, "mimeType": "text/plain", "text": fenced(got)}]}

    def _skill_content(self, uri: str, asked: Asked) -> dict[str, Any]:
        hold = self.hold.seen_by(asked.caller(), asked.progress)
        with hold.reading() as session:
            place = skills.placed(hold, session, uri)
            found = None if place is None else skills.content(session, place, uri)
        if found is None:
            raise _not_found(uri, asked.version)
        return found

    def list_skills(self, params: Paged, asked: Asked) -> dict[str, Any]:
        """List the current skills visible to the caller, each with its files, page by page."""
        hold = self.hold.seen_by(asked.caller(), asked.progress)
        with hold.reading() as session:
            found, after = skills.page(hold, session, params.cursor or "")
            listed = skills.entries(hold, session, found)
        return {"skills": listed, **({} if after is None else {"nextCursor": after})}

    def get_skill(self, params: skills.Named, asked: Asked) -> dict[str, Any]:
        shown, path = self._placed(params.uri, asked)
        if path != skills.MANIFEST:
            raise Refused(INVALID_PARAMS, "Not the SKILL.md of a skill", {"uri": params.uri})
        hold = self.hold.seen_by(asked.caller(), asked.progress)
        with hold.reading() as session:
            return {"skill": skills.entries(hold, session, [shown])[0]}

    def read_directory(self, params: skills.Browsed, asked: Asked) -> dict[str, Any]:
        if params.cursor is not None:
            raise Refused(INVALID_PARAMS, "Invalid cursor: this list has one page")
        shown, path = self._placed(params.uri, asked)
        found = skills.children(shown, path)
        if not found:
            raise Refused(INVALID_PARAMS, "Not a directory", {"uri": params.uri})
        return {"resources": found}

    def _placed(self, uri: str, asked: Asked) -> skills.Place:
        hold = self.hold.seen_by(asked.caller(), asked.progress)
        with hold.reading() as session:
            place = skills.placed(hold, session, uri)
        if place is None:
            raise Refused(INVALID_PARAMS, "No such skill", {"uri": uri})
        return place

    def list_prompts(self, params: Paged, asked: Asked) -> dict[str, Any]:
        _only_page(params)
        return {"prompts": prompts.listed()}

    def get_prompt(self, params: GetPrompt, asked: Asked) -> dict[str, Any]:
        return prompts.got(params.name, params.arguments or {})


METHODS: dict[str, tuple[type[Struct], Callable[[Answers, Any, Asked], dict[str, Any]]]] = {
    "ping": (Plain, Answers.ping),
    "server/discover": (Plain, Answers.discover),
    "tools/list": (Paged, Answers.list_tools),
    "tools/call": (CallTool, Answers.call_tool),
    "resources/list": (Paged, Answers.list_resources),
    "resources/templates/list": (Paged, Answers.list_templates),
    "resources/read": (ReadResource, Answers.read_resource),
    "resources/directory/read": (skills.Browsed, Answers.read_directory),
    "skills/list": (Paged, Answers.list_skills),
    "skills/get": (skills.Named, Answers.get_skill),
    "prompts/list": (Paged, Answers.list_prompts),
    "prompts/get": (GetPrompt, Answers.get_prompt),
}
_OF_ONE_ERA = {"ping": HANDSHAKE, "server/discover": STATELESS}


def serves(method: str, version: str) -> bool:
    """Return whether a method exists in a revision."""
    return method in METHODS and version in _OF_ONE_ERA.get(method, HANDSHAKE + STATELESS)


def refusal(error: Exception) -> Refused:
    """Convert an error outside a tool call to a JSON-RPC error."""
    if isinstance(error, Refused):
        return error
    if not isinstance(error, HoldfastError):
        _log(error)
        error = wire.internal(error)
    code = INVALID_PARAMS if isinstance(error, Invalid) else INTERNAL_ERROR
    return Refused(code, error.message, error.body())


def _log(error: Exception) -> None:
    """Log where an error happened, without request data."""
    import logging
    import traceback

    trace = "".join(traceback.format_tb(error.__traceback__))
    logging.getLogger("holdfast").error("MCP failed with %s\n%s", type(error).__name__, trace)


def reporting(params: Mapping[str, Any] | None, tell: Report) -> Report:
    """Return the progress callback of a call: it reports only advances, and only if the call has a progress token."""
    furthest = -1

    def report(done: int, total: int, what: str) -> None:
        nonlocal furthest
        if done > furthest:
            furthest = done
            tell(done, total, what)

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
        "description": f"In {memory.namespace}, by {memory.agent}, changed {to_text(memory.updated_at)}.",
        "mimeType": "text/plain",
    }


def _not_found(uri: str, version: str) -> Refused:
    return Refused(RESOURCE_NOT_FOUND if version in HANDSHAKE else INVALID_PARAMS, "Resource not found", {"uri": uri})


def _only_page(params: Paged) -> None:
    if params.cursor is not None:
        raise Refused(INVALID_PARAMS, "Invalid cursor: this list has one page")


def _told(operation: Operation, answer: Any) -> dict[str, Any]:
    text = fenced(answer, with_content=operation.effect is Effect.READ)
    return {"content": [{"type": "text", "text": text}], "structuredContent": wire.plain(answer), "isError": False}


def failed(error: HoldfastError) -> dict[str, Any]:
    """Convert an error to a tool result."""
    body = error.body()
    text = {"type": "text", "text": wire.encode(body).decode()}
    return {"content": [text], "structuredContent": body, "isError": True}

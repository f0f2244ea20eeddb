"""Parse a request strictly into arguments: query, body, path and headers."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.requests import ClientDisconnect, Request

from holdfast.integrations.ai_memory import http as compat
from holdfast.kernel.errors import Invalid, OperationCancelled, TooLarge, WrongMediaType
from holdfast.kernel.registry.operation import Operation
from holdfast.kernel.registry.words import parse_words
from holdfast.settings import Settings

MAX_FIELDS = 200
_JSON = re.compile(r"application/(?:json|[a-z0-9.+-]+\+json)", re.I)
_VERSION = re.compile(r'"([0-9]{1,16})"|([0-9]{1,16})')


def has_body(request: Request) -> bool:
    """Return whether a request has a body or declares a content type."""
    headers = request.headers
    if request.method not in ("GET", "HEAD") and "content-type" in headers:
        return True
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


async def read_body(request: Request, settings: Settings, max_bytes: int | None = None) -> bytes:
    """Read the body; reject another content type than JSON, too many bytes, and a body that comes too late."""
    check_content_type(request)
    limit, declared = max_bytes or settings.body_limit, request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise TooLarge(f"A body has at most {limit} bytes.")
    body = bytearray()
    try:
        async with asyncio.timeout(settings.timeout_secs):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise TooLarge(f"A body has at most {limit} bytes.")
    except TimeoutError:
        raise Invalid("The body did not arrive in time.") from None
    except ClientDisconnect:
        raise OperationCancelled from None
    return bytes(body)


def check_content_type(request: Request) -> None:
    """Require a JSON content type, which a form of another site cannot send without a preflight."""
    if request.method in ("GET", "HEAD"):
        raise Invalid(f"{request.method} takes no body: put the fields into the query.")
    if not _JSON.fullmatch(request.headers.get("content-type", "").partition(";")[0].strip()):
        raise WrongMediaType


def parse_arguments(operation: Operation, request: Request, body: bytes) -> dict[str, Any]:
    """Merge the arguments of query, body, path and headers; two different values of a field are an error."""
    arguments: dict[str, Any] = {}
    for part in (
        parse_words(operation, compat.rename_fields(operation.name, query_fields(request))),
        body_fields(operation, body),
        parse_words(operation, {name: [text] for name, text in request.path_params.items()}),
        expected_version(operation, request),
    ):
        for name, value in part.items():
            if arguments.setdefault(name, value) != value:
                raise Invalid(f"{name}: given twice", fields=[name])
    if unheard := hidden_fields(operation) & arguments.keys():
        raise Invalid(f"{', '.join(sorted(unheard))}: not available over HTTP", fields=sorted(unheard))
    return (
        compat.route_defaults(request.method, request.scope["path"]) | arguments | resume_position(operation, request)
    )


def hidden_fields(operation: Operation) -> set[str]:
    """Return the fields that are not available over HTTP."""
    names = (field.encode_name for field in operation.fields)
    return {name for name in names if "http" in (operation.field_option(name, "not_on") or ())}


def query_fields(request: Request) -> dict[str, list[str]]:
    query: bytes = request.scope["query_string"]
    if not query:
        return {}
    try:
        return parse_qs(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Invalid(f"The query must be valid UTF-8 and have at most {MAX_FIELDS} fields.") from None


def body_fields(operation: Operation, body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    given = decode_json(body)
    if isinstance(given, list) and operation.bulk is not None:
        return {operation.bulk: given}
    if not isinstance(given, dict):
        raise Invalid("The body must be a JSON object.")
    return compat.body_fields(operation.name, given)


def decode_json(body: bytes) -> Any:
    """Decode strict JSON: valid UTF-8, finite numbers, no lone surrogates, no duplicate names."""
    try:
        given = msgspec.json.decode(body)
        json.loads(body.decode(), object_pairs_hook=_reject_duplicates)
    except RecursionError:
        raise Invalid("The body is nested too deeply.") from None
    except ValueError as error:
        if _has_lone_surrogate(body):
            raise Invalid("The body is not valid Unicode text (a lone surrogate).") from None
        raise Invalid(f"The body is not valid JSON: {error}") from None
    return given


def _has_lone_surrogate(body: bytes) -> bool:
    """Return whether the body is JSON except for a lone surrogate, for which the parser has no clear error."""
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Invalid(f"{twice}: given twice", fields=[twice])
    return found


def resume_position(operation: Operation, request: Request) -> dict[str, int]:
    """Return where a disconnected client resumes a feed; Last-Event-ID overrides the query."""
    given = request.headers.get("last-event-id")
    if not operation.feed or given is None:
        return {}
    if not re.fullmatch(r"[0-9]{1,15}", given):
        raise Invalid("Last-Event-ID: must be a sequence number", fields=["Last-Event-ID"])
    return {"after": int(given)}


def expected_version(operation: Operation, request: Request) -> dict[str, int]:
    """Return the version that If-Match requires; reject it where there is no version to compare."""
    given = request.headers.getlist("if-match")
    if not given or given == ["*"]:
        return {}
    found = _VERSION.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        raise Invalid('If-Match: must be one version, such as "3"', fields=["If-Match"])
    if all(field.encode_name != "expected_version" for field in operation.fields):
        raise Invalid("If-Match: this operation has no version to compare", fields=["If-Match"])
    return {"expected_version": int(found[1] or found[2])}

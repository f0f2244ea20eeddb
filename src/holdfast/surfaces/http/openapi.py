"""The OpenAPI 3.1 document, generated from the operations."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from holdfast.features.memories.views import MemoryView
from holdfast.integrations.ai_memory import http as compat
from holdfast.kernel.registry.encoding import wire_type
from holdfast.kernel.registry.words import order_enums
from holdfast.operations import Operation
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.http.request_parsing import hidden_fields
from holdfast.version import __version__

Json = dict[str, Any]
REF = "#/components/schemas/{name}"
JSON_TYPE = "application/json"
IN_QUERY = ("GET", "DELETE")


def routes_of(operation: Operation) -> tuple[str, ...]:
    """Return an operation's HTTP route and its older ones."""
    if "http" not in operation.surfaces:
        return ()
    return (f"{operation.method} {operation.path}", *compat.ROUTES.get(operation.name, ()))


def build_document(operations: Iterable[Operation]) -> Json:
    """Build the OpenAPI document."""
    routed = [operation for operation in operations if routes_of(operation)]
    answers, schemas = msgspec.json.schema_components(
        [*(wire_type(op.answer) for op in routed), *(op.request for op in routed)], ref_template=REF
    )
    for operation in routed:
        order_enums(schemas[operation.request.__name__]["properties"], operation.request)
    paths: dict[str, Json] = page_paths()
    for operation, answer in zip(routed, answers, strict=False):
        for number, route in enumerate(routes_of(operation)):
            method, path = route.split()
            paths.setdefault(path, {}).setdefault(
                method.lower(), describe_route(operation, method, path, number, schemas, answer)
            )
    for name, properties in compat.SCHEMAS.items():
        if name in schemas:
            schemas[name] = {**schemas[name], "properties": {**schemas[name]["properties"], **properties}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "summary": "One persistent memory for every AI agent.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"bearer": []}, {"key": []}],
        "tags": [{"name": family} for family in sorted({op.family for op in routed})],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": ERROR},
            "responses": {
                "Error": {"description": "The request was rejected or failed.", "content": json_content(REF, "Error")}
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


ERROR: Json = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "What is wrong, and what to do."},
        "code": {"enum": sorted(wire.STATUS), "description": "Stable; the same on every surface."},
        "retryable": {"const": True, "description": "Nothing was written; the same request may succeed later."},
        "fields": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["error", "code"],
}
ERROR_RESPONSES: Json = {code: {"$ref": "#/components/responses/Error"} for code in ("4XX", "5XX")}


def json_content(template: str, name: str) -> Json:
    return {JSON_TYPE: {"schema": {"$ref": template.format(name=name)}}}


def success_statuses(operation: Operation) -> list[int]:
    """Return the statuses of a successful answer."""
    return [operation.status, wire.PENDING_STATUS] if operation.waits else [operation.status]


def describe_route(operation: Operation, method: str, path: str, number: int, schemas: Json, answer: Json) -> Json:
    """Describe one method on one path."""
    schema = route_schema(operation, schemas[operation.request.__name__], compat.route_defaults(method, path))
    in_path = re.findall(r"{(\w+)}", path)
    found: Json = {
        "operationId": operation.name if number == 0 else f"{operation.name}_{number}",
        "tags": [operation.family],
        "summary": operation.summary,
        "description": route_description(operation, method),
        "parameters": [*route_parameters(operation, schema, in_path, method)],
        "responses": {str(status): success_response(operation, answer) for status in success_statuses(operation)}
        | ERROR_RESPONSES,
    }
    if method not in IN_QUERY and set(schema["properties"]) - set(in_path):
        found["requestBody"] = request_body(operation, schema, in_path)
    return found


def route_schema(operation: Operation, schema: Json, defaults: Json) -> Json:
    """Return the request schema of a route: without fields hidden on HTTP, with the route's defaults."""
    properties = {name: field for name, field in schema["properties"].items() if name not in hidden_fields(operation)}
    own = {name: {**properties[name], "default": value} for name, value in defaults.items()}
    required = [name for name in schema.get("required", ()) if name not in defaults]
    return {**schema, "properties": {**properties, **own}, "required": required}


def route_description(operation: Operation, method: str) -> str:
    said = [operation.description, f"Needs the {operation.right} right."]
    if operation.at_least_one and method in IN_QUERY:
        said.append(f"At least one of {', '.join(operation.at_least_one)} is required.")
    if operation.name in compat.ALIASES:
        also = (f"{name} for {field}" for name, field in compat.ALIASES[operation.name].items())
        said.append(f"Also accepted: {', '.join(also)}.")
    return "\n\n".join(said)


def success_response(operation: Operation, answer: Json) -> Json:
    found: Json = {"description": operation.summary, "content": {JSON_TYPE: {"schema": answer}}}
    if operation.feed:
        found["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    if issubclass(operation.answer, MemoryView):
        found["headers"] = {"ETag": {"schema": {"type": "string"}, "description": "The memory's version, quoted."}}
    return found


def route_parameters(operation: Operation, schema: Json, in_path: list[str], method: str) -> Iterator[Json]:
    for name, field in schema["properties"].items():
        if name in in_path:
            yield {"name": name, "in": "path", "required": True, "schema": without_null(field)}
        elif method in IN_QUERY:
            needed = name in schema["required"]
            yield {"name": name, "in": "query", "required": needed, "schema": without_null(field)}
    if "expected_version" in schema["properties"]:
        yield {
            "name": "If-Match",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "pattern": '^("[1-9][0-9]{0,14}"|[1-9][0-9]{0,14})$'},
            "description": "expected_version as a header.",
        }
    if operation.feed:
        yield {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"}}


def without_null(field: Json) -> Json:
    """Remove null from a field's schema: a query has no null."""
    rest = {name: value for name, value in field.items() if not (name == "default" and value is None)}
    kinds = [kind for kind in rest.pop("anyOf", ()) if kind.get("type") != "null"]
    return {**kinds[0], **rest} if len(kinds) == 1 else {**rest, "anyOf": kinds} if kinds else rest


def request_body(operation: Operation, schema: Json, in_path: list[str]) -> Json:
    """Describe the request body: the fields that are not in the path."""
    properties = {name: field for name, field in schema["properties"].items() if name not in in_path}
    required = [name for name in schema["required"] if name not in in_path]
    found: Json = {**schema, "properties": properties, "required": required}
    if operation.at_least_one:
        found["anyOf"] = [
            {"required": [name], "properties": {name: without_null(properties[name])}}
            for name in operation.at_least_one
        ]
    if instead := operation.bulk or operation.whole:
        found = {"anyOf": [found, properties[instead]]}
    return {"required": bool(required or operation.at_least_one), "content": {JSON_TYPE: {"schema": found}}}


def page_paths() -> dict[str, Json]:
    """Describe the paths that are not operations."""
    health: Json = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("status", "service", "version")},
        "required": ["status", "service", "version"],
    }
    healthy: Json = {"description": "Whether the store can be read.", "content": {JSON_TYPE: {"schema": health}}}
    measured: Json = {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    itself: Json = {"description": "This document.", "content": {JSON_TYPE: {"schema": {"type": "object"}}}}
    healthy_page = page_path("Check the health of the server.", {"200": healthy, "503": healthy}, security=[{}])
    return {
        "/api/v1/health": healthy_page("health"),
        "/health": healthy_page("health_1"),
        "/api/v1/metrics": page_path("Measure the server.", {"200": measured})("metrics"),
        "/metrics": page_path("Measure the server.", {"200": measured})("metrics_1"),
        "/openapi.json": page_path("Return this OpenAPI document.", {"200": itself})("openapi"),
    }


def page_path(summary: str, answers: Json, **more: Any) -> Callable[[str], Json]:
    """Describe a path that is not an operation, under a given operation id."""
    return lambda name: {
        "get": {"operationId": name, "summary": summary, "responses": {**ERROR_RESPONSES, **answers}, **more}
    }

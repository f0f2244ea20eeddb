"""The OpenAPI document is complete and correct, and no documented request breaks the server."""

import json
import os
import re
import subprocess
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from serving import open_http_client, serve_app, with_settings

import holdfast
from engines import Postgres
from holdfast import Holdfast, __version__
from holdfast.operations import REGISTRY
from holdfast.surfaces import error_responses as wire
from holdfast.surfaces.http.app import build_app
from holdfast.surfaces.http.openapi import build_document, routes_of
from timeouts import TIMEOUT

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    allow_header_conformance,
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_for_fuzzing(str(tmp_path_factory.mktemp("fuzzed") / "memory.db")) as found:
        yield found


@pytest.fixture(scope="module")
def postgres_url(postgres: Postgres) -> Iterator[str]:
    with postgres.new_store() as db, serve_for_fuzzing(db) as found:
        yield found


@contextmanager
def serve_for_fuzzing(db: str) -> Iterator[str]:
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        for number in range(3):
            hold.store(title=f"Memory {number}", content="Something to find.", namespace="team")
        with serve_app(build_app(with_settings(hold, api_key=KEY))) as found:
            yield found


DOCUMENT = json.loads(wire.encode(build_document(REGISTRY)))
OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()]
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))
KEY = "a key of the settings, so that those which are made and revoked lock nobody out"
MAX_CHARACTERS = 50_000
"""Beyond this the server does not read an address, and says so in its own words."""

session = requests.Session()
session.headers["x-api-key"] = KEY


MODES = pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
ROOT = Path(__file__).parents[3]


@pytest.mark.full
@MODES
def test_no_request_breaks_the_server_and_every_answer_matches_its_description(url: str, mode: GenerationMode) -> None:
    assert list_failures(url, OPERATIONS, mode, EXAMPLES) == []


@pytest.mark.full
def test_no_request_breaks_a_server_over_postgresql(postgres_url: str) -> None:
    assert list_failures(postgres_url, OPERATIONS, GenerationMode.POSITIVE, max(2, EXAMPLES // 2)) == []


@MODES
def test_no_request_for_a_sample_of_operations_breaks_the_server(url: str, mode: GenerationMode) -> None:
    """Return a fixed sample of operations, and some of the most recently changed."""
    always = Random(7).sample(OPERATIONS, 20)
    changed = [operation for operation in OPERATIONS if is_changed(operation)]
    assert list_failures(url, always + Random(7).sample(changed, min(20, len(changed))), mode, EXAMPLES) == []


def is_changed(operation: APIOperation) -> bool:
    """Whether the module that declares an operation changed since the previous commit."""
    name = operation.definition.raw["operationId"]
    declared = [op for op in REGISTRY if name == op.name or re.fullmatch(rf"{op.name}_[0-9]+", name)]
    return any(f"src/{op.run.__module__.replace('.', '/')}.py" in changed_files() for op in declared)


@cache
def changed_files() -> frozenset[str]:
    """Return None without git or without a previous commit."""
    try:
        command = ["git", "diff", "--name-only", "HEAD~1", "--", "src/holdfast"]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except OSError:
        return frozenset()
    return frozenset(found.stdout.split())


def list_failures(url: str, operations: list[APIOperation], mode: GenerationMode, examples: int) -> list[str]:
    failures = []
    for operation in operations:
        try:
            fuzz(url, operation, mode, examples)
        except (Exception, FailureGroup) as failure:  # noqa: BLE001 - the other operations are tried all the same
            failures.append(f"{operation.label}: {''.join(traceback.format_exception_only(failure))}")
    return failures


def fuzz(url: str, operation: APIOperation, mode: GenerationMode, examples: int) -> None:
    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case) -> None:
        assume(len(case.as_curl_command()) < MAX_CHARACTERS)
        case.call_and_validate(base_url=url, session=session, checks=CHECKS)

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_openapi_document_is_complete() -> None:
    for reference in set(references(DOCUMENT)):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    ids = [method["operationId"] for path in DOCUMENT["paths"].values() for method in path.values()]
    assert len(ids) == len(set(ids))
    assert (DOCUMENT["openapi"], DOCUMENT["info"]["version"]) == ("3.1.0", __version__)


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    routes = {tuple(route.split()) for operation in REGISTRY for route in routes_of(operation)}
    pages = ("/health", "/api/v1/health", "/metrics", "/api/v1/metrics", "/openapi.json")

    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert described == routes | {("GET", page) for page in pages}


def test_the_server_serves_the_document(hold: Holdfast) -> None:
    with open_http_client(hold) as client:
        assert client.get("/openapi.json").json() == DOCUMENT


def test_the_document_states_required_fields_and_defaults() -> None:
    store = DOCUMENT["paths"]["/api/v1/memories"]["post"]
    schema = store["requestBody"]["content"]["application/json"]["schema"]
    search = {parameter["name"]: parameter for parameter in DOCUMENT["paths"]["/api/v1/memories"]["get"]["parameters"]}

    assert store["requestBody"]["required"] is True
    assert (schema["required"], schema["additionalProperties"]) == (["title", "content"], False)
    assert schema["properties"]["on_conflict"]["default"] == "error"
    assert (search["limit"]["in"], search["limit"]["required"], search["limit"]["schema"]["default"]) == (
        "query",
        False,
        20,
    )
    assert DOCUMENT["components"]["securitySchemes"].keys() == {"bearer", "key"}


def test_fields_not_offered_over_http_are_neither_documented_nor_accepted(hold: Holdfast) -> None:
    body = DOCUMENT["paths"]["/api/v1/backup"]["post"]["requestBody"]["content"]["application/json"]["schema"]

    assert "to" not in body["properties"]
    with open_http_client(hold) as client:
        refused = client.post("/api/v1/backup", json={"to": "/tmp/elsewhere"})
    assert (refused.status_code, refused.json()["fields"]) == (400, ["to"])

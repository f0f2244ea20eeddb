"""Skills over HTTP: the routes and names known from ai-memory, and no server path."""

import base64
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import holdfast
from holdfast.surfaces.http.app import build_app

TEXT = "---\nname: deploy\ndescription: How we deploy.\n---\n# Deploy\n"


@pytest.fixture
def http(hold: holdfast.Holdfast) -> Iterator[TestClient]:
    with TestClient(build_app(hold), base_url="http://127.0.0.1") as client:
        yield client


def register_skill(http: TestClient, **more: Any) -> dict[str, Any]:
    reply = http.post("/api/v1/skill/register", json={"inline_skill": TEXT, "namespace": "team", **more})
    assert reply.status_code == 201, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


def test_a_skill_is_registered_found_and_read_under_the_known_names(http: TestClient) -> None:
    made = register_skill(http, files=[{"path": "scripts/run.sh", "content": "make\n"}])
    assert {"registered", "id", "namespace", "name", "digest", "signed"} <= made.keys()
    listed = http.get("/api/v1/skill/list", params={"namespace": "team", "filter": "deploy"}).json()
    assert (listed["count"], listed["skills"][0]["id"]) == (1, made["id"])
    got = http.get(f"/api/v1/skill/{made['id']}").json()
    assert (got["body"], got["current"], got["resources"][0]["path"]) == ("# Deploy", True, "scripts/run.sh")
    read = http.get(f"/api/v1/skill/{made['id']}/resource", params={"path": "scripts/run.sh"}).json()
    assert (read["content"], read["resource_kind"], read["digest_verified"]) == ("make\n", "script", True)
    composed = http.post(f"/api/v1/skill/{made['id']}/compose", json={}).json()
    assert (composed["skill_name"], composed["reflections"], composed["budget_tokens"]) == ("deploy", [], 4000)
    assert http.post(f"/api/v1/skill/{made['id']}/export", json={}).json()["exported"] is True


def test_a_skill_is_addressed_by_its_namespace_and_name(http: TestClient) -> None:
    register_skill(http, namespace="home")
    made = register_skill(http, namespace="team/ops", files=[{"path": "a.txt", "content": "x"}])
    assert http.get("/api/v1/skill/deploy").json()["code"] == "AMBIGUOUS_ID_PREFIX"
    for place in ("team%2Fops%2Fdeploy", "team/ops/deploy"):
        assert http.get(f"/api/v1/skill/{place}").json()["id"] == made["id"]
        assert http.get(f"/api/v1/skill/{place}/resource", params={"path": "a.txt"}).json()["content"] == "x"
        assert http.get(f"/api/v1/skill/{place}/history").json()["current"] == made["id"]
        assert http.post(f"/api/v1/skill/{place}/compose", json={}).json()["skill_id"] == made["id"]
    assert http.request("DELETE", "/api/v1/skill/team%2Fops%2Fdeploy").json()["namespace"] == "team/ops"


def test_a_reflection_is_promoted_under_the_known_names(http: TestClient, hold: holdfast.Holdfast) -> None:
    seen = hold.store(title="Late", content="It was late.", namespace="team")
    thought = hold.reflect(source_ids=[seen.id], title="Too late", content="Deploy before noon.")
    reply = http.post(f"/api/v1/skill/{thought.id}/promote", json={"name": "early", "description": "When."})
    assert (reply.status_code, reply.json()["sources_attached"]) == (201, 1)


def test_an_archive_is_uploaded_as_the_body(http: TestClient) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("deploy/SKILL.md")
        info.size = len(TEXT)
        archive.addfile(info, io.BytesIO(TEXT.encode()))
    packed = base64.b64encode(out.getvalue()).decode()
    assert http.post("/api/v1/skill/register", json={"archive": packed}).json()["name"] == "deploy"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/api/v1/skill/register", {"folder_path": "/etc"}), ("/api/v1/skill/{id}/export", {"target_folder": "PLACE"})],
)
def test_no_server_path_can_be_named(http: TestClient, tmp_path: Path, path: str, body: dict[str, str]) -> None:
    made = register_skill(http)
    place = tmp_path / "out"
    arguments = {name: value.replace("PLACE", str(place)) for name, value in body.items()}
    reply = http.post(path.replace("{id}", made["id"]), json=arguments)
    assert (reply.status_code, reply.json()["code"]) == (400, "VALIDATION_FAILED")
    assert not place.exists()


@pytest.mark.parametrize(
    "body",
    [
        {"inline_skill": "---\nname: a\ndescription: !!python/object/apply:os.system ['x']\n---\n"},
        {"inline_skill": "---\na: &a [1]\nb: [*a, *a]\n---\n"},
        {"inline_skill": "---\n- not\n- a mapping\n---\n"},
        {"inline_skill": TEXT, "files": [{"path": "../../x", "content": ""}]},
        {"archive": base64.b64encode(b"PK\x03\x04" + bytes(100)).decode()},
        {"archive": base64.b64encode(b"\x1f\x8b" + bytes(100)).decode()},
    ],
    ids=["tag", "bomb", "no mapping", "slip", "bad zip", "bad gzip"],
)
def test_invalid_input_is_a_client_error_and_leaves_nothing(http: TestClient, body: dict[str, Any]) -> None:
    reply = http.post("/api/v1/skill/register", json=body)
    assert (reply.status_code, reply.json()["code"]) == (400, "VALIDATION_FAILED")
    assert http.get("/api/v1/skill/list").json()["total"] == 0

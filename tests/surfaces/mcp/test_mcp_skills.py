"""Skills over MCP: verifiable entries, exact files, and listable folders."""

from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from mcp_wire import Client, connect_client, connect_with_handshake, initialize, request, stateless

import holdfast
from holdfast.kernel.context import Caller
from holdfast.surfaces.mcp.answers import Answers, RequestContext
from holdfast.surfaces.mcp.protocol import HANDSHAKE, ProtocolError

TEXT = "---\nname: deploy\ndescription: How we deploy.\nmetadata:\n  level: 2\n---\n# Deploy\r\n"
FILES = [
    {"path": "scripts/run.sh", "content": "make\n"},
    {"path": "scripts/more/x.py", "content": "pass\n"},
    {"path": "assets/dot.bin", "content": "AP8=", "encoding": "base64"},
]
ROOT = "skill://team/ops/deploy"


@pytest.fixture
def client(hold: holdfast.Holdfast) -> Iterator[Client]:
    hold.skill_register(inline_skill=TEXT, files=FILES, namespace="team/ops")
    with connect_client(hold) as opened:
        yield opened


def call_method(client: Client, method: str, **params: Any) -> dict[str, Any]:
    reply = client.ask(stateless(1, method, params))
    assert "result" in reply, reply
    result: dict[str, Any] = reply["result"]
    return result


def error_code_of(client: Client, method: str, **params: Any) -> int:
    return int(client.ask(stateless(1, method, params))["error"]["code"])


def test_the_extension_is_declared(client: Client) -> None:
    able = call_method(client, "server/discover")["capabilities"]
    assert able["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert "resources" in able


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_extension_is_declared_in_a_handshake_as_its_revision_allows(hold: holdfast.Holdfast, version: str) -> None:
    with connect_client(hold) as client:
        able = client.ask(initialize(1, version))["result"]["capabilities"]
    assert able["experimental"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}


def test_a_skill_of_a_stale_reflection_is_marked_in_its_entry(hold: holdfast.Holdfast, client: Client) -> None:
    seen = hold.store(title="Seen", content="It rains.").id
    so = hold.reflect(source_ids=[seen], title="So", content="Take a coat.", namespace="team").id
    hold.skill_promote_from_reflection(so, skill_name="coat", skill_description="When to take one.")
    assert all("_meta" not in one for one in call_method(client, "skills/list")["skills"])
    hold.delete(seen)
    meta_by_uri = {one["uri"]: one.get("_meta") for one in call_method(client, "skills/list")["skills"]}
    stale = {"holdfast/stale": {"reason": "stale", "reflection_id": so}}
    assert meta_by_uri == {"skill://team/coat/SKILL.md": stale, f"{ROOT}/SKILL.md": None}
    assert call_method(client, "skills/get", uri="skill://team/coat/SKILL.md")["skill"]["_meta"] == stale


def test_a_read_file_has_the_size_and_digest_of_its_entry(client: Client) -> None:
    (entry,) = call_method(client, "skills/list")["skills"]
    assert entry["frontmatter"] == {"name": "deploy", "description": "How we deploy.", "metadata": {"level": 2}}
    assert [one["uri"] for one in entry["resources"]] == [
        f"{ROOT}/{path}" for path in ("SKILL.md", "assets/dot.bin", "scripts/more/x.py", "scripts/run.sh")
    ]
    for one in entry["resources"]:
        (content,) = call_method(client, "resources/read", uri=one["uri"])["contents"]
        data = content["text"].encode() if "text" in content else b64decode(content["blob"])
        assert (len(data), f"sha256:{sha256(data).hexdigest()}") == (one["size"], one["digest"])
    assert call_method(client, "skills/get", uri=entry["uri"])["skill"] == entry


def test_a_folder_is_listed_level_by_level(client: Client) -> None:
    def names(uri: str) -> dict[str, str]:
        return {
            one["name"]: one["mimeType"]
            for one in call_method(client, "resources/directory/read", uri=uri)["resources"]
        }

    assert (
        names(ROOT)
        == names(ROOT + "/")
        == {"SKILL.md": "text/markdown", "assets": "inode/directory", "scripts": "inode/directory"}
    )
    assert names(f"{ROOT}/scripts") == {"more": "inode/directory", "run.sh": "application/x-sh"}


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://nowhere/SKILL.md"),
        ("skills/get", f"{ROOT}/scripts/run.sh"),
        ("skills/get", "memory://x"),
        ("skills/get", f"{ROOT}/../deploy/SKILL.md"),
        ("resources/directory/read", f"{ROOT}/SKILL.md"),
        ("resources/directory/read", f"{ROOT}/none"),
        ("resources/directory/read", "skill://team"),
        ("resources/directory/read", "file:///etc"),
        ("resources/read", f"{ROOT}/none.md"),
        ("resources/read", ROOT),
        ("resources/read", f"{ROOT}/scripts%2Frun.sh"),
        ("resources/read", "skill://"),
        ("resources/read", f"{ROOT}/%00"),
    ],
)
def test_a_missing_file_is_refused(client: Client, method: str, uri: str) -> None:
    assert error_code_of(client, method, uri=uri) == -32602


def test_a_skill_is_listed_among_the_resources(client: Client, hold: holdfast.Holdfast) -> None:
    hold.store(title="Lunch", content="Soup.")
    listed = call_method(client, "resources/list")["resources"]
    assert [(one["uri"], one["name"], one.get("mimeType")) for one in listed[:1]] == [
        (f"{ROOT}/SKILL.md", "deploy", "text/markdown")
    ]
    assert listed[0]["description"] == "How we deploy."
    assert listed[1]["name"] == "Lunch"


@pytest.mark.parametrize(("skills", "memories"), [(50, 0), (50, 3), (49, 3), (120, 60), (0, 51)])
def test_pages_omit_and_repeat_nothing(hold: holdfast.Holdfast, skills: int, memories: int) -> None:
    for number in range(skills):
        hold.skill_register(inline_skill=TEXT.replace("deploy\n", f"deploy-{number}\n", 1))
    for number in range(memories):
        hold.store(title=f"m{number}", content=f"m {number}")
    with connect_client(hold) as client:
        for method, key, most in (
            ("resources/list", "resources", skills + memories),
            ("skills/list", "skills", skills),
        ):
            found: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = call_method(client, method, **cursor)
                assert len(page[key]) <= 50
                found += [one["uri"] for one in page[key]]
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert (len(found), len(set(found))) == (most, most)


def test_a_handshake_revision_serves_skills_too(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT)
    with connect_with_handshake(hold) as client:
        (entry,) = client.ask(request(1, "skills/list"))["result"]["skills"]
        read = client.ask(request(2, "resources/read", {"uri": entry["uri"]}))["result"]["contents"][0]
    assert (entry["uri"], read["text"]) == ("skill://global/deploy/SKILL.md", TEXT)


def test_names_in_other_scripts_are_encoded_in_a_uri_and_found_by_it(hold: holdfast.Holdfast) -> None:
    hold.skill_register(
        inline_skill=TEXT.replace("name: deploy", "name: bücher"), namespace="büro/a b".replace(" ", "_")
    )
    with connect_client(hold) as client:
        (entry,) = call_method(client, "skills/list")["skills"]
        assert entry["uri"] == "skill://b%C3%BCro/a_b/b%C3%BCcher/SKILL.md"
        assert call_method(client, "skills/get", uri=entry["uri"])["skill"] == entry


def test_a_key_limited_to_namespaces_sees_only_its_own_skills(hold: holdfast.Holdfast) -> None:
    for namespace in ("team", "home"):
        hold.skill_register(inline_skill=TEXT, namespace=namespace)
    caller = Caller("ai:other@here", namespaces=("home",), has_fixed_agent=True)
    answers, who = Answers(hold, "core"), RequestContext("2026-07-28", lambda: caller)
    assert [one["uri"] for one in answers.answer("skills/list", {}, who)["skills"]] == ["skill://home/deploy/SKILL.md"]
    assert len(answers.answer("resources/list", {}, who)["resources"]) == 1
    for method, uri in (
        ("skills/get", "skill://team/deploy/SKILL.md"),
        ("resources/read", "skill://team/deploy/SKILL.md"),
        ("resources/directory/read", "skill://team/deploy"),
    ):
        with pytest.raises(ProtocolError):
            answers.answer(method, {"uri": uri}, who)


def test_a_nested_skill_is_found_by_its_own_name(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT, files=[{"path": "inner/x.md", "content": "outer"}], namespace="team")
    hold.skill_register(
        inline_skill=TEXT.replace("name: deploy", "name: inner"),
        files=[{"path": "y.md", "content": "inner"}],
        namespace="team/deploy",
    )
    with connect_client(hold) as client:
        for path, said in (("inner/x.md", "outer"), ("inner/y.md", "inner")):
            (content,) = call_method(client, "resources/read", uri=f"skill://team/deploy/{path}")["contents"]
            assert content["text"] == said

"""The official conformance suite: all scenarios without fixtures pass, in the two newest revisions."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_tools import serving, tools_environment

import holdfast
from timeouts import TIMEOUT

SCENARIOS = {
    "2025-11-25": [
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "server-session-lifecycle",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
        "caching",
        "sep-2164-resource-not-found",
        "http-header-validation",
    ],
}

SKILL_SCENARIOS = ["sep-2640-skills-enumeration", "sep-2640-skills-directory", "sep-2640-skills-manifest"]

UNTESTABLE = {
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
}
"""They call a diagnostic tool of the suite, which a real server does not have."""

UNDECLARED = {
    "sep-2575-server-sends-subscription-ack",
    "sep-2575-server-tags-subscription-id",
    "sep-2575-server-honors-notification-filter",
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
}
"""They need change notifications, which we do not declare: our lists are constant."""


SKILL = """---
name: deploy
description: "How we deploy: when, and what to look at."
license: MIT
allowed-tools: Bash Read
metadata:
  level: 2
  checked: true
  quoted: "2"
composes_with_reflections:
  - namespace: team/ops
    min_depth: 1
---
# Deploy
"""
SKILL_FILES = [
    {"path": "scripts/deploy.sh", "content": "make deploy\n"},
    {"path": "references/deep/why.md", "content": "Because.\n"},
    {"path": "assets/dot.bin", "content": "AP8=", "encoding": "base64"},
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    db = str(tmp_path_factory.mktemp("conformance") / "memory.db")
    with holdfast.open(db) as hold:
        hold.store(title="Deploy", content="On Tuesdays.")
        hold.skill_register(inline_skill=SKILL, files=SKILL_FILES, namespace="team/ops")
        hold.skill_register(inline_skill="---\nname: cook\ndescription: How we cook.\n---\n# Cook\n", files=SKILL_FILES)
    with serving(db) as url:
        yield url


def run_checks(url: str, version: str | None, scenario: str, into: Path, *more: str) -> list[dict[str, Any]]:
    """Return all checks of one scenario."""
    at = [] if version is None else ["--spec-version", version]
    command = ["conformance", "server", "--url", url, *at, "--scenario", scenario, "-o", str(into), *more]
    done = subprocess.run(
        command, env=tools_environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    found = list(into.glob("*/checks.json"))
    assert len(found) == 1, done.stdout + done.stderr
    checks: list[dict[str, Any]] = json.loads(found[0].read_text())
    return checks


def is_as_expected(check: dict[str, Any]) -> bool:
    if check["id"] in UNTESTABLE:
        return "does not list the diagnostic tool" in check["errorMessage"]
    if check["id"] in UNDECLARED:
        return check["status"] == "SKIPPED"
    return check["status"] in ("SUCCESS", "INFO")


def checks_of_suite(url: str, version: str, into: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all checks of a revision by scenario, in one run; scenarios with fixtures fail and are ignored."""
    command = ["conformance", "server", "--url", url, "--spec-version", version, "--suite", "all", "-o", str(into)]
    subprocess.run(command, env=tools_environment(), capture_output=True, timeout=TIMEOUT, check=False)
    folders = {scenario: list(into.glob(f"server-{scenario}-20*")) for scenario in SCENARIOS[version]}
    return {
        scenario: [check for folder in found for check in json.loads((folder / "checks.json").read_text())]
        for scenario, found in folders.items()
    }


def test_the_server_conforms_to_mcp(url: str, tmp_path: Path) -> None:
    offenders: list[tuple[str, str, object]] = []
    for version in SCENARIOS:
        for scenario, checks in checks_of_suite(url, version, tmp_path / version).items():
            offenders += [(version, scenario, check) for check in checks if not is_as_expected(check)]
            if not any(check["status"] == "SUCCESS" for check in checks):
                offenders.append((version, scenario, "no check succeeded"))
    assert offenders == []


@pytest.mark.full
@pytest.mark.parametrize("scenario", SKILL_SCENARIOS)
def test_the_server_conforms_to_the_skills_extension_with_every_check_run(
    url: str, scenario: str, tmp_path: Path
) -> None:
    """Extensions are not part of a revision: the suite runs them on request."""
    checks = run_checks(url, "2026-07-28", scenario, tmp_path, "--force")
    assert any(check["id"].startswith("sep-2640") for check in checks)
    assert [check for check in checks if check["status"] not in ("SUCCESS", "INFO")] == []


@pytest.mark.full
def test_the_server_passes_each_skills_scenario_run_separately(url: str, tmp_path: Path) -> None:
    for scenario in SKILL_SCENARIOS:
        checks = run_checks(url, None, scenario, tmp_path / scenario)
        assert {check["status"] for check in checks} <= {"SUCCESS", "INFO"}, checks

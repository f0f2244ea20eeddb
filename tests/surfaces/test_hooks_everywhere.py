"""Hooks stand at the one door, so that every surface has them, and only the settings of the machine say which."""

from pathlib import Path

import pytest
from four_surfaces import surface

from holdfast.operations import REGISTRY

CONFIG = """
[[hooks]]
event = "pre_store"
command = ["/bin/sh", "-c", "cat > /dev/null; echo '{\\"decision\\": \\"deny\\", \\"reason\\": \\"not here\\"}'"]
match = ["shut/**"]
on_error = "deny"
"""


@pytest.mark.parametrize("which", ["library", "cli", "http", "mcp"])
def test_what_a_hook_refuses_is_refused_on_every_surface(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config.toml"))
    with surface(which, tmp_path / which, None) as asked:
        refused = asked.ask("store", {"title": "Plan", "content": "x", "namespace": "shut/up"})
        taken = asked.ask("store", {"title": "Plan", "content": "x", "namespace": "open"})
    assert (refused.code, taken.code) == ("HOOK_DENIED", None)
    assert refused.error is not None
    assert "not here" in refused.error["error"]


def test_nobody_elsewhere_sees_or_runs_hooks() -> None:
    named = [op for op in REGISTRY if op.name.startswith("hooks_")]
    assert {op.name: op.surfaces for op in named} == {key: {"library", "cli"} for key in ("hooks_list", "hooks_test")}

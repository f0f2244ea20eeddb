"""Commands written by `install` start our own program whatever files are in the current folder."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import cold
from holdfast.surfaces.bench.clients import holdfast_command
from holdfast.surfaces.install.connect import InstallRequest, connect
from holdfast.surfaces.install.targets import Command, Machine, this_command

TRAPS = ("mcp.py", "click.py", "msgspec.py", "holdfast/__init__.py")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules named like our imports, which leave a trace if imported."""
    for name in TRAPS:
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text("raise SystemExit('sprung: ' + __file__)")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def without_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without a `holdfast` script, so that the module is run."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sys, "argv", ["somewhere-else"])


@pytest.mark.parametrize(
    "command",
    [lambda: holdfast_command("--version"), lambda: this_command(None).words("--version"), lambda: cold.IMPORT_CLICK],
    ids=["measured", "of an agent", "floor"],
)
@pytest.mark.usefixtures("project", "without_script")
def test_nothing_is_imported_from_the_current_folder(command: Callable[[], list[str]]) -> None:
    done = subprocess.run(command(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["claude-code", "codex", "goose", "opencode"])
@pytest.mark.usefixtures("without_script")
def test_a_command_without_the_safe_path_flag_is_updated_and_either_can_be_uninstalled(
    tmp_path: Path, name: str
) -> None:
    machine = Machine("linux", tmp_path, {})
    new = this_command(None)
    old = Command((new.program[0], "-m", "holdfast"))
    connect([name], InstallRequest(machine, old, apply=True))
    assert connect([name], InstallRequest(machine, new, apply=True)).outcomes[0].outcome == "applied"
    for change in connect([name], InstallRequest(machine, new)).outcomes[0].files:
        text = Path(change.file).read_text()
        assert (change.change, text.count("-P")) == ("none", text.count("-m"))
    for written in (new, old):
        connect([name], InstallRequest(machine, written, apply=True))
        away = connect([name], InstallRequest(machine, new, uninstall=True, apply=True)).outcomes[0]
        assert {change.change for change in away.files} == {"delete"}

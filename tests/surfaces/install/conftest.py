"""A home folder, and the machine that it belongs to."""

from pathlib import Path

import pytest

from holdfast.surfaces.install.targets import Machine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "APPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    return home


@pytest.fixture
def machine(home: Path) -> Machine:
    return Machine("linux", home, {})

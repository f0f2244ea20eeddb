"""Where the files of each agent are, on every platform."""

from pathlib import Path

from home_files import write

from holdfast.surfaces.install.connect import InstallRequest, connect
from holdfast.surfaces.install.edit import JSONC
from holdfast.surfaces.install.targets import TARGETS, Command, Machine

PLACES = {
    "claude-code": (".claude.json", ".claude.json", ".claude.json"),
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "codex": (".codex/config.toml",) * 3,
    "cursor": (".cursor/mcp.json",) * 3,
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "continue": (".continue/config.yaml",) * 3,
    "cline": (".cline/data/settings/cline_mcp_settings.json",) * 3,
    "gemini": (".gemini/settings.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    "goose": (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
    ),
    "opencode": (".config/opencode/opencode.json",) * 3,
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
}


def test_every_agent_has_a_location_on_every_platform(home: Path) -> None:
    found = {
        name: tuple(
            target.files(Machine(system, home, {}))[0].relative_to(home).as_posix()
            for system in ("linux", "darwin", "win32")
        )
        for name, target in TARGETS.items()
    }
    assert found == PLACES


def test_agents_with_a_custom_location_are_found_there(home: Path) -> None:
    variables = {
        "XDG_CONFIG_HOME": "/x",
        "CLAUDE_CONFIG_DIR": "/c",
        "CODEX_HOME": "/o",
        "CLINE_MCP_SETTINGS_PATH": "/l.json",
    }
    machine = Machine("linux", home, variables)
    names = ["claude-code", "codex", "cline", "zed", "goose", "vscode"]
    assert [str(TARGETS[name].files(machine)[0]) for name in names] == [
        "/c/.claude.json",
        "/o/config.toml",
        "/l.json",
        "/x/zed/settings.json",
        "/x/goose/config.yaml",
        "/x/Code/User/mcp.json",
    ]
    hooks = TARGETS["claude-code"].hooks
    assert hooks is not None
    assert str(hooks(machine)) == "/c/settings.json"


def test_older_cline_and_newer_opencode_are_connected_at_their_own_locations(home: Path, machine: Machine) -> None:
    older = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
    write(home, {older: b"{}", ".config/opencode/opencode.json": b'{"mcp": {"servers": {}, "timeout": 5}}'})
    connect(["cline", "opencode"], InstallRequest(machine, Command(("/bin/holdfast",)), apply=True))
    shared = home / ".cline/data/settings/cline_mcp_settings.json"
    assert JSONC.parse((home / older).read_text()) == JSONC.parse(shared.read_text())
    opencode = JSONC.parse((home / ".config/opencode/opencode.json").read_text())
    assert opencode["mcp"]["servers"]["holdfast"]["command"] == ["/bin/holdfast", "mcp"]

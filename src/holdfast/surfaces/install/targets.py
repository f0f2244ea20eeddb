"""The supported agents: config files, entry formats, and how each is detected.

Everything specific to one agent is in this file.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Any, Literal

from holdfast.kernel.errors import Invalid, InvalidSetting
from holdfast.surfaces.install.edit import JSONC, TOML, YAML, Format
from holdfast.surfaces.install.text import EntryPath, value_at

NAME = "holdfast"
Value = dict[str, Any]


@dataclass(frozen=True)
class Machine:
    """Folders of a platform."""

    system: Literal["linux", "darwin", "win32"]
    home: Path
    environment: Mapping[str, str]

    def folder_from(self, variable: str, otherwise: Path) -> Path:
        """Return the folder in an environment variable, or the default."""
        return Path(self.environment[variable]) if self.environment.get(variable) else otherwise

    @property
    def config(self) -> Path:
        """The XDG config folder, which many programs use on every platform."""
        return self.folder_from("XDG_CONFIG_HOME", self.home / ".config")

    @property
    def roaming(self) -> Path:
        """Settings folder of desktop programs."""
        if self.system == "win32":
            return self.folder_from("APPDATA", self.home / "AppData" / "Roaming")
        return self.home / "Library" / "Application Support" if self.system == "darwin" else self.config


def this_machine() -> Machine:
    try:
        home = Path.home()
    except RuntimeError:
        raise InvalidSetting("No home directory: set HOME, or name the file with --config.") from None
    system: Literal["linux", "darwin", "win32"] = "linux"
    if sys.platform in ("darwin", "win32"):
        system = sys.platform
    return Machine(system, home, os.environ)


@dataclass(frozen=True)
class Command:
    """The command that an agent starts."""

    program: tuple[str, ...]
    db: str | None = None

    def words(self, *more: str) -> list[str]:
        return [*self.program, *more, *(("--db", self.db) if self.db else ())]

    def line(self, *more: str) -> str:
        """Return the command as a shell line."""
        words = self.words(*more)
        if os.name == "nt":
            return subprocess.list2cmdline(words)
        return shlex.join(words)


def this_command(db: str | None) -> Command:
    """Return this program by absolute path, with the chosen store."""
    chosen = db or os.environ.get("HOLDFAST_DB") or None
    if chosen and ("password=" in chosen.partition("://")[2] or re.search(r"://[^/@:]*:[^/@]*@", chosen)):
        raise Invalid(
            "The store's address contains a password, which must not go into other programs' files: "
            "set `db` in the settings file, without --db and HOLDFAST_DB."
        )
    if chosen and "://" not in chosen:
        chosen = str(Path(chosen).expanduser().absolute())
    return Command(_program(), chosen)


def _program() -> tuple[str, ...]:
    sibling = Path(sys.executable).with_name("holdfast.exe" if os.name == "nt" else "holdfast")
    running = shutil.which(sys.argv[0]) if Path(sys.argv[0]).stem == "holdfast" else None
    for place in filter(None, (running, str(sibling))):
        if os.access(place, os.X_OK):
            return (os.path.abspath(place),)
    # Agents start it inside their users' projects: -P keeps it from importing anything there.
    return (os.path.abspath(sys.executable), "-P", "-m", "holdfast")


@dataclass(frozen=True)
class ConfigEntry:
    """An entry of ours in a config file."""

    value: Value
    needs: tuple[str, ...]
    """Keys that must have our value; the others are initial values that the owner may change."""
    where: Callable[[Any], EntryPath]
    """Return the entry's path in a parsed file."""
    whole: Callable[[Any], EntryPath] | None = None
    """Return the path to remove, if it is more than the entry."""

    def removal_path(self, model: Any) -> EntryPath:
        """Return the path to remove with the entry."""
        return (self.whole or self.where)(model)

    def differs(self, model: Any) -> list[str] | None:
        """Return the keys that differ; None if the entry is missing."""
        there = value_at(model, self.where(model))
        if not isinstance(there, dict):
            return None if there is None else list(self.needs)
        return [key for key in self.needs if there.get(key) != self.value[key]]


@dataclass(frozen=True)
class ConfigFile:
    """A config file of an agent with our entries in it."""

    file: Path
    format: Format
    entries: list[ConfigEntry]
    base: str = ""
    """Initial text of a new file."""


def plain_server(command: Command) -> Value:
    program, *arguments = command.words("mcp")
    return {"command": program, "args": arguments}


def typed_server(command: Command) -> Value:
    return {"type": "stdio", **plain_server(command)}


def named_server(command: Command) -> Value:
    return {"name": NAME, **plain_server(command)}


def goose_server(command: Command) -> Value:
    program, *arguments = command.words("mcp")
    return {
        "enabled": True,
        "type": "stdio",
        "name": NAME,
        "description": "One persistent memory for every agent",
        "cmd": program,
        "args": arguments,
        "envs": {},
        "env_keys": [],
        "timeout": 300,
    }


def opencode_server(command: Command) -> Value:
    return {"type": "local", "command": command.words("mcp"), "enabled": True}


def under_key(*keys: str) -> Callable[[Any], EntryPath]:
    return lambda model: (*keys, NAME)


def in_named_list(*keys: str) -> Callable[[Any], EntryPath]:
    return lambda model: (*keys, lambda item: isinstance(item, dict) and item.get("name") == NAME)


def in_older_continue(model: Any) -> EntryPath:
    """Find the transport in a list without names; our item is known by its command."""
    return (*whole_in_older_continue(model), "transport")


def whole_in_older_continue(model: Any) -> EntryPath:
    return ("experimental", "modelContextProtocolServers", _starts_ours)


def _starts_ours(item: Any) -> bool:
    started = value_at(item, ("transport",))
    if not isinstance(started, dict) or not isinstance(started.get("args"), list):
        return False
    words = [str(word) for word in (started.get("command"), *started["args"])]
    return any(PureWindowsPath(one).name in (NAME, f"{NAME}.exe") and then == "mcp" for one, then in pairwise(words))


def in_opencode(model: Any) -> EntryPath:
    """Insert beside the existing servers: newer releases nest them one level deeper and read both."""
    servers = value_at(model, ("mcp", "servers"))
    nested = isinstance(servers, dict) and "type" not in servers and "enabled" not in servers
    return ("mcp", "servers", NAME) if nested else ("mcp", NAME)


@dataclass(frozen=True)
class Target:
    """An agent."""

    title: str
    files: Callable[[Machine], list[Path]]
    """Files with its MCP servers; the first is created if none exists."""
    value: Callable[[Command], Value] = plain_server
    where: Callable[[Any], EntryPath] = field(default=under_key("mcpServers"))
    whole: Callable[[Any], EntryPath] | None = None
    needs: tuple[str, ...] = ("command", "args")
    format: Format = JSONC
    base: str = "{}\n"
    programs: tuple[str, ...] = ()
    """Detected by a program of this name."""
    folders: Callable[[Machine], list[Path]] = lambda machine: []
    """Detected by an existing folder."""
    hooks: Callable[[Machine], Path] | None = None
    next_step: str = "Restart it."
    """What the user has to do next."""
    older: Target | None = None
    """The same agent with the JSON file of its older releases."""

    def config_files(
        self, machine: Machine, command: Command, *, hooks: bool, file: Path | None = None
    ) -> list[ConfigFile]:
        """Return the agent's config files with our entries."""
        files = [file] if file else self.files(machine)
        made = [self._config_file(one, command) for one in files]
        if hooks and self.hooks and not file:
            name = next(name for name, target in TARGETS.items() if target is self)
            made.append(ConfigFile(self.hooks(machine), JSONC, list(hook_entries(name, command)), "{}\n"))
        return made

    def _config_file(self, file: Path, command: Command) -> ConfigFile:
        if self.older and file.suffix == ".json":
            return self.older._config_file(file, command)
        want = ConfigEntry(self.value(command), self.needs, self.where, self.whole)
        return ConfigFile(file, self.format, [want], self.base)

    def is_installed(self, machine: Machine) -> bool:
        return any(shutil.which(name, path=machine.environment.get("PATH")) for name in self.programs) or any(
            folder.exists() for folder in self.folders(machine)
        )


HOOKS: dict[str, dict[str, tuple[str, int]]] = {
    "claude-code": {
        "SessionStart": ("session-start", 10),
        "UserPromptSubmit": ("prompt", 10),
        "PostToolUse": ("tool", 10),
        "Stop": ("session-end", 10),
        "SessionEnd": ("session-end", 10),
    },
    "codex": {
        "SessionStart": ("session-start", 10),
        "UserPromptSubmit": ("prompt", 10),
        "PostToolUse": ("tool", 10),
        "Stop": ("session-end", 10),
        "SessionEnd": ("session-end", 3),  # Codex waits only three seconds for this one.
    },
}
"""Per host and event: the hook to run (`holdfast hook NAME --host HOST`) and its timeout in seconds."""


def hook_entries(target: str, command: Command) -> list[ConfigEntry]:
    return [
        _hook_entry(
            event, name, {"type": "command", "command": command.line("hook", name, "--host", target), "timeout": most}
        )
        for event, (name, most) in HOOKS[target].items()
    ]


def _hook_entry(event: str, name: str, hook: Value) -> ConfigEntry:
    """Describe a hook: a group with our command only, or our command in a larger group."""
    ours = re.compile(rf"holdfast(?:(?!holdfast)\S)*+ hook {name}(\s|\Z)")

    def is_ours(one: Any) -> bool:
        return isinstance(one, dict) and isinstance(one.get("command"), str) and bool(ours.search(one["command"]))

    def has_ours(group: Any) -> bool:
        held = group.get("hooks") if isinstance(group, dict) else None
        return isinstance(held, list) and any(map(is_ours, held))

    def whole(model: Any) -> EntryPath:
        group = value_at(model, ("hooks", event, has_ours))
        alone = group is None or all(map(is_ours, group["hooks"]))
        return ("hooks", event, has_ours) if alone else ("hooks", event, has_ours, "hooks", is_ours)

    return ConfigEntry(hook, ("command",), lambda model: ("hooks", event, has_ours, "hooks", is_ours), whole)


def _opencode_files(machine: Machine) -> list[Path]:
    folder = machine.config / "opencode"
    there = [folder / name for name in ("opencode.jsonc", "opencode.json") if (folder / name).exists()]
    return there[:1] or [folder / "opencode.json"]


def _continue_files(machine: Machine) -> list[Path]:
    """Use the older file if it exists alone: Continue ignores it once the newer one exists."""
    newer, older = (machine.home / ".continue" / name for name in ("config.yaml", "config.json"))
    return [older if os.path.lexists(older) and not os.path.lexists(newer) else newer]


def _cline_files(machine: Machine) -> list[Path]:
    """Return the file shared by current releases, and the older extension's file if it exists."""
    shared = machine.folder_from("CLINE_DIR", machine.home / ".cline") / "data" / "settings" / "cline_mcp_settings.json"
    older = _cline_extension(machine) / "settings" / "cline_mcp_settings.json"
    return [machine.folder_from("CLINE_MCP_SETTINGS_PATH", shared), *([older] if older.exists() else [])]


def _cline_extension(machine: Machine) -> Path:
    return machine.roaming / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev"


def _claude_folder(machine: Machine) -> Path:
    return machine.folder_from("CLAUDE_CONFIG_DIR", machine.home / ".claude")


def _claude_json(machine: Machine) -> Path:
    return machine.folder_from("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json"


def _codex_folder(machine: Machine) -> Path:
    return machine.folder_from("CODEX_HOME", machine.home / ".codex")


def _zed_folder(machine: Machine) -> Path:
    return machine.roaming / "Zed" if machine.system == "win32" else machine.config / "zed"


def _goose_folder(machine: Machine) -> Path:
    windows = machine.roaming / "Block" / "goose" / "config"
    return windows if machine.system == "win32" else machine.config / "goose"


TARGETS: dict[str, Target] = {
    "claude-code": Target(
        "Claude Code",
        files=lambda machine: [_claude_json(machine)],
        value=typed_server,
        programs=("claude",),
        folders=lambda machine: [_claude_folder(machine), _claude_json(machine)],
        hooks=lambda machine: _claude_folder(machine) / "settings.json",
        next_step="Start a new session; `/mcp` shows it.",
    ),
    "claude-desktop": Target(
        "Claude Desktop",
        files=lambda machine: [machine.roaming / "Claude" / "claude_desktop_config.json"],
        folders=lambda machine: [machine.roaming / "Claude"],
        next_step="Quit it completely and restart it.",
    ),
    "codex": Target(
        "Codex CLI",
        files=lambda machine: [_codex_folder(machine) / "config.toml"],
        where=under_key("mcp_servers"),
        format=TOML,
        base="",
        programs=("codex",),
        folders=lambda machine: [_codex_folder(machine)],
        hooks=lambda machine: _codex_folder(machine) / "hooks.json",
        next_step="Start a new session; `/mcp` shows it. Trust its hooks with `/hooks`.",
    ),
    "cursor": Target(
        "Cursor",
        files=lambda machine: [machine.home / ".cursor" / "mcp.json"],
        value=typed_server,
        programs=("cursor", "cursor-agent"),
        folders=lambda machine: [machine.home / ".cursor"],
        next_step="Enable it under Settings, MCP.",
    ),
    "windsurf": Target(
        "Windsurf",
        files=lambda machine: [machine.home / ".codeium" / "windsurf" / "mcp_config.json"],
        programs=("windsurf",),
        folders=lambda machine: [machine.home / ".codeium" / "windsurf"],
        next_step="Refresh the MCP servers in Cascade.",
    ),
    "continue": Target(
        "Continue",
        files=_continue_files,
        value=named_server,
        where=in_named_list("mcpServers"),
        format=YAML,
        base="name: Local Config\nversion: 1.0.0\nschema: v1\n",
        programs=("cn",),
        folders=lambda machine: [machine.home / ".continue"],
        next_step="Use it in agent mode.",
        older=Target(
            "Continue",
            files=_continue_files,
            value=typed_server,
            where=in_older_continue,
            whole=whole_in_older_continue,
            needs=("type", "command", "args"),
        ),
    ),
    "cline": Target(
        "Cline",
        files=_cline_files,
        programs=("cline",),
        folders=lambda machine: [machine.folder_from("CLINE_DIR", machine.home / ".cline"), _cline_extension(machine)],
        next_step="Check MCP Servers, Configure.",
    ),
    "gemini": Target(
        "Gemini CLI",
        files=lambda machine: [machine.home / ".gemini" / "settings.json"],
        programs=("gemini",),
        folders=lambda machine: [machine.home / ".gemini"],
        next_step="Start a new session; `/mcp` shows it.",
    ),
    "zed": Target(
        "Zed",
        files=lambda machine: [_zed_folder(machine) / "settings.json"],
        where=under_key("context_servers"),
        programs=("zed", "zeditor"),
        folders=lambda machine: [_zed_folder(machine)],
        next_step="The agent panel's settings show it.",
    ),
    "goose": Target(
        "Goose",
        files=lambda machine: [_goose_folder(machine) / "config.yaml"],
        value=goose_server,
        where=under_key("extensions"),
        needs=("type", "cmd", "args"),
        format=YAML,
        base="",
        programs=("goose",),
        folders=lambda machine: [_goose_folder(machine)],
        next_step="Start a new session.",
    ),
    "opencode": Target(
        "OpenCode",
        files=_opencode_files,
        value=opencode_server,
        where=in_opencode,
        needs=("type", "command"),
        programs=("opencode",),
        folders=lambda machine: [machine.config / "opencode"],
    ),
    "vscode": Target(
        "VS Code",
        files=lambda machine: [machine.roaming / "Code" / "User" / "mcp.json"],
        value=typed_server,
        where=under_key("servers"),
        programs=("code",),
        folders=lambda machine: [machine.roaming / "Code" / "User"],
        next_step="`MCP: List Servers` shows it.",
    ),
}

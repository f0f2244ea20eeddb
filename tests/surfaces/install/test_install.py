"""`holdfast install` and `holdfast setup` on the files of other programs, as found on a new machine."""

import json
import os
import pty
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from four_surfaces import run_command
from home_files import write
from mcp_wire import call, initialize, notification

from holdfast.surfaces.cli import install_commands
from holdfast.surfaces.install import files
from holdfast.surfaces.install.connect import InstallRequest, connect
from holdfast.surfaces.install.edit import JSONC
from holdfast.surfaces.install.targets import TARGETS, Command, Machine
from holdfast.surfaces.install.text import without_empty
from timeouts import TIMEOUT

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
Install = Callable[..., Any]

AS_FOUND = {
    ".claude.json": b'{"numStartups":41,"mcpServers":{"gh":{"command":"npx","args":["-y","gh"]}},"oauth":{"t":"s"}}',
    ".claude/settings.json": b'{\n  "model": "opus",\n  "hooks": {\n    "Stop": [\n'
    b'      {"hooks": [{"type": "command", "command": "say done"}]}\n    ]\n  }\n}\n',
    ".config/Claude/claude_desktop_config.json": b'{\r\n\t"mcpServers": {}\r\n}\r\n',
    ".codex/config.toml": b'model = "o5" # mine\n\n[mcp_servers.gh]\ncommand = "npx"\n\n# the end',
    ".cursor/mcp.json": b"\xef\xbb\xbf{}",
    ".codeium/windsurf/mcp_config.json": b"",
    ".continue/config.yaml": b"name: Mine\nversion: 1.0.0\nschema: v1\nmcpServers:\n"
    b"  # first\n  - name: gh\n    command: npx\n",
    ".cline/data/settings/cline_mcp_settings.json": b'{\n  "mcpServers": {\n  }\n}',
    ".gemini/settings.json": b'// mine\n{\n  "theme": "dark", // dark\n}\n',
    ".config/zed/settings.json": b'// Zed\n{\n  "vim_mode": true,\n  "context_servers": {\n    // none yet\n  },\n}\n',
    ".config/goose/config.yaml": b"GOOSE_PROVIDER: x\r\nextensions:\r\n  developer: # own\r\n    enabled: true\r\n",
    ".config/opencode/opencode.jsonc": b'{\n  "theme": "x",\n  "mcp": {"x": {"type": "remote"}}\n}\n',
    ".config/Code/User/mcp.json": b'{\n\t"inputs": [],\n\t"servers": {\n\t\t"a": {"url": "http://x"},\n\t},\n}\n',
}
"""What is on a machine before: comments, marks, newlines and commas of all kinds."""


@pytest.fixture
def install(home: Path) -> Install:
    """Run a command in this process; return its answer, or its error."""

    def install(*words: str) -> Any:
        code, out, err = run_command(["install", "--json", *words])
        answer = json.loads(out or err)
        answer["exit"] = code
        return answer

    return install


def read_files(home: Path) -> dict[str, bytes]:
    """Return all files except backups and our own."""
    files = [file for file in home.rglob("*") if file.is_file() and "/holdfast/" not in str(file)]
    return {str(file.relative_to(home)): file.read_bytes() for file in files if ".bak." not in file.name}


def process(*words: str) -> Any:
    done = subprocess.run([HOLDFAST, *words, "--json"], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def starts(home: Path) -> dict[str, list[str]]:
    """Return the command each agent would start, read from its file by an independent parser."""

    def read(name: str) -> Any:
        return JSONC.parse((home / name).read_bytes().decode("utf-8-sig"))

    def standard(entry: Any) -> list[str]:
        return [entry["command"], *entry["args"]]

    goose = yaml.safe_load((home / ".config/goose/config.yaml").read_bytes())["extensions"]["holdfast"]
    listed = yaml.safe_load((home / ".continue/config.yaml").read_bytes())["mcpServers"]
    opencode = next(name for name in ("opencode.jsonc", "opencode.json") if (home / ".config/opencode" / name).exists())
    return {
        "claude-code": standard(read(".claude.json")["mcpServers"]["holdfast"]),
        "claude-desktop": standard(read(".config/Claude/claude_desktop_config.json")["mcpServers"]["holdfast"]),
        "codex": standard(tomllib.loads((home / ".codex/config.toml").read_text())["mcp_servers"]["holdfast"]),
        "cursor": standard(read(".cursor/mcp.json")["mcpServers"]["holdfast"]),
        "windsurf": standard(read(".codeium/windsurf/mcp_config.json")["mcpServers"]["holdfast"]),
        "continue": standard(next(one for one in listed if one["name"] == "holdfast")),
        "cline": standard(read(".cline/data/settings/cline_mcp_settings.json")["mcpServers"]["holdfast"]),
        "gemini": standard(read(".gemini/settings.json")["mcpServers"]["holdfast"]),
        "zed": standard(read(".config/zed/settings.json")["context_servers"]["holdfast"]),
        "goose": [goose["cmd"], *goose["args"]],
        "opencode": read(f".config/opencode/{opencode}")["mcp"]["holdfast"]["command"],
        "vscode": standard(read(".config/Code/User/mcp.json")["servers"]["holdfast"]),
    }


def check_recall_in_new_session(command: list[str], cwd: Path) -> None:
    """An agent starts the installed command, stores and exits; another one starts it and recalls."""

    def session(*messages: dict[str, Any]) -> list[Any]:
        lines = [json.dumps(one) for one in (initialize(), notification("notifications/initialized"), *messages)]
        done = subprocess.run(
            command, input="\n".join(lines) + "\n", capture_output=True, text=True, cwd=cwd, timeout=TIMEOUT
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    arguments = {"title": "Deploy day", "content": "We deploy on Tuesdays."}
    assert not session(call(1, "memory_store", arguments))[-1]["result"].get("isError")
    assert "We deploy on Tuesdays." in json.dumps(
        session(call(2, "memory_recall", {"context": "when do we deploy"}))[-1]
    )


@pytest.mark.parametrize("before", [AS_FOUND, {}], ids=["what is there", "nothing is there"])
def test_every_agent_is_connected_and_disconnected_without_a_trace(home: Path, before: dict[str, bytes]) -> None:
    write(home, before)
    planned = process("install", *TARGETS)
    assert {one["outcome"] for one in planned["outcomes"]} == {"planned"}
    assert read_files(home) == before
    done = process("install", *TARGETS, "--apply")
    assert [(one["target"], one["outcome"]) for one in done["outcomes"]] == [(name, "applied") for name in TARGETS]
    assert [one["files"][0]["diff"] for one in done["outcomes"]] == [
        one["files"][0]["diff"] for one in planned["outcomes"]
    ]
    connected = read_files(home)
    assert starts(home) == {name: [HOLDFAST, "mcp"] for name in TARGETS}
    again = process("install", *TARGETS, "--apply")
    assert {one["outcome"] for one in again["outcomes"]} == {"noop"}
    assert read_files(home) == connected
    assert {one["state"] for one in process("install", "--detect")["agents"]} == {"connected"}
    if before:
        check_recall_in_new_session(starts(home)["zed"], home)
    process("install", *TARGETS, "--uninstall", "--apply")
    assert read_files(home) == before


def test_hooks_are_added_beside_existing_ones(home: Path, install: Install) -> None:
    write(home, AS_FOUND)
    install("claude-code", "codex", "--apply")
    claude = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    ours = [{"type": "command", "command": f"{HOLDFAST} hook session-end --host claude-code", "timeout": 10}]
    assert claude["Stop"] == [{"hooks": ours}, {"hooks": [{"type": "command", "command": "say done"}]}]
    assert list(claude)[:4] == ["SessionStart", "UserPromptSubmit", "PostToolUse", "SessionEnd"]
    codex = json.loads((home / ".codex/hooks.json").read_text())["hooks"]
    assert codex["UserPromptSubmit"][0]["hooks"][0]["command"] == f"{HOLDFAST} hook prompt --host codex"


def test_hooks_are_omitted_on_request_and_recognised_in_a_foreign_group(home: Path, install: Install) -> None:
    install("claude-code", "--no-hooks", "--apply")
    assert not (home / ".claude/settings.json").exists()
    assert [one["hooks"] for one in install("--detect")["agents"] if "hooks" in one] == [False, False]
    own, old = (
        {"type": "command", "command": "say done"},
        {"type": "command", "command": "'/o l/holdfast' hook session-end"},
    )
    settings = {"hooks": {"Stop": [{"matcher": "", "hooks": [own, old]}]}}
    write(home, {".claude/settings.json": json.dumps(settings, indent=2).encode()})
    install("claude-code", "--apply")
    (group,) = json.loads((home / ".claude/settings.json").read_text())["hooks"]["Stop"]
    assert [one["command"] for one in group["hooks"]] == ["say done", f"{HOLDFAST} hook session-end --host claude-code"]
    install("claude-code", "--uninstall", "--apply")
    assert json.loads((home / ".claude/settings.json").read_text()) == {
        "hooks": {"Stop": [{"matcher": "", "hooks": [own]}]}
    }


@pytest.mark.parametrize("name", ["cursor", "codex", "goose"])
def test_a_moved_program_is_updated_and_additions_of_the_user_stay(machine: Machine, name: str) -> None:
    old, new = Command(("/old/holdfast",)), Command(("/new/holdfast",), "/my/memory.db")
    connect([name], InstallRequest(machine, old, apply=True))
    file = TARGETS[name].files(machine)[0]
    text = file.read_text()
    added = {
        "cursor": text.replace('"type"', '"env": {"A": "b"}, // own\n      "type"'),
        "codex": text + "# own\nstartup_timeout_sec = 20\n",
        "goose": text.replace("enabled: true", "enabled: false # own"),
    }[name]
    file.write_text(added)
    assert connect([name], InstallRequest(machine, old)).outcomes[0].outcome == "noop"
    connect([name], InstallRequest(machine, new, apply=True))
    changed = file.read_text()
    assert "own" in changed
    assert "/old/" not in changed
    assert "/my/memory.db" in changed
    assert connect([name], InstallRequest(machine, new)).outcomes[0].outcome == "noop"
    connect([name], InstallRequest(machine, new, uninstall=True, apply=True))
    assert "holdfast" not in file.read_text()


@pytest.mark.parametrize("name", TARGETS)
def test_later_changes_of_the_user_survive_uninstalling(home: Path, machine: Machine, name: str) -> None:
    """Byte for byte where our text is unchanged, by value where the user rewrote it."""
    write(home, AS_FOUND)
    target, command = TARGETS[name], Command(("/bin/holdfast",))
    connect([name], InstallRequest(machine, command, hooks=False, apply=True))
    file = target.files(machine)[0]
    comment = b"\n" + (b"// later" if target.format is JSONC else b"# later")
    file.write_bytes(file.read_bytes() + comment)
    connect([name], InstallRequest(machine, command, hooks=False, uninstall=True, apply=True))
    was = AS_FOUND[str(file.relative_to(home))]
    assert file.read_bytes() == was + comment
    file.write_bytes(was)
    connect([name], InstallRequest(machine, command, hooks=False, apply=True))
    for receipt in files._receipt_path(file).parent.glob("*.json"):
        receipt.unlink()
    connect([name], InstallRequest(machine, command, hooks=False, uninstall=True, apply=True))
    assert b"holdfast" not in file.read_bytes()
    before, after = (target.format.parse(data.decode("utf-8-sig")) for data in (was, file.read_bytes()))
    assert without_empty(after, target.where(after)) == without_empty(before, target.where(before))


@pytest.mark.parametrize("later", [b"", b"\n\n// later\n", None], ids=["as it is", "changed", "of unknown make"])
def test_empty_containers_are_empty_again_after_uninstalling(home: Path, install: Install, later: bytes | None) -> None:
    before = b'// mine\n{\n  "hooks": {\n    "Stop": [],\n    "SessionEnd": []\n  }\n}\n'
    listed = b"name: Mine\nmcpServers: []\nmodels: []\n"
    write(home, {".claude/settings.json": before, ".continue/config.yaml": listed})
    install("claude-code", "continue", "--apply")
    file = home / ".claude/settings.json"
    file.write_bytes((later or b"") + file.read_bytes())
    for receipt in files._receipt_path(file).parent.glob("*.json") if later is None else ():
        receipt.unlink()
    install("claude-code", "continue", "--uninstall", "--apply")
    hooks = JSONC.parse(file.read_text())["hooks"]
    assert (hooks["Stop"], hooks["SessionEnd"]) == ([], [])
    assert any(hooks.values()) is False
    assert b"holdfast" not in file.read_bytes()
    assert later is None or (list(hooks) == ["Stop", "SessionEnd"] and b"// mine" in file.read_bytes())
    assert later != b"" or file.read_bytes() == before
    assert yaml.safe_load((home / ".continue/config.yaml").read_bytes()) == yaml.safe_load(listed)


@pytest.mark.parametrize("theirs", ["", "startup_timeout_sec = 5\n"], ids=["has it not", "has it too"])
def test_keys_added_below_our_entry_never_move_to_another_table(home: Path, machine: Machine, theirs: str) -> None:
    before = f'[mcp_servers.gh]\ncommand = "npx"\n{theirs}'
    write(home, {".codex/config.toml": before.encode()})
    file, gh = home / ".codex/config.toml", tomllib.loads(before)["mcp_servers"]["gh"]

    def servers(program: str, *, away: bool = False) -> Any:
        connect(["codex"], InstallRequest(machine, Command((program,)), hooks=False, uninstall=away, apply=True))
        return tomllib.loads(file.read_text())["mcp_servers"]

    servers("/old/holdfast")
    file.write_text(file.read_text() + "startup_timeout_sec = 20\n")
    ours = {"command": "/new/holdfast", "args": ["mcp"], "startup_timeout_sec": 20}
    assert servers("/new/holdfast") == {"gh": gh, "holdfast": ours}
    file.write_text(file.read_text() + "\n[mcp_servers.holdfast.env]\nA = 'b'\n")
    ours |= {"command": "/newer/holdfast", "env": {"A": "b"}}
    assert servers("/newer/holdfast") == {"gh": gh, "holdfast": ours}
    assert servers("/newer/holdfast", away=True) == {"gh": gh}


BAD = {
    "malformed": (b'{\n  "mcpServers": {,}\n}', 0o600, "FILE_MALFORMED"),
    "of the wrong type": (b'{"mcpServers": "none"}', 0o600, "FILE_MALFORMED"),
    "not UTF-8": (b'{"a": "\xff"}', 0o600, "FILE_MALFORMED"),
    "world-writable": (b"{}", 0o646, "FILE_UNSAFE"),
    "read-only": (b"{}", 0o444, "FILE_REFUSED"),
}


@pytest.mark.parametrize(("data", "mode", "code"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("words", [["--apply"], []], ids=["applied", "planned"])
def test_an_unusable_file_is_refused_unchanged(
    home: Path, install: Install, data: bytes, mode: int, code: str, words: list[str]
) -> None:
    file = home / ".cursor" / "mcp.json"
    write(home, {".cursor/mcp.json": data})
    file.chmod(mode)
    refused = install("cursor", *words)
    assert (refused["exit"], refused["code"], refused["file"]) == (3, code, str(file))
    assert str(file) in refused["error"]
    assert [(one.name, one.read_bytes()) for one in file.parent.iterdir()] == [("mcp.json", data)]
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_malformed_file_is_refused_with_its_position_before_any_write(home: Path, install: Install) -> None:
    write(home, {".claude/settings.json": b'{\n  "hooks": {]\n}'})
    refused = install("claude-code", "--apply")
    assert (refused["code"], refused["line"], refused["column"]) == ("FILE_MALFORMED", 2, 13)
    assert not (home / ".claude.json").exists()
    several = install("claude-code", "gemini", "--apply")
    assert (several["exit"], [one["outcome"] for one in several["outcomes"]]) == (6, ["rejected", "applied"])
    assert install("--detect")["agents"][0]["state"] == "unreadable"


def test_a_wrong_structure_is_reported_by_key_and_position(home: Path, install: Install) -> None:
    write(home, {".claude/settings.json": b'{"hooks": {"SessionStart": {}}}\n'})
    refused = install("claude-code", "--apply")
    assert (refused["code"], refused["line"], refused["column"]) == ("FILE_MALFORMED", 1, 28)
    assert "hooks.SessionStart must be a list" in refused["error"]
    inline = b'model = "o5"\nmcp_servers = { other = { command = "x" } }\n'
    write(home, {".codex/config.toml": inline})
    refused = install("codex", "--apply")
    assert (refused["code"], refused["key"]) == ("FILE_REFUSED", "mcp_servers")
    assert "mcp_servers is an inline table" in refused["error"]
    assert "write it as [mcp_servers.other] and retry" in refused["error"]
    assert (home / ".codex/config.toml").read_bytes() == inline
    write(home, {".codex/config.toml": b'[mcp_servers]\nholdfast = { command = "old" }\n'})
    assert "write it as [mcp_servers.holdfast] and" in install("codex", "--apply")["error"]


def test_an_unusable_folder_is_refused(home: Path, install: Install) -> None:
    folder = home / ".cursor"
    for mode, code in ((0o777, "FILE_UNSAFE"), (0o555, "FILE_REFUSED")):
        folder.mkdir(exist_ok=True)
        folder.chmod(mode)
        assert install("cursor", "--apply")["code"] == code
        assert list(folder.iterdir()) == []
    folder.chmod(0o700)
    (folder / "mcp.json").mkdir()
    assert install("cursor", "--apply")["code"] == "FILE_REFUSED"


def test_a_symlink_stays_one_and_its_target_is_changed(home: Path, install: Install) -> None:
    write(home, {"dotfiles/mcp.json": b"{}\n", ".cursor/other": b""})
    (home / "dotfiles/mcp.json").chmod(0o640)
    link = home / ".cursor" / "mcp.json"
    link.symlink_to("../dotfiles/mcp.json")
    done = install("cursor", "--apply")
    assert link.is_symlink()
    assert "holdfast" in (home / "dotfiles/mcp.json").read_text()
    assert stat.S_IMODE((home / "dotfiles/mcp.json").stat().st_mode) == 0o640
    backup = Path(done["outcomes"][0]["files"][0]["backup"])
    assert (backup.parent, backup.read_bytes()) == (home / "dotfiles", b"{}\n")
    install("cursor", "--uninstall", "--apply")
    assert (home / "dotfiles/mcp.json").read_bytes() == b"{}\n"
    link.unlink()
    link.symlink_to(link.name)
    assert install("cursor", "--apply")["code"] == "FILE_REFUSED"


def test_concurrent_installers_install_once(machine: Machine) -> None:
    names = ["claude-code", "cursor"]
    barrier, outcomes = threading.Barrier(8), []

    def run() -> None:
        barrier.wait()
        done = connect(names, InstallRequest(machine, Command(("/bin/holdfast",)), apply=True))
        outcomes.extend((one.target, [file.change for file in one.files]) for one in done.outcomes)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(("claude-code", ["create", "create"])) == outcomes.count(("cursor", ["create"])) == 1
    assert len(outcomes) == 16
    assert sorted(file.name for file in machine.home.glob(".c*/*")) == ["mcp.json", "settings.json"]
    assert connect(names, InstallRequest(machine, Command(("/bin/holdfast",)))).outcomes[0].outcome == "noop"


def test_a_concurrent_edit_by_the_user_is_not_lost(home: Path) -> None:
    write(home, {"mcp.json": b"{}"})
    document = files.read_document(home / "mcp.json")
    (home / "mcp.json").write_bytes(b'{"newer": 1}')
    with pytest.raises(files.FileChanged):
        files.replace_file(document, b'{"ours": 1}')
    assert read_files(home) == {"mcp.json": b'{"newer": 1}'}
    assert [file.name for file in home.iterdir()] == ["mcp.json"]


def test_a_continue_with_only_its_older_file_is_connected_there_and_keeps_its_models(
    home: Path, install: Install
) -> None:
    theirs = b'{\n  "models": [{"title": "mine"}], // mine\n  "experimental": {\n    "modelContextProtocolServers": [\n'
    theirs += (
        b'      {"transport": {"type": "stdio", "command": "npx", "args": ["holdfast.db", "mcp"]}}\n    ]\n  }\n}\n'
    )
    for before in (theirs, b'{"models": []}\n'):
        write(home, {".continue/config.json": before})
        assert [one["file"] for one in install("continue")["outcomes"][0]["files"]] == [
            str(home / ".continue/config.json")
        ]
        install("continue", "--apply")
        assert install("continue", "--apply")["outcomes"][0]["outcome"] == "noop"
        assert list(read_files(home)) == [".continue/config.json"]
        said, was = (JSONC.parse(data.decode()) for data in ((home / ".continue/config.json").read_bytes(), before))
        ours, *others = said["experimental"]["modelContextProtocolServers"]
        assert ours == {"transport": {"type": "stdio", "command": HOLDFAST, "args": ["mcp"]}}
        assert (said["models"], others) == (
            was["models"],
            was.get("experimental", {}).get("modelContextProtocolServers", []),
        )
        assert [one["state"] for one in install("--detect")["agents"] if one["target"] == "continue"] == ["connected"]
        install("continue", "--apply", "--db", str(home / "my.db"))
        assert (home / ".continue/config.json").read_text().count(HOLDFAST) == 1
        install("continue", "--uninstall", "--apply")
        assert read_files(home) == {".continue/config.json": before}
    write(home, {".continue/config.yaml": b"name: Mine\n"})
    install("continue", "--apply")
    assert "holdfast" in (home / ".continue/config.yaml").read_text()


def test_the_store_is_named_only_if_one_was_chosen(
    home: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    assert install("cursor")["command"] == [HOLDFAST, "mcp"]
    assert install("cursor", "--db", "my.db")["command"] == [HOLDFAST, "mcp", "--db", str(home / "my.db")]
    monkeypatch.setenv("HOLDFAST_DB", "postgresql://me@db/memory")
    assert install("cursor")["command"] == [HOLDFAST, "mcp", "--db", "postgresql://me@db/memory"]
    refused = install("cursor", "--db", "postgresql://me:hunter2@db/memory")
    assert refused["code"] == "VALIDATION_FAILED"
    assert "hunter2" not in refused["error"]


def test_invalid_arguments_are_refused(home: Path, install: Install) -> None:
    wrong = [
        [],
        ["emacs"],
        ["cursr"],
        ["cursor", "--apply", "--dry-run"],
        ["--detect", "zed"],
        ["zed", "vscode", "--config", "x"],
    ]
    refused = [install(*words) for words in wrong]
    assert [(one["exit"], one["code"]) for one in refused] == [(2, "VALIDATION_FAILED")] * len(wrong)
    assert "Did you mean cursor?" in refused[2]["error"]
    assert read_files(home) == {}


def test_another_file_can_be_named(home: Path, install: Install) -> None:
    (home / "insiders").mkdir()
    install("vscode", "--config", str(home / "insiders" / "mcp.json"), "--apply")
    assert list(read_files(home)) == ["insiders/mcp.json"]


def test_the_help_names_every_agent() -> None:
    assert all(name in str(install_commands.install.help) for name in TARGETS)


def test_setup_connects_local_agents_and_ends_with_a_recalled_memory(home: Path) -> None:
    write(home, {".cursor/mcp.json": b"{}", ".gemini/settings.json": b"{nonsense"})
    elsewhere = {"mcpServers": {"holdfast": {"command": "holdfast", "args": ["mcp", "--db", "other"]}}}
    write(home, {".codeium/windsurf/mcp_config.json": json.dumps(elsewhere).encode()})
    done = subprocess.run(
        [HOLDFAST, "setup", "--yes", "--json"], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    answer = json.loads(done.stdout)
    assert [(one["target"], one["outcome"]) for one in answer["outcomes"]] == [
        ("cursor", "applied"),
        ("gemini", "rejected"),
    ]
    assert done.returncode == 6
    assert "other" in (home / ".codeium/windsurf/mcp_config.json").read_text()
    assert "connected to Cursor" in answer["recalled"]
    assert process("get", answer["memory"])["content"] == answer["recalled"]


def test_setup_asks_before_each_change(home: Path) -> None:
    write(home, {".cursor/mcp.json": b"{}", ".gemini/settings.json": b"{}"})
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [HOLDFAST, "setup"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as asking:
        os.write(ours, b"n\ny\n")
        output = asking.communicate(timeout=TIMEOUT)[0].decode()
    assert asking.returncode == 0
    assert (
        output.index("Connect Cursor?")
        < output.index("Connect Gemini CLI?")
        < output.index("Recalled: ")
        < output.index("Next")
    )
    assert (home / ".cursor/mcp.json").read_bytes() == b"{}"
    assert "holdfast" in (home / ".gemini/settings.json").read_text()


def test_setup_without_a_terminal_does_nothing(home: Path) -> None:
    write(home, {".cursor/mcp.json": b"{}"})
    code, _, err = run_command(["setup"])
    assert (code, b"CONFIRMATION_REQUIRED" in err) == (4, True)
    assert read_files(home) == {".cursor/mcp.json": b"{}"}

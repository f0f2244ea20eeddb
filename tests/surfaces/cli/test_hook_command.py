"""The hook, boot and wrap commands: they always succeed, always end in time, and leave nothing behind."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import holdfast
from holdfast.kernel.errors import Invalid
from holdfast.surfaces.cli.app import run
from holdfast.surfaces.cli.hooks_commands import locate_off_file
from holdfast.surfaces.cli.wrap_command import Delivery, choose_strategy
from timeouts import TIMEOUT

ASK = "may we deploy to production on a Friday?"
BEYOND = 60_000


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with memories, and its store."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / ".holdfast.toml").write_text('namespace = "team/web"\n')
    monkeypatch.setenv("HOLDFAST_DB", str(tmp_path / "memory.db"))
    monkeypatch.setenv("HOLDFAST_HOOK_TIMEOUT_MS", str(BEYOND))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    monkeypatch.chdir(folder)
    with holdfast.open() as hold:
        hold.store(title="Deploy day", content="We deploy to production never on a Friday.", namespace="team/web")
    return folder


def event(folder: Path, **said: Any) -> str:
    return msgspec.json.encode({"session_id": "s-1", "cwd": str(folder), **said}).decode()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *words]


def test_hosts_get_the_answers_they_document(web: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said, name in (
        (("session-start",), {"hook_event_name": "SessionStart", "source": "startup"}, "SessionStart"),
        (("prompt", "--host", "codex"), {"prompt": ASK, "turn_id": "1", "session_id": "s-2"}, "UserPromptSubmit"),
    ):
        assert run(["hook", *words, event(web, **said)]) == 0
        answer = msgspec.json.decode(capsys.readouterr().out)
        assert list(answer) == ["hookSpecificOutput"]
        assert sorted(answer["hookSpecificOutput"]) == ["additionalContext", "hookEventName"]
        assert answer["hookSpecificOutput"]["hookEventName"] == name
        assert "never on a Friday" in answer["hookSpecificOutput"]["additionalContext"]
    for words, said in (("tool", {"tool_name": "Edit"}), ("session-end", {"last_assistant_message": "No."})):
        assert run(["hook", words, event(web, **said)]) == 0
        assert capsys.readouterr() == ("", "")
    with holdfast.open() as hold:
        contents = [one.content for one in hold.list(namespace="team/web").memories]
    assert sorted(contents) == ["No.", "We deploy to production never on a Friday.", ASK]


@pytest.mark.parametrize(
    "words",
    [
        ("hook",),
        ("hook", "nonsense"),
        ("hook", "prompt", "garbage"),
        ("hook", "prompt", "{}"),
        ("hook", "prompt", '{"session_id": "s", "cwd": "/no/such/folder", "prompt": "two words"}'),
        ("hook", "prompt", "--host", "emacs", "{}"),
        ("hook", "prompt", "--flag"),
        ("hook", "prompt", "--db", "/proc/nowhere/x.db", '{"session_id": "s", "prompt": "two words"}'),
        ("boot", "--budget", "many"),
        ("boot", "--path", "/no/such/folder"),
        ("boot", "--namespace", "a//b"),
    ],
    ids=" ".join,
)
def test_a_failing_hook_prints_one_line_and_succeeds(
    web: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run(list(words)) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("holdfast ")


def test_an_invalid_project_file_stops_the_hook_and_not_the_agent(
    web: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (web / ".holdfast.toml").write_text('db = "/tmp/stolen.db"\n')
    assert run(["hook", "prompt", event(web, prompt=ASK)]) == 0
    out, err = capsys.readouterr()
    assert (out, ".holdfast.toml" in err) == ("", True)


def test_one_command_turns_all_hooks_off_and_on(
    web: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> bool:
        assert run(["hook", "prompt", event(web, prompt=ASK)]) == 0
        return capsys.readouterr().out == ""

    assert run(["hooks", "off"]) == 0
    assert locate_off_file(os.environ).exists()
    assert run(["hooks", "status"]) == 0
    assert "hooks off" in capsys.readouterr().out
    assert silent()
    assert run(["hooks", "on"]) == 0
    monkeypatch.setenv("HOLDFAST_AGENT_HOOKS", "0")
    capsys.readouterr()
    assert silent()
    monkeypatch.delenv("HOLDFAST_AGENT_HOOKS")
    assert not silent()


def test_a_session_belongs_to_the_folder_it_was_started_in(
    web: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(web))
    assert run(["hook", "prompt", event(tmp_path, prompt=ASK)]) == 0
    assert "never on a Friday" in capsys.readouterr().out


def test_without_capture_nothing_is_stored(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOOK_CAPTURE", "0")
    assert run(["hook", "prompt", event(web, prompt=ASK)]) == 0
    with holdfast.open() as hold:
        assert hold.list(namespace="team/web").count == 1


def test_a_hook_gives_up_in_time_on_a_locked_store_or_a_silent_host(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit holds for every wait: the process ends without partial output or child processes."""
    monkeypatch.setenv("HOLDFAST_HOOK_TIMEOUT_MS", "500")
    with holdfast.open() as hold, hold.ctx.store.transaction():
        finished = subprocess.run(
            command("hook", "prompt"), input=event(web, prompt=ASK).encode(), capture_output=True, timeout=TIMEOUT
        )
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert b"stopped after 0.5 seconds" in finished.stderr
    with subprocess.Popen(
        command("hook", "prompt"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as mute:
        assert mute.wait(TIMEOUT) == 0
        with pytest.raises(ProcessLookupError):
            os.killpg(mute.pid, 0)


def test_boot_and_wrap_wait_for_a_locked_store_no_longer_than_a_hook(
    web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOOK_TIMEOUT_MS", "1000")
    with closing(apsw.Connection(os.environ["HOLDFAST_DB"])) as holder:
        holder.execute("pragma locking_mode=exclusive; begin exclusive").fetchall()
        booted = subprocess.run(command("boot"), capture_output=True, timeout=TIMEOUT)
        wrapped = subprocess.run(command("wrap", "echo", "--", "go on"), capture_output=True, timeout=TIMEOUT)
    assert (booted.returncode, booted.stdout) == (0, b"")
    assert (wrapped.returncode, wrapped.stdout) == (0, b"go on\n")
    for one in (booted, wrapped):
        assert b"stopped after 1 seconds" in one.stderr


def test_boot_reports_its_parts_and_token_count(web: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boot"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("holdfast: team/web | 1 recent | ")
    assert rest[-1].startswith("</recalled ")
    assert run(["boot", "--json", "--budget", "100"]) == 0
    answer = msgspec.json.decode(capsys.readouterr().out)
    assert answer["tokens_used"] <= 100
    assert {part["name"] for part in answer["parts"]} >= {"facts", "lessons", "decisions", "tasks", "stale"}


@pytest.mark.parametrize(
    ("name", "by"), [("claude", "--append-system-prompt"), ("aider", "--message-file"), ("ollama", "")]
)
def test_an_agent_without_hooks_receives_the_context_in_its_own_way(
    web: Path, tmp_path: Path, name: str, by: str
) -> None:
    agent = tmp_path / name
    agent.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "words = [open(word).read() if word.startswith('/dev/fd/') else word for word in sys.argv[1:]]\n"
        "print(words, os.environ.get('OLLAMA_SYSTEM'), os.getpid())\nsys.exit(7)\n"
    )
    agent.chmod(0o755)
    before = set(os.listdir(tmp_path))
    with subprocess.Popen(
        command("wrap", str(agent), "--", "go on", "--x"),
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        out = process.communicate(timeout=TIMEOUT)[0].decode()
    assert process.returncode == 7
    assert out.rstrip().endswith(str(process.pid))  # exec: the same process
    assert out.startswith(f"['{by}', " if by else "['go on', '--x'] ")
    assert "never on a Friday" in out
    assert {one for one in os.listdir(tmp_path) if not one.startswith("memory.db")} - before == set()


def test_the_delivery_follows_from_the_agent_name_or_an_option() -> None:
    chosen: dict[Delivery, str | None] = {"flag": None, "env": None, "file": None}
    known = {
        name: choose_strategy(f"/usr/bin/{name}", chosen).name for name in ("codex", "gemini", "claude-cli", "other")
    }
    assert known == dict.fromkeys(("codex", "gemini", "other"), "--system") | {"claude-cli": "--append-system-prompt"}
    assert choose_strategy("claude", {**chosen, "env": "SAY"}) == ("env", "SAY")
    with pytest.raises(Invalid):
        choose_strategy("claude", {"flag": "-x", "env": "SAY", "file": None})


def test_a_missing_agent_program_is_named(web: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["wrap", "--no-boot", "no-such-agent-here"]) == 1
    assert "no-such-agent-here" in capsys.readouterr().err


def test_captured_events_run_the_configured_hooks(
    web: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hook.sh").write_text("""case "$(cat)" in *secret*) echo '{"decision": "deny"}';; esac""")
    hook = f'event = "pre_store"\ncommand = ["/bin/sh", "{tmp_path}/hook.sh"]\non_error = "deny"\n'
    (tmp_path / "config.toml").write_text(f"[[hooks]]\n{hook}")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config.toml"))
    for prompt in ("my secret word", "my other word"):
        assert run(["hook", "prompt", event(web, prompt=prompt)]) == 0
    assert capsys.readouterr().err == "holdfast hook: The hook 'sh' refuses this\n"
    with holdfast.open() as hold:
        contents = [one.content for one in hold.list().memories if one.memory_kind == "conversation"]
    assert contents == ["my other word"]


LATE = """
import sys, threading
from pathlib import Path
from holdfast.features.tasks import subprocess_runner as child
from holdfast.surfaces.cli.deadline import Deadline

pid, argv = Path(sys.argv[1]), ["/bin/sh", "-c", "echo $$ > pid.new; mv pid.new pid; sleep 600"]
options = {"stdin": b"", "environment": {}, "timeout": 600}
threading.Thread(target=child.run_program, args=(argv,), kwargs=options).start()
while not pid.exists():
    pass
with Deadline("hook prompt", 0.1):
    threading.Event().wait()
"""


def test_a_hook_that_times_out_leaves_no_child_process(tmp_path: Path) -> None:
    words = [sys.executable, "-c", LATE, str(tmp_path / "pid")]
    late = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    assert (late.returncode, b"stopped after 0.1 seconds" in late.stderr) == (0, True)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)

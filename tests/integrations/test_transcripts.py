"""Transcripts of Claude Code and Codex are parsed into turns; adapters without their framework give a clear error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import integrations as adapters
from holdfast.integrations import read_transcript
from holdfast.kernel.errors import Invalid


def code(kind: str, id: str, content: object) -> str:
    entry = {"type": kind, "uuid": id, "sessionId": "s-1", "cwd": "/shop", "timestamp": "2026-01-02T03:04:05Z"}
    return json.dumps({**entry, "message": {"role": kind, "content": content}})


def codex(role: str, text: str) -> str:
    payload = {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
    return json.dumps({"type": "response_item", "timestamp": "2026-01-02T03:04:05Z", "payload": payload})


def test_a_claude_code_transcript_is_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    used = [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {"c": "ls"}}]
    lines = (code("user", "u-1", "Where is the key?"), "{broken", code("assistant", "u-2", used))
    path.write_text("\n".join(lines))
    found = read_transcript(path)
    assert (found.host, len(found.problems), found.left_out) == ("claude-code", 1, {"tools": 1})
    assert [(turn.session, turn.role, turn.text) for turn in found.turns] == [
        ("s-1", "user", "Where is the key?"),
        ("s-1", "assistant", "I look."),
    ]
    assert found.turns[0].at == "2026-01-02T03:04:05.000000Z"
    sorts = [turn.sort for turn in read_transcript(path, include=["tools"]).turns]
    assert sorted(sorts) == ["message", "message", "tools"]


def test_only_a_codex_transcript_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join([codex("user", "Build it."), codex("assistant", "Built.")]))
    found = read_transcript(path)
    assert (found.host, [turn.text for turn in found.turns]) == ("codex", ["Build it.", "Built."])
    notes = tmp_path / "notes.md"
    notes.write_text("# Notes\n\nNothing.")
    with pytest.raises(Invalid, match="not a transcript"):
        read_transcript(notes)


def test_an_adapter_without_its_framework_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("langgraph", "langgraph.store", "langgraph.store.base", "holdfast.integrations.langgraph"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "langgraph", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'holdfast\[langgraph\]'"):
        _ = adapters.HoldfastStore
    assert set(adapters.__all__) == set(dir(adapters))


def test_no_other_module_loads_a_framework() -> None:
    loaded = "import sys, holdfast, holdfast.integrations as a; a.read_transcript; holdfast.open; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert not {"agents", "anthropic", "langgraph"} & set(modules)

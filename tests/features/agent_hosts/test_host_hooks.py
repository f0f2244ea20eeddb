"""Host hooks add relevant memories once per session and capture turns without our own output."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.features.agent_hosts import service as host_hooks
from holdfast.features.agent_hosts.host import Event, HostEvent, parse_event
from holdfast.kernel.errors import Invalid, NotFound

WEB = "team/web"
ASK = "may we deploy to production on a Friday?"


def make_event(event: Event, folder: Path | None = None, **said: Any) -> HostEvent:
    raw = {"session_id": "s-1", **({"cwd": str(folder)} if folder else {}), **said}
    return parse_event(event, msgspec.json.encode(raw), None)


@pytest.fixture
def web(clocked_store: holdfast.Holdfast, tmp_path: Path) -> Path:
    """The folder of a project that has memories."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / ".holdfast.toml").write_text(f'namespace = "{WEB}"\n')
    clocked_store.store(
        title="Deploy day", content="We deploy to production on Tuesdays, never on a Friday.", namespace=WEB
    )
    clocked_store.store(title="Deploy", content="Deploy to production on a Friday only.", namespace="team/other")
    return folder


def list_turns(hold: holdfast.Holdfast) -> list[Any]:
    """Return the captured turns in order."""
    found = [one for one in hold.list(namespace=WEB).memories if one.memory_kind == "conversation"]
    return sorted(found, key=lambda one: one.place)


def ask_prompt(hold: holdfast.Holdfast, folder: Path, prompt: str = ASK, **said: Any) -> str:
    return host_hooks.build_prompt_context(hold.ctx, make_event("prompt", folder, prompt=prompt, **said), 600)


def test_a_prompt_receives_relevant_memories_once_per_session(clocked_store: holdfast.Holdfast, web: Path) -> None:
    said = ask_prompt(clocked_store, web)
    assert "never on a Friday" in said
    assert "Friday only" not in said  # another project's
    assert ask_prompt(clocked_store, web) == ""
    assert "never on a Friday" in ask_prompt(clocked_store, web, session_id="s-2")


@pytest.mark.parametrize("prompt", ["", "  ", "continue", "/clear production Friday", "what is the capital of Peru?"])
def test_an_unrelated_prompt_receives_nothing(clocked_store: holdfast.Holdfast, web: Path, prompt: str) -> None:
    assert ask_prompt(clocked_store, web, prompt) == ""


def test_memories_given_at_session_start_are_not_repeated(clocked_store: holdfast.Holdfast, web: Path) -> None:
    begun = host_hooks.build_session_start(clocked_store.ctx, make_event("session-start", web, source="startup"), 1500)
    assert begun.startswith(f"holdfast: {WEB} | 1 recent | ")
    assert "never on a Friday" in begun
    assert ask_prompt(clocked_store, web) == ""
    assert (
        host_hooks.build_session_start(clocked_store.ctx, make_event("session-start", web, source="resume"), 1500) == ""
    )
    assert "never on a Friday" in host_hooks.build_session_start(
        clocked_store.ctx, make_event("session-start", web, source="compact"), 1500
    )


def test_a_session_at_its_limit_receives_nothing_more(
    clocked_store: holdfast.Holdfast, web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.features.agent_hosts.store.MAX_GIVEN", 1)
    assert ask_prompt(clocked_store, web)
    clocked_store.store(title="Production", content="To deploy to production on a Friday, ask Priya.", namespace=WEB)
    assert ask_prompt(clocked_store, web) == ""


def test_long_texts_stay_within_the_budget_and_the_fence(clocked_store: holdfast.Holdfast, web: Path) -> None:
    for number in range(9):
        text = f"Number {number}: deploy to production on a Friday. " + "Then something else happens. " * 300
        clocked_store.store(title=f"Long {number}", content=text, namespace=WEB)
    said = ask_prompt(clocked_store, web, "x " * 50_000 + ASK)
    assert said.splitlines()[-1].startswith("</recalled ")
    assert len(said) < 5000
    (web / ".holdfast.toml").write_text(f'namespace = "{WEB}"\nbudget = 20000\n')
    begun = host_hooks.build_session_start(clocked_store.ctx, make_event("session-start", web, source="clear"), 1500)
    assert begun.splitlines()[-1].startswith("</recalled ")
    assert len(begun) < 10_000


def test_turns_are_stored_in_order_with_tool_use_between(clocked_store: holdfast.Holdfast, web: Path) -> None:
    for told in (
        make_event("prompt", web, prompt=ASK),
        make_event("prompt", web, prompt=ASK),
        make_event("tool", web, tool_name="Edit", tool_input={"file_path": "/a.py", "new_string": "hidden"}),
        make_event("tool", web, tool_name="mcp__holdfast__memory_recall", tool_input={"context": "x"}),
        make_event("session-end", web, hook_event_name="Stop", last_assistant_message="No, on Tuesdays."),
        make_event("prompt", web, prompt="/compact"),
    ):
        host_hooks.capture_event(clocked_store.ctx, told, clocked_store.call)
    found = list_turns(clocked_store)
    assert [(one.place, one.speaker, one.content) for one in found] == [
        (0, "user", ASK),
        (1, "assistant", "No, on Tuesdays."),
    ]
    assert found[1].metadata == {"host": "claude-code", "tool_calls": [{"tool": "Edit", "brief": "/a.py"}]}


def test_pasted_context_and_questions_are_not_recalled_as_knowledge(
    clocked_store: holdfast.Holdfast, web: Path
) -> None:
    given = ask_prompt(clocked_store, web)
    host_hooks.capture_event(
        clocked_store.ctx,
        make_event("prompt", web, prompt=f"{given}\nSo may we deploy to production on a Friday or not?"),
        clocked_store.call,
    )
    (kept,) = list_turns(clocked_store)
    assert kept.content.strip() == "So may we deploy to production on a Friday or not?"
    host_hooks.capture_event(clocked_store.ctx, make_event("prompt", web, prompt=given), clocked_store.call)
    assert len(list_turns(clocked_store)) == 1
    again = ask_prompt(clocked_store, web, session_id="s-2")
    assert "never on a Friday" in again
    assert "or not?" not in again


def test_state_of_an_ended_session_is_removed(clocked_store: holdfast.Holdfast, web: Path) -> None:
    assert ask_prompt(clocked_store, web)
    host_hooks.capture_event(
        clocked_store.ctx,
        make_event("session-end", web, hook_event_name="SessionEnd", reason="other"),
        clocked_store.call,
    )
    assert ask_prompt(clocked_store, web)


def test_codex_reports_both_sides_of_a_turn_at_once(clocked_store: holdfast.Holdfast, web: Path) -> None:
    raw = {
        "type": "agent-turn-complete",
        "thread-id": "t-1",
        "turn-id": "1",
        "cwd": str(web),
        "input-messages": ["Mend the till."],
        "last-assistant-message": "It is mended.",
    }
    told = parse_event("session-end", msgspec.json.encode(raw), None)
    assert told.host == "codex"
    host_hooks.capture_event(clocked_store.ctx, told, clocked_store.call)
    host_hooks.capture_event(clocked_store.ctx, told, clocked_store.call)
    kept = list_turns(clocked_store)
    assert [one.content for one in kept] == ["Mend the till.", "It is mended."]


def test_a_missing_answer_is_read_from_the_transcript(clocked_store: holdfast.Holdfast, web: Path) -> None:
    host_hooks.capture_event(clocked_store.ctx, make_event("prompt", web, prompt="Mend the till."), clocked_store.call)
    lines = [
        {"type": kind, "sessionId": "s-1", "uuid": kind, "message": {"role": kind, "content": text}}
        for kind, text in (("user", "Mend the till."), ("assistant", "It is mended."))
    ]
    transcript = web / "s-1.jsonl"
    transcript.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    host_hooks.capture_event(
        clocked_store.ctx,
        make_event("session-end", web, hook_event_name="Stop", transcript_path=str(transcript)),
        clocked_store.call,
    )
    kept = list_turns(clocked_store)
    assert sorted(one.content for one in kept) == ["It is mended.", "Mend the till."]


def test_secrets_in_a_prompt_follow_the_project_policy(clocked_store: holdfast.Holdfast, web: Path) -> None:
    clocked_store.policy_set(namespace=WEB, secrets="redact")
    host_hooks.capture_event(
        clocked_store.ctx,
        make_event("prompt", web, prompt="The key is AKIAIOSFODNN7EXAMPLE, use it for the upload."),
        clocked_store.call,
    )
    (kept,) = list_turns(clocked_store)
    assert "AKIAIOSFODNN7EXAMPLE" not in kept.content


@pytest.mark.parametrize(
    "told",
    [b"", b"garbage", b"\xff\xfe", b"[]", b"{}", b'{"session_id": 7}', b"[" * 5000, b'{"session_id":"s","type":"X"}'],
)
def test_an_unknown_event_is_refused_by_name(told: bytes) -> None:
    with pytest.raises(Invalid):
        parse_event("prompt", told, None)


def test_malformed_events_are_processed_as_far_as_possible(clocked_store: holdfast.Holdfast, web: Path) -> None:
    odd = parse_event("tool", b'{"session_id": "s\\u0000\\ud800", "tool_input": [1], "cwd": 5}', "codex")
    assert (odd.tool, odd.brief, odd.folder, odd.host) == ("", "", None, "codex")
    host_hooks.capture_event(clocked_store.ctx, odd, clocked_store.call)
    with pytest.raises(NotFound):
        ask_prompt(clocked_store, web / "nowhere")

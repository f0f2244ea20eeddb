"""Turns captured live and recovered from transcripts are stored once."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import exports
import pytest

import holdfast
from holdfast.kernel.errors import Invalid, NotFound


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def capture(ctx: Any, index: int, content: str, role: str = "user", **more: Any) -> Any:
    return ctx.capture_turn(host_session_id="s-1", host_turn_index=index, role=role, content=content, **more)


def list_captured(ctx: Any) -> list[tuple[int, str, str]]:
    found = [one for one in ctx.list(limit=1000).memories if one.memory_kind == "conversation"]
    return [(one.place, one.speaker, one.content) for one in sorted(found, key=lambda one: (one.thread, one.place))]


def write_transcript(path: Path, *texts: str) -> Path:
    """Write a Claude Code transcript with alternating turns."""
    roles = ("user", "assistant")
    return exports.write_lines(
        path, *(exports.code_entry(roles[n % 2], f"x-{n}", text) for n, text in enumerate(texts))
    )


def test_a_turn_is_stored_with_its_speaker_time_and_session(hold: Any) -> None:
    done = capture(
        hold,
        3,
        "Where is the key?",
        timestamp_iso="2026-01-31T08:00:00Z",
        host_kind="claude-code",
        tool_calls=[{"tool": "Read", "brief": "a file"}],
    )
    assert (done.outcome, done.dedup_hit, done.layer) == ("stored", False, "L4")
    memory = hold.get(done.memory_id)
    assert (memory.content, memory.speaker, memory.thread, memory.place) == ("Where is the key?", "user", "s-1", 3)
    assert (memory.memory_kind, memory.occurred_at) == ("conversation", datetime(2026, 1, 31, 8, tzinfo=UTC))
    assert memory.source_uri == "uri:claude-code:s-1#3"
    assert memory.metadata["tool_calls"] == [{"tool": "Read", "brief": "a file"}]


def test_a_repeated_turn_is_stored_once_and_a_changed_one_is_updated(hold: Any) -> None:
    first = capture(hold, 0, "Where is the")
    again = capture(hold, 0, "Where is the")
    longer = capture(hold, 0, "Where is the key?")
    assert [one.memory_id for one in (again, longer)] == [first.memory_id] * 2
    assert [(one.outcome, one.dedup_hit) for one in (again, longer)] == [("unchanged", True), ("updated", True)]
    assert list_captured(hold) == [(0, "user", "Where is the key?")]


def test_the_same_words_in_another_turn_or_session_are_a_new_turn(hold: Any) -> None:
    ids = {capture(hold, 0, "Yes.").memory_id, capture(hold, 2, "Yes.").memory_id}
    ids.add(hold.capture_turn(host_session_id="s-2", host_turn_index=0, role="user", content="Yes.").memory_id)
    assert len(ids) == 3


def test_a_turn_that_was_deleted_stays_deleted(hold: Any) -> None:
    id = capture(hold, 0, "Forget me.").memory_id
    hold.delete(id)
    assert (capture(hold, 0, "Forget me.").outcome, capture(hold, 0, "Again.").outcome) == ("unchanged", "left")
    assert list_captured(hold) == []


def test_answers_of_our_own_tools_are_not_captured(hold: Any) -> None:
    done = capture(hold, 1, "Old words.", "tool_result", tool_calls=[{"tool": "mcp__holdfast__memory_recall"}])
    assert (done.memory_id, done.outcome, done.dedup_hit) == (None, "left_out", False)
    hold.store(title="Deploy day", content="We deploy on Tuesdays.")
    assert capture(hold, 2, hold.context("when do we deploy?").text).outcome == "left_out"
    assert list_captured(hold) == []


def test_an_invalid_turn_is_reported_and_not_stored(hold: Any) -> None:
    with pytest.raises(Invalid, match="timestamp_iso"):
        capture(hold, 0, "x", timestamp_iso="yesterday")
    with pytest.raises(Invalid, match="NUL"):
        capture(hold, 0, "a\x00b")
    with pytest.raises(Invalid, match="must not be empty"):
        capture(hold, 0, " \n ")
    assert list_captured(hold) == []
    future = capture(hold, 0, "x", timestamp_iso="2999-01-01T00:00:00Z")
    assert future.notes == ["time '2999-01-01T00:00:00Z' is in the future; stored without a time"]


def test_a_long_turn_is_stored_in_parts_and_identified_by_the_first(hold: Any) -> None:
    done = capture(hold, 0, "word " * 30_000)
    assert hold.get(done.memory_id).title.endswith("part 1")
    assert len(list_captured(hold)) == 3


def test_importing_a_transcript_does_not_duplicate_captured_turns(hold: Any, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "s-1.jsonl", "Mend it.", "Yes.", "More.", "Yes.", "Thanks.")
    capture(hold, 0, "Mend it.")
    capture(hold, 1, "Yes.", "assistant")
    capture(hold, 2, "Yes.", "assistant")
    planned = hold.recover(transcript=str(path), dry_run=True)
    done = hold.recover(transcript=str(path))
    assert (done.imported, done.joined, done.unchanged) == (planned.imported, planned.joined, 0) == (2, 3, 0)
    assert list_captured(hold) == [
        (0, "user", "Mend it."),
        (1, "assistant", "Yes."),
        (2, "user", "More."),
        (3, "assistant", "Yes."),
        (4, "user", "Thanks."),
    ]
    assert (hold.recover(transcript=str(path)).unchanged, len(list_captured(hold))) == (5, 5)
    assert hold.mine(str(path)).unchanged == 5


def test_capturing_does_not_duplicate_turns_imported_from_a_transcript(hold: Any, tmp_path: Path) -> None:
    hold.recover(transcript=str(write_transcript(tmp_path / "s-1.jsonl", "Mend it.", "Yes.", "More.", "Yes.")))
    told = [capture(hold, 0, "Mend it."), *(capture(hold, n, "Yes.", "assistant") for n in (1, 2, 3))]
    assert [one.outcome for one in told] == ["joined", "joined", "joined", "stored"]
    assert len({one.memory_id for one in told}) == 4
    assert [capture(hold, 1, "Yes.", "assistant").outcome, len(list_captured(hold))] == ["unchanged", 5]


def test_recover_takes_the_last_turns_since_a_time(hold: Any, tmp_path: Path) -> None:
    entries = [exports.code_entry("user", f"x-{n}", f"Turn {n}", timestamp=f"2026-01-30T0{n}:00:00Z") for n in range(6)]
    path = exports.write_lines(tmp_path / "s.jsonl", *entries)
    planned = hold.recover(transcript=str(path), limit=2, dry_run=True)
    assert (planned.imported, planned.left_out, list_captured(hold)) == (2, {"before": 4}, [])
    hold.recover(transcript=str(path), limit=2)
    assert [content for _, _, content in list_captured(hold)] == ["Turn 4", "Turn 5"]
    hold.recover(transcript=str(path), since="2026-01-30T02:30:00Z")
    assert [content for _, _, content in list_captured(hold)] == ["Turn 3", "Turn 4", "Turn 5"]


def test_recover_finds_the_newest_transcripts_of_this_folder(
    hold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "my shop"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    with pytest.raises(NotFound, match="give one with --transcript"):
        hold.recover()
    project = "".join(sign if sign.isalnum() else "-" for sign in str(here))
    one = write_transcript(tmp_path / "claude" / "projects" / project / "s-1.jsonl", "Claude, mend it.")
    other = exports.codex(tmp_path / "codex" / "sessions" / "2025" / "10" / "rollout-1.jsonl", str(here))
    exports.codex(tmp_path / "codex" / "sessions" / "2025" / "11" / "rollout-2.jsonl", "/elsewhere")
    os.utime(one, (1, 1_800_000_000))
    os.utime(other, (1, 1_700_000_000))
    assert hold.recover(dry_run=True, sessions=1).transcripts == [str(one)]
    assert hold.recover(host="codex", dry_run=True).transcripts == [str(other)]
    done = hold.recover()
    assert (done.transcripts, done.format, done.imported) == ([str(other), str(one)], "codex/claude-code", 3)


def test_recover_refuses_files_other_than_transcripts(hold: Any, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is not a transcript"):
        hold.recover(transcript=str(exports.mbox(tmp_path / "mail")))
    with pytest.raises(Invalid, match="use mine"):
        hold.recover(transcript=str(tmp_path))
    with pytest.raises(NotFound):
        hold.recover(transcript=str(tmp_path / "nowhere"))


def test_a_transcript_cut_by_a_crash_yields_its_complete_lines(hold: Any, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "s-1.jsonl", "Mend it.", "I do.")
    with path.open("a") as file:
        file.write(json.dumps(exports.code_entry("user", "x-2", "Lost words"))[:-20])
    done = hold.recover(transcript=str(path))
    assert (done.imported, done.rejected, done.problems[0].where) == (2, 1, "s-1.jsonl:3")


def test_a_turn_imported_permanently_stays_permanent_in_either_order(hold: Any, clock: Any, tmp_path: Path) -> None:
    path = str(write_transcript(tmp_path / "s-1.jsonl", "Mend it.", "Yes."))
    capture(hold, 0, "Mend it.", tier="mid")
    hold.recover(transcript=path, tier="mid")
    assert {one.tier for one in hold.list().memories} == {"mid"}
    clock.move(days=30)
    assert list_captured(hold) == []
    mined = hold.mine(path)
    assert (mined.updated, mined.unchanged, mined.rejected) == (2, 0, 0)
    assert [content for _, _, content in list_captured(hold)] == ["Mend it.", "Yes."]
    clock.move(days=3000)
    assert {one.tier for one in hold.list().memories} == {"long"}
    assert hold.recover(transcript=path).unchanged == 2
    assert {one.tier for one in hold.list().memories} == {"long"}

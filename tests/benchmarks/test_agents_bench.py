"""The benchmark of task claims and context building runs on small stores too."""

import pytest

from benchmarks import agents


def test_task_claims_are_measured_against_bare_sql_and_context_building_in_milliseconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agents, "QUESTIONS", 2)
    agents.main(["--tasks", "200", "--messages", "40"])
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("claim of 50 tasks on one file: ")
    assert "x of the bare statement (at most 3x)" in first
    assert last.startswith("build_context among 40 messages, slowest 5 %: ")
    assert last.endswith("(at most 50 ms)")

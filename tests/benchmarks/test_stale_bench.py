"""The benchmark of invalidation and stale marks runs on small stores too."""

import pytest

from benchmarks import stale


def test_invalidation_and_stale_marks_are_measured_against_their_baselines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stale, "DEPENDENTS", 9)
    monkeypatch.setattr(stale, "BATCH", 70)
    monkeypatch.setattr(stale, "QUESTIONS", 3)
    stale.main(["2"])
    superseding, marked = capsys.readouterr().out.splitlines()
    assert superseding.startswith("superseding a source of 9 reflections: ")
    assert marked.startswith("recall with marks of what is stale: ")
    assert "x (at most 5x)" in superseding

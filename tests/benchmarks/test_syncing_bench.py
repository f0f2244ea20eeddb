"""The sync benchmark runs on small stores too."""

import pytest

from benchmarks import syncing


def test_sync_is_measured_against_an_export_and_an_import(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(syncing, "REPEATS", 1)
    syncing.main(["5", "9"])
    first, _, again, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("first sync of 5: ")
    assert "x of export and import (at least 0.5x)" in first
    assert again.startswith("sync of 5 with nothing new: ")
    assert "(at most 2x and 50 ms)" in again

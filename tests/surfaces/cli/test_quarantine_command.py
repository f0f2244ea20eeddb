"""Human output of the quarantine commands: stored text cannot imitate it."""

from pathlib import Path

from four_surfaces import run_command

import holdfast
from holdfast.kernel import timestamps as moment
from holdfast.kernel.context import read_clock


def run_words(db: Path, *words: str) -> tuple[int, str]:
    code, out, error = run_command([f"--db={db}", *words])
    return code, (out + error).decode()


def test_a_quarantined_change_is_listed_shown_retried_and_dropped(tmp_path: Path) -> None:
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    with holdfast.open(str(there), now=lambda: read_clock() + 30 * moment.DAY) as ahead:
        memory_id = ahead.store(title="Later", content="It will be.\u202e").id
    holdfast.open(str(here)).close()
    assert run_words(here, "quarantine", "list") == (0, "The quarantine is empty.\n")
    assert run_words(here, "sync", str(there), "-d", "pull")[0] == 6
    with holdfast.open(str(here)) as hold:
        id = hold.quarantine().quarantined[0].id
    _, listed = run_words(here, "quarantine", "list")
    assert all(word in listed for word in (id, "future", "memory", memory_id, "seven days ahead"))
    _, shown = run_words(here, "quarantine", "show", id)
    assert "It will be." in shown
    assert "\u202e" not in shown
    code, tried = run_words(here, "quarantine", "retry", id)
    assert (code, tried.splitlines()[0]) == (6, "0 applied, 1 still in quarantine")
    code, dropped = run_words(here, "quarantine", "drop", id, "--yes")
    assert (code, dropped.startswith(f"Dropped memory {memory_id}, change 1 of ")) == (0, True)

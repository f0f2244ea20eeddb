"""check_duplicate, limited to what the caller may see."""

import pytest

import holdfast
from holdfast.kernel.context import Caller
from holdfast.types import DuplicateCheck, Neighbour

TEXT = "The database password is rotated monthly and kept in the vault under ops/db."
REWORDED = "The database password rotates monthly and is kept in the vault under ops/db."


def test_an_empty_store_has_no_duplicates(hold: holdfast.Holdfast) -> None:
    assert hold.check_duplicate(title="Any", content="thing") == DuplicateCheck(
        is_duplicate=False, threshold=0.85, nearest=None, suggested_merge=None, candidates_scanned=0
    )


def test_an_identical_text_is_found_by_hash_whatever_the_padding_of_its_title(hold: holdfast.Holdfast) -> None:
    kept = hold.store(title="Password", content=TEXT, namespace="ops")
    assert hold.check_duplicate(title=" Password ", content=TEXT, threshold=1.0) == DuplicateCheck(
        is_duplicate=True,
        threshold=1.0,
        nearest=Neighbour(id=kept.id, title="Password", namespace="ops", similarity=1.0),
        suggested_merge=kept.id,
        candidates_scanned=1,
    )


def test_a_text_without_words_is_found_by_its_hash(hold: holdfast.Holdfast) -> None:
    kept = hold.store(title="!!!", content="???")
    assert hold.check_duplicate(title="!!!", content="???").suggested_merge == kept.id
    assert hold.check_duplicate(title="!!!", content="...").nearest is None


def test_a_reworded_text_is_a_duplicate_above_the_threshold(hold: holdfast.Holdfast) -> None:
    kept = hold.store(title="Password", content=TEXT)
    hold.store(title="Lunch", content="Lunch is at noon, and the vault of the database is closed.")
    near = hold.check_duplicate(title="Password", content=REWORDED)
    assert (near.is_duplicate, near.suggested_merge, near.candidates_scanned) == (True, kept.id, 2)
    assert near.nearest is not None
    strict = hold.check_duplicate(title="Password", content=REWORDED, threshold=0.99)
    assert (strict.is_duplicate, strict.suggested_merge, strict.nearest) == (False, None, near.nearest)


def test_another_fact_in_the_same_form_is_no_duplicate(hold: holdfast.Holdfast) -> None:
    hold.store(title="Ports", content="Postgres runs on port 5432.")
    assert not hold.check_duplicate(title="Ports", content="Redis listens on 6379 instead.").is_duplicate


def test_a_given_namespace_limits_the_check(hold: holdfast.Holdfast) -> None:
    hold.store(title="Password", content=TEXT, namespace="ops")
    assert hold.check_duplicate(title="Password", content=TEXT, namespace="elsewhere").nearest is None
    assert hold.check_duplicate(title="Password", content=REWORDED, namespace="ops").is_duplicate


@pytest.mark.parametrize("content", [TEXT, REWORDED], ids=["exactly", "nearly"])
def test_invisible_memories_are_not_duplicates(hold: holdfast.Holdfast, content: str) -> None:
    hold.store(title="Password", content=TEXT, scope="private")
    archived = hold.store(title="Password", content=TEXT, namespace="old")
    hold.archive(ids=[archived.id])
    asked = {"title": "Password", "content": content}
    assert hold.check_duplicate(**asked).is_duplicate
    assert hold.call("check_duplicate", asked, caller=Caller(agent="ai:other@here")).nearest is None
    confined = Caller(agent="ai:tester@here", namespaces=("team",))
    assert hold.call("check_duplicate", asked, caller=confined).nearest is None


def test_a_duplicate_check_writes_nothing(hold: holdfast.Holdfast) -> None:
    kept = hold.store(title="Password", content=TEXT)
    hold.check_duplicate(title="Password", content=TEXT)
    hold.check_duplicate(title="Password", content=REWORDED)
    assert (hold.stats().changes, hold.get(kept.id).access_count) == (1, 0)


def test_the_number_of_comparisons_is_bounded(hold: holdfast.Holdfast) -> None:
    rows = [{"title": f"Title {number}", "content": f"{TEXT} {number}"} for number in range(80)]
    hold.bulk_store(memories=rows)
    answer = hold.check_duplicate(title="Title", content=TEXT)
    assert (answer.is_duplicate, answer.candidates_scanned) == (True, 50)

"""A failing change of one peer neither blocks nor replaces changes of another."""

from collections.abc import Callable
from typing import Any

import forged_changes
import msgspec
import pytest
from forged_changes import Json
from msgspec.structs import replace

import holdfast
from holdfast.features.skills.model import skill_id
from holdfast.kernel.journal.journal import new_key, public_key_of
from holdfast.kernel.records.change import digest

DAY = 86_400 * 10**6


@pytest.fixture
def clock() -> list[int]:
    return [1_790_000_000_000_000]


@pytest.fixture
def here(make: Callable[..., holdfast.Holdfast], clock: list[int]) -> holdfast.Holdfast:
    return make(now=lambda: clock[0])


@pytest.fixture
def bad(make: Callable[..., holdfast.Holdfast], here: holdfast.Holdfast, clock: list[int]) -> holdfast.Holdfast:
    return enrol_peer(make, here, "bad", clock)


@pytest.fixture
def good(make: Callable[..., holdfast.Holdfast], here: holdfast.Holdfast, clock: list[int]) -> holdfast.Holdfast:
    return enrol_peer(make, here, "good", clock)


def enrol_peer(
    make: Callable[..., holdfast.Holdfast], here: holdfast.Holdfast, name: str, clock: list[int]
) -> holdfast.Holdfast:
    store = make(now=lambda: clock[0])
    here.peer_add(name=name, token=store.peer_token().token)
    return store


def ahead(clock: list[int], days: int) -> int:
    """Return a stamp time some days from now."""
    return (clock[0] + days * DAY) // 1000 << 16


def last_of(store: holdfast.Holdfast) -> Json:
    return forged_changes.wire(forged_changes.page_of(store)[1].changes[-1])


def reasons(answer: Any) -> list[str]:
    return [one.reason for one in answer.others if one.outcome == "rejected"]


def list_reasons(store: holdfast.Holdfast) -> list[str]:
    return [one.reason for one in store.quarantine().quarantined]


def edit_content(said: Json, at: int, content: Any, **seen: Any) -> Json:
    """Build an edit that sets the content of a memory at a time."""
    delta = {"content": [[[at, said["origin"], content]], {said["origin"]: at, **seen}]}
    return {**said, "at": at, "delta": msgspec.json.encode(delta).decode()}


def test_a_malformed_future_change_is_invalid_at_once_and_stays_invalid(
    here: holdfast.Holdfast, bad: holdfast.Holdfast, good: holdfast.Holdfast, clock: list[int]
) -> None:
    kept = bad.store(title="Known", content="It is known.")
    bad.update(id=kept.id, content="It is known better.")
    said = edit_content(last_of(bad), ahead(clock, 8), "x", **{"other.1-0": 1.5})
    assert reasons(forged_changes.send(here, bad, [forged_changes.sign_change(bad, said)])) == ["invalid"]
    clock[0] += 2 * DAY
    good.store(title="Honest", content="It is so.")
    assert forged_changes.send_all(here, good).outcomes == ["new"]
    assert list_reasons(here) == ["invalid"]
    assert here.verify().intact


def test_an_unappliable_quarantined_change_blocks_neither_its_page_nor_others(
    here: holdfast.Holdfast, bad: holdfast.Holdfast, good: holdfast.Holdfast, clock: list[int]
) -> None:
    """The row that it edits is damaged, so the edit cannot be merged."""
    damaged = [bad.store(title=f"Damaged {number}", content="It will be damaged.") for number in range(2)]
    whole = bad.store(title="Whole", content="It is whole.")
    forged_changes.send_all(here, bad)
    edits = []
    for number, one in enumerate([damaged[0], whole, damaged[1]]):
        bad.update(id=one.id, content="Edited.")
        edits.append(
            forged_changes.sign_change(bad, edit_content(last_of(bad), ahead(clock, 8) + number, "Edited later."))
        )
    assert reasons(forged_changes.send(here, bad, edits)) == ["future"] * 3
    with here.ctx.store.transaction() as session:
        for one in damaged:
            session.execute_sql(
                "update memory set field_versions = :packed where id = :id", [{"id": one.id, "packed": b"[1.5"}]
            )
    clock[0] += 2 * DAY
    good.store(title="Honest", content="It is so.")
    answer = forged_changes.send_all(here, good)
    assert (answer.outcomes, here.get(id=whole.id).content) == (["new"], "Edited later.")
    assert sorted(list_reasons(here)) == ["invalid", "invalid"]
    good.store(title="Also honest", content="It is so, too.")
    assert forged_changes.send_all(here, good, after=1).outcomes == ["new"]
    done = here.quarantine_retry()
    assert (done.applied, [one.reason for one in done.outcomes]) == (0, ["invalid", "invalid"])
    assert here.gc() is not None


def test_a_waiting_change_is_not_replaced_by_an_unverified_one(
    here: holdfast.Holdfast, bad: holdfast.Holdfast, good: holdfast.Holdfast, clock: list[int]
) -> None:
    kept = good.store(title="Honest", content="It is so.")
    good.update(id=kept.id, content="It is still so.")
    create, edit = map(forged_changes.wire, forged_changes.page_of(good)[1].changes)
    assert reasons(forged_changes.send(here, good, [edit])) == ["waits"]
    stripped = {name: value for name, value in edit.items() if name != "delta"}
    forged = [{**edit, "actor": "ai:eve@x"}, {**edit, "at": -1}, {**stripped, "erased": "0" * 64}]
    assert [reasons(forged_changes.send(here, bad, [one])) for one in forged] == [["forged"], ["invalid"], ["forged"]]
    assert forged_changes.send(here, good, [create]).outcomes == ["new"]
    assert (here.get(id=kept.id).content, here.quarantine().total) == ("It is still so.", 0)


def test_a_peer_relaying_a_change_without_text_does_not_block_the_full_one(
    here: holdfast.Holdfast, bad: holdfast.Holdfast, good: holdfast.Holdfast
) -> None:
    """Its author signed the digest of the text, so the signature is valid without the text."""
    good.store(title="Honest", content="It is so.")
    bad.sync(remote=good.settings.db, direction="pull", trust_source=True)
    (change,) = forged_changes.page_of(bad)[1].changes
    stripped = replace(change, body=None, erased=digest(change.body, None))
    assert reasons(forged_changes.send(here, bad, [forged_changes.wire(stripped)])) == ["waits"]
    assert here.verify().intact
    assert forged_changes.send_all(here, good).outcomes == ["new"]
    assert (here.recall("honest").count, here.quarantine().total) == (1, 0)


def test_a_key_is_learned_only_from_a_signature(
    here: holdfast.Holdfast, bad: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast], clock: list[int]
) -> None:
    """A peer claims its own key for an unknown store, next to a change that is not verified."""
    unknown = make(now=lambda: clock[0])
    unknown.store(title="Dropped", content="Nobody wants it.")
    sender, page = forged_changes.page_of(unknown)
    said = forged_changes.wire(page.changes[0])
    assert reasons(forged_changes.send(here, bad, [said])) == ["unsigned"]
    here.quarantine_drop(ids=[one.id for one in here.quarantine().quarantined])
    claim = {sender.origin: public_key_of(new_key()).hex()}
    assert reasons(forged_changes.send(here, bad, [said], authors=claim)) == ["dropped"]
    here.peer_add(name="unknown", token=unknown.peer_token().token)
    unknown.store(title="Honest", content="It is so.")
    assert forged_changes.send_all(here, unknown, after=1).outcomes == ["new"]


SKILL = "---\nname: tidy\ndescription: Tidy up.\nnamespace: team\n---\nTidy up.\n"


def test_a_skill_with_a_wrong_id_is_invalid(
    here: holdfast.Holdfast, bad: holdfast.Holdfast, good: holdfast.Holdfast
) -> None:
    """Two skills cannot have the same name: a table constraint rejects the second."""
    good.skill_register(inline_skill=SKILL)
    assert forged_changes.send_all(here, good).outcomes == ["new", "new"]
    bad.skill_register(inline_skill=SKILL.replace("Tidy up.\n", "Tidy up at once.\n"))
    said = next(
        forged_changes.wire(change) for change in forged_changes.page_of(bad)[1].changes if change.kind == "skill"
    )
    other = skill_id("team", "other")
    body = {**msgspec.json.decode(said["body"]), "id": other}
    said = {**said, "n": 100, "record": other, "body": msgspec.json.encode(body).decode()}
    assert reasons(forged_changes.send(here, bad, [forged_changes.sign_change(bad, said)])) == ["invalid"]
    assert "rejected" not in forged_changes.send_all(here, bad).outcomes
    assert [one.name for one in here.skill_list().skills] == ["tidy"]
    assert here.verify().intact


def test_a_change_must_name_its_own_memory(
    here: holdfast.Holdfast, bad: holdfast.Holdfast, good: holdfast.Holdfast
) -> None:
    """`about` decides visibility: an edit of a private memory without it would be visible to all."""
    kept = bad.store(title="Mine", content="For me.", scope="private")
    bad.update(id=kept.id, content="For me alone.")
    create, edit = map(forged_changes.wire, forged_changes.page_of(bad)[1].changes)
    told = [create, *(forged_changes.sign_change(bad, {**edit, "about": about}) for about in (None, "another"))]
    assert [forged_changes.send(here, bad, [one]).outcomes for one in told] == [["new"], ["rejected"], ["rejected"]]
    assert list_reasons(here) == ["invalid"]

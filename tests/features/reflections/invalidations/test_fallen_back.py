"""A restored source resolves its notices."""

import pytest
from falling import WAYS, Remember, told
from msgspec import UNSET

import holdfast
from holdfast.kernel.journal import journal


@pytest.mark.parametrize("way", ["archived", "deleted", "ended", "superseded"])
def test_what_comes_back_resolves_what_it_made_stale_and_falling_again_opens_it(
    timed: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = WAYS[way]
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    fall(timed, fallen, heir)
    with timed.hold.reading() as session:
        (last,) = [entry.seq for entry in journal.pages(session) if entry.op in ("archive", "delete", "update")] or [0]
    if way == "superseded":
        timed.kg_invalidate(heir, fallen, "supersedes")
    else:
        timed.undo(last)
    by = heir if way == "superseded" else fallen
    assert told(timed) == {(fallen, by, near, 1, cause, "resolved")}
    (one,) = timed.invalidations().invalidations
    assert (one.reason, one.resolver) == ("restored", "ai:tester@here")
    assert timed.get(near).stale is UNSET
    fall(timed, fallen, heir)
    assert told(timed) == {(fallen, by, near, 1, cause, "open")}
    (one,) = timed.invalidations().invalidations
    assert (one.reason, one.resolver) == (UNSET, UNSET)


def test_what_comes_back_leaves_alone_whoever_lost_the_link_to_it(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    left, stays = remember("left", ground), remember("stays", ground)
    timed.archive(ids=[ground])
    timed.kg_invalidate(left, ground, "derived_from")
    timed.archive_restore(ground)
    assert {(one[2], one[5]) for one in told(timed)} == {(left, "open"), (stays, "resolved")}
    timed.link(left, ground, relation="derived_from")
    assert {(one[2], one[5]) for one in told(timed)} == {(left, "resolved"), (stays, "resolved")}


def test_a_memory_that_was_away_when_its_ground_fell_is_stale_when_it_is_back(
    timed: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    timed.archive(ids=[near])
    assert timed.delete(ground).invalidation_notified == [near]
    timed.archive_restore(near)
    assert timed.get(near).stale.cause == "deleted"

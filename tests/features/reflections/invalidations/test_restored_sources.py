"""A restored source resolves its notices."""

import pytest
from ways_to_invalidate import CAUSES, Remember, read_notices

import holdfast
from holdfast.kernel.journal import journal


@pytest.mark.parametrize("way", ["archived", "deleted", "ended", "superseded"])
def test_a_restored_source_resolves_notices_and_another_invalidation_reopens_them(
    clocked_store: holdfast.Holdfast, remember: Remember, way: str
) -> None:
    fall, cause = CAUSES[way]
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen)
    fall(clocked_store, fallen, heir)
    with clocked_store.ctx.reading() as session:
        (last,) = [
            entry.seq for entry in journal.iter_entries(session) if entry.op in ("archive", "delete", "update")
        ] or [0]
    if way == "superseded":
        clocked_store.kg_invalidate(heir, fallen, "supersedes")
    else:
        clocked_store.undo(last)
    by = heir if way == "superseded" else fallen
    assert read_notices(clocked_store) == {(fallen, by, near, 1, cause, "resolved")}
    (one,) = clocked_store.invalidations().invalidations
    assert (one.reason, one.resolver) == ("restored", "ai:tester@here")
    assert clocked_store.get(near).stale is None
    fall(clocked_store, fallen, heir)
    assert read_notices(clocked_store) == {(fallen, by, near, 1, cause, "open")}
    (one,) = clocked_store.invalidations().invalidations
    assert (one.reason, one.resolver) == (None, None)


def test_a_restored_source_does_not_resolve_notices_of_ended_links(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    left, stays = remember("left", ground), remember("stays", ground)
    clocked_store.archive(ids=[ground])
    clocked_store.kg_invalidate(left, ground, "derived_from")
    clocked_store.archive_restore(ground)
    assert {(one[2], one[5]) for one in read_notices(clocked_store)} == {(left, "open"), (stays, "resolved")}
    clocked_store.link(left, ground, relation="derived_from")
    assert {(one[2], one[5]) for one in read_notices(clocked_store)} == {(left, "resolved"), (stays, "resolved")}


def test_a_restored_dependent_is_stale_if_its_source_was_invalidated_meanwhile(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    clocked_store.archive(ids=[near])
    assert clocked_store.delete(ground).invalidation_notified == [near]
    clocked_store.archive_restore(near)
    assert clocked_store.get(near).stale.cause == "deleted"

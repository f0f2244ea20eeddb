"""The convergence tests detect each seeded merge fault quickly."""

from collections.abc import Callable
from typing import Any

import pytest
from store_pool import StorePool, drive

from holdfast.features.sync import merge_changes
from holdfast.features.sync import read_changes as exchange
from holdfast.features.sync.exchange import LocalEndpoint
from holdfast.features.sync.merge_changes import ChangeMerger
from holdfast.features.sync.quarantine.service import QuarantineRetry
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import conflicts
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.kinds import body_text
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records import merge
from holdfast.kernel.records.memory import MEMORY_MERGE_SCHEMA
from holdfast.kernel.records.merge import FieldState, canonical_json
from holdfast.kernel.timestamps import Stamp, tick

RUNS = 120
STEPS = 20
Patch = pytest.MonkeyPatch


def drop_a_tombstone(patch: Patch) -> None:
    join = ChangeMerger._join_change

    def forgetful(self: ChangeMerger, kind: Any, change: Any, held: Any, written: Any) -> Any:
        if change.op != "delete":
            return join(self, kind, change, held, written)
        self._append_change(change, held.own, body_text(held.own))
        return "noop"

    patch.setattr(ChangeMerger, "_join_change", forgetful)


def skip_a_field(patch: Patch) -> None:
    read = merge_changes.read_change

    def shorter(kind: Any, change: Any) -> Any:
        created, written = read(kind, change)
        return created, {name: cell for name, cell in written.items() if name != "priority"}

    patch.setattr(merge_changes, "read_change", shorter)


def drop_unknown_fields(patch: Patch) -> None:
    read = merge_changes.read_change

    def shorter(kind: Any, change: Any) -> Any:
        created, written = read(kind, change)
        return created, {name: cell for name, cell in written.items() if name != "mood"}

    patch.setattr(merge_changes, "read_change", shorter)


def keep_one_context_for_a_whole_row(patch: Patch) -> None:
    def edit(shape: Any, held: Any, edits: Any, stamp: Stamp) -> Any:
        seen = {held.base.origin: held.base.time}
        for cell in held.own.values():
            seen |= {origin: max(time, seen.get(origin, 0)) for origin, time in cell.seen.items()}
        whole = {name: FieldState(held.state_of(name, old).values, seen) for name, (old, _) in edits.items()}
        return original(shape, cells.FieldVersions(held.base, {**held.own, **whole}), edits, stamp)

    original = cells.apply_edits
    patch.setattr(cells, "apply_edits", edit)


def let_vectors_pass_gaps(patch: Patch) -> None:
    def advance(session: Any, origins: Any, *more: Any) -> None:
        for origin in origins:
            ((n,),) = session.query_sql("select max(n) from journal where origin = :origin", {"origin": origin})
            session.do("version_vector_put", origin=origin, n=n or 0)

    patch.setattr(exchange, "advance_vector", advance)


def thin_equal_values_when_joining(patch: Patch) -> None:
    def join(a: FieldState, b: FieldState) -> FieldState:
        values, seen = merge.join(a, b)
        newest = {canonical_json(value): stamp for stamp, value in sorted(values.items(), key=lambda item: item[0])}
        return FieldState({stamp: values[stamp] for stamp in newest.values()}, seen)

    patch.setattr(merge_changes, "join", join)


def drop_kept_losers_from_a_change(patch: Patch) -> None:
    patch.setattr(cells, "to_delta", lambda cell, stamp: FieldState({stamp: cell.values[stamp]}, cell.seen))


def stamp_by_the_wall_clock_alone(patch: Patch) -> None:
    def stamp(self: Transaction, floors: Any, *, tidying: bool = False) -> Stamp:
        self._last_time = tick(self.now // 1000, self._last_time)
        return Stamp(self._last_time, self.origin)

    patch.setattr(Transaction, "stamp", stamp)


def do_not_journal_what_changed_nothing(patch: Patch) -> None:
    join, enter = ChangeMerger._join_change, ChangeMerger._append_change

    def quiet(self: ChangeMerger, *given: Any) -> Any:
        entries: list[Any] = []
        patch.setattr(self, "_append_change", lambda *entry: entries.append(entry), raising=False)
        outcome = join(self, *given)
        for entry in entries if outcome != "noop" else ():
            enter(self, *entry)
        return outcome

    patch.setattr(ChangeMerger, "_join_change", quiet)


def cut_transactions(patch: Patch) -> None:
    tell = LocalEndpoint.read_changes

    def cut(self: LocalEndpoint, after: int, known: Any, limit: int) -> Any:
        page = tell(self, after, known, 1000)
        fewer = page.changes[:limit]
        if len(fewer) == len(page.changes):
            return page
        with self.ctx.reading() as session:
            last = {"origin": fewer[-1].origin, "n": fewer[-1].n}
            ((upto,),) = session.query_sql("select seq from journal where origin = :origin and n = :n", last)
        return page._replace(changes=fewer, upto=upto, more=True)

    patch.setattr(LocalEndpoint, "read_changes", cut)


def leave_titles_unsettled(patch: Patch) -> None:
    settle = titles.regroup
    patch.setattr(titles, "regroup", lambda write, ids, left=(): settle(write, ids))


def show_the_greatest_id(patch: Patch) -> None:
    share = titles.show_as_one
    patch.setattr(
        titles,
        "load_members",
        lambda write, ids: list(reversed(titles.read_members(write.session, ids, write.written_memories))),
    )
    patch.setattr(titles, "show_as_one", share)


def do_not_sweep_after_a_purge(patch: Patch) -> None:
    patch.setattr(cells, "drop_purged", lambda shape, held: dict(held))


def let_an_edit_revive_nothing(patch: Patch) -> None:
    shape = MEMORY_MERGE_SCHEMA._replace(reviving_fields=())
    changed = cells.diff_fields
    patch.setattr(
        cells, "diff_fields", lambda _, before, after: changed(shape if _ is MEMORY_MERGE_SCHEMA else _, before, after)
    )


def note_no_conflicts(patch: Patch) -> None:
    patch.setattr(conflicts, "_put_conflicts", lambda *given: None)


def let_an_edit_replace_what_it_did_not_see(patch: Patch) -> None:
    write = merge.write_value
    patch.setattr(cells, "write_value", lambda cell, stamp, new, replaces: write(cell, stamp, new, None))


def let_a_removal_beat_an_addition(patch: Patch) -> None:
    patch.setattr(cells, "is_present", lambda many: all(v is True for cell in many for v in cell.values.values()))


def never_try_again(patch: Patch) -> None:
    patch.setattr(QuarantineRetry, "retry", lambda *given: None)


def move_the_cursor_too_far(patch: Patch) -> None:
    take = LocalEndpoint.apply_changes
    patch.setattr(
        LocalEndpoint, "apply_changes", lambda self, page, *more: take(self, page._replace(upto=page.upto + 1), *more)
    )


def forget_the_signature_of_what_is_relayed(patch: Patch) -> None:
    change_of = exchange._build_change
    patch.setattr(exchange, "_build_change", lambda row, own, key: change_of((*row[:12], "", *row[13:]), own, key))


FAULTS: dict[Callable[[Patch], None], tuple[str, ...]] = {
    drop_a_tombstone: ("delete",),
    skip_a_field: ("rate",),
    drop_unknown_fields: ("newer_release",),
    keep_one_context_for_a_whole_row: ("reword_and_rate", "pull_some"),
    let_vectors_pass_gaps: ("pull_some",),
    thin_equal_values_when_joining: ("reword",),
    drop_kept_losers_from_a_change: ("reword",),
    stamp_by_the_wall_clock_alone: ("reword",),
    do_not_journal_what_changed_nothing: ("rate",),
    cut_transactions: ("pull_one_page", "delete"),
    leave_titles_unsettled: ("rename", "move"),
    show_the_greatest_id: ("store",),
    do_not_sweep_after_a_purge: ("purge", "archive", "tag"),
    let_an_edit_revive_nothing: ("reword",),
    note_no_conflicts: ("reword",),
    let_an_edit_replace_what_it_did_not_see: ("reword",),
    let_a_removal_beat_an_addition: ("tag", "untag"),
    never_try_again: ("pull_some", "reword"),
    move_the_cursor_too_far: ("store",),
    forget_the_signature_of_what_is_relayed: ("store",),
}
"""Each fault and the operations to favour so that it shows soon."""


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_driver_detects_every_seeded_fault(
    files: StorePool, fault: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert found_in(files, FAULTS[fault])


@pytest.mark.full
def test_the_driver_finds_no_fault_in_a_correct_store(files: StorePool) -> None:
    for number, favoured in enumerate(FAULTS.values()):
        drive(files, number, STEPS, favoured)


def found_in(stable: StorePool, favoured: tuple[str, ...]) -> Exception | None:
    """Return the first finding. Any other exception fails the test: the fault itself is broken."""
    for seed in range(RUNS):
        try:
            drive(stable, seed, STEPS, favoured)
        except (AssertionError, HoldfastError) as error:
            return error
    return None

"""Splitting a memory into atoms: one transaction, deterministic, complete."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import AlreadyAtomised, Forbidden, NotFound, SourceTooSmall
from holdfast.kernel.text.token_count import count_tokens

SENTENCES = [f"Part {number} of the report tells how the gate {number} was built and by whom." for number in range(24)]
TEXT = " ".join(SENTENCES)


@pytest.fixture
def report(hold: holdfast.Holdfast) -> str:
    return str(
        hold.store(
            title="Report",
            content=TEXT,
            namespace="team",
            tier="long",
            tags=["gates"],
            priority=8,
            confidence=0.7,
            scope="team",
            citations=[{"uri": "doc:gates", "accessed_at": "2026-01-31"}],
        ).id
    )


def test_atoms_are_verbatim_pieces_with_the_properties_of_the_source(hold: holdfast.Holdfast, report: str) -> None:
    done = hold.atomise(report, max_atom_tokens=100)
    atoms = [hold.get(id) for id in done.atom_ids]
    assert (done.source_id, done.method, done.atom_count) == (report, "heuristic", len(atoms))
    assert " ".join(atom.content for atom in atoms) == TEXT
    assert all(count_tokens(atom.content) <= 100 for atom in atoms)
    for atom in atoms:
        assert TEXT.encode()[atom.source_span["start"] : atom.source_span["end"]].decode() == atom.content
        assert (atom.source_uri, atom.metadata) == (f"doc:{report}", {"atom_of": report, "method": "heuristic"})
        assert (atom.namespace, atom.tier, atom.tags, atom.priority, atom.confidence, atom.scope) == (
            "team",
            "long",
            ("gates",),
            8,
            0.7,
            "team",
        )
        assert [link.relation for link in atom.links] == ["derives_from"]
        assert len(atom.citations) == 1
    assert [memory.id for memory in hold.archive_list().archived] == [report]
    assert hold.archive_list().archived[0].archive_reason == "atomised"
    assert hold.verify().intact


def test_splitting_is_one_transaction_and_leaves_nothing_stale(hold: holdfast.Holdfast, report: str) -> None:
    before = hold.verify().entries
    done = hold.atomise(report, max_atom_tokens=100)
    with hold.ctx.reading() as session:
        entries = session.rows("journal_page", after=before, limit=1000)
    assert {entry[3] for entry in entries} == {before + 1}
    assert [hold.get(id).stale for id in done.atom_ids] == [hold.get(done.atom_ids[0]).stale] * done.atom_count
    assert hold.invalidations().count == 0


def test_dependents_of_the_source_are_flagged(hold: holdfast.Holdfast, report: str) -> None:
    thought = hold.reflect(source_ids=[report], title="So", content="Gates are built.").id
    done = hold.atomise(report, max_atom_tokens=100)
    (told,) = hold.invalidations().invalidations
    assert (told.dependent_id, told.invalidated_id) == (thought, report)
    assert told.invalidating_id in done.atom_ids


def test_splitting_again_is_refused_and_with_force_changes_nothing(hold: holdfast.Holdfast, report: str) -> None:
    done = hold.atomise(report, max_atom_tokens=100)
    with pytest.raises(AlreadyAtomised) as refused:
        hold.atomise(report)
    assert refused.value.details["atom_ids"] == done.atom_ids
    entries = hold.verify().entries
    again = hold.atomise(report, max_atom_tokens=100, force=True)
    assert (again.atom_ids, again.superseded_ids, hold.verify().entries) == (done.atom_ids, [], entries)
    assert hold.invalidations().count == 0


def test_splitting_again_supersedes_older_atoms_by_overlapping_ones(hold: holdfast.Holdfast, report: str) -> None:
    old = hold.atomise(report, max_atom_tokens=200)
    new = hold.atomise(report, max_atom_tokens=60, force=True)
    assert (set(new.superseded_ids), new.kept_ids) == (set(old.atom_ids) - set(new.atom_ids), [])
    live = [memory for memory in hold.list(namespace="team").memories if memory.metadata.get("atom_of") == report]
    assert {memory.id for memory in live} == set(new.atom_ids)
    first = hold.get(new.atom_ids[0])
    assert {(link.relation, link.target_id) for link in first.links} == {
        ("derives_from", report),
        ("supersedes", old.atom_ids[0]),
    }
    assert hold.invalidations().count == 0


def test_an_edited_atom_is_kept_by_a_new_split(hold: holdfast.Holdfast, report: str) -> None:
    old = hold.atomise(report, max_atom_tokens=200)
    hold.update(old.atom_ids[1], content="Gate 9 was built by Ada.")
    new = hold.atomise(report, max_atom_tokens=60, force=True)
    assert new.kept_ids == [old.atom_ids[1]]
    assert hold.get(old.atom_ids[1]).content == "Gate 9 was built by Ada."


def test_a_memory_too_short_for_two_atoms_is_refused(hold: holdfast.Holdfast) -> None:
    id = hold.store(title="Short", content="One sentence.").id
    with pytest.raises(SourceTooSmall):
        hold.atomise(id)
    assert hold.get(id).state == "live"


def test_an_undone_split_can_be_repeated(hold: holdfast.Holdfast, report: str) -> None:
    before = hold.get(report)
    done = hold.atomise(report, max_atom_tokens=100)
    taken = hold.undo(hold.history(report).changes[-1].seq, together=True)
    assert taken.count == 2 * done.atom_count + 1
    assert hold.get(report).content == before.content
    assert [memory.id for memory in hold.list().memories] == [report]
    again = hold.atomise(report, max_atom_tokens=100)
    assert again.atom_ids == done.atom_ids
    assert [hold.get(id).content for id in again.atom_ids] == [
        TEXT.encode()[atom.source_span["start"] : atom.source_span["end"]].decode()
        for atom in map(hold.get, done.atom_ids)
    ]
    assert hold.verify().intact


def test_atoms_of_a_document_have_their_span_in_the_document(hold: holdfast.Holdfast) -> None:
    size = len(TEXT.encode())
    id = hold.store(
        title="Chapter", content=TEXT, source_uri="file:book.txt", source_span={"start": 1000, "end": 1000 + size}
    ).id
    atoms = [hold.get(one) for one in hold.atomise(id, max_atom_tokens=100).atom_ids]
    assert {atom.source_uri for atom in atoms} == {"file:book.txt"}
    assert (atoms[0].source_span["start"], atoms[-1].source_span["end"]) == (1000, 1000 + size)


def test_atoms_expire_with_their_source(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    end = clock.after(days=3)
    id = clocked_store.store(title="Report", content=TEXT, tier="mid", expires_at=end).id
    clock.move(days=1)
    done = clocked_store.atomise(id, max_atom_tokens=100)
    assert {clocked_store.get(one).expires_at for one in done.atom_ids} == {end}
    assert done.archived_at == clock.after()


def test_a_taken_title_is_numbered(hold: holdfast.Holdfast, report: str) -> None:
    first = hold.get(hold.atomise(report, max_atom_tokens=100).atom_ids[0])
    other = hold.store(title="Report", content=TEXT, namespace="team").id
    again = hold.get(hold.atomise(other, max_atom_tokens=100).atom_ids[0])
    assert again.title == f"{first.title} (2)"


def test_only_the_owner_splits_a_private_memory(clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    ada, bob = seen_by("ai:ada@here"), seen_by("ai:bob@here")
    id = ada.store(title="Diary", content=TEXT, scope="private").id
    with pytest.raises(NotFound):
        bob.atomise(id)
    ada.grant(id=id, agent_id="ai:bob@here", permission="write")
    with pytest.raises(Forbidden):
        bob.atomise(id)
    done = ada.atomise(id, max_atom_tokens=100)
    assert {ada.get(one).agent_id for one in done.atom_ids} == {"ai:ada@here"}
    assert {ada.get(one).scope for one in done.atom_ids} == {"private"}


def test_atoms_of_a_shared_memory_keep_its_owner(clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    id = seen_by("ai:ada@here").store(title="Notes", content=TEXT).id
    done = seen_by("ai:bob@here").atomise(id, max_atom_tokens=100)
    assert {clocked_store.get(one).agent_id for one in done.atom_ids} == {"ai:ada@here"}

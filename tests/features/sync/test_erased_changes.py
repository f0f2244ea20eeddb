"""An erased change is validated like any other, and an erasure reaches every store."""

from collections.abc import Callable
from typing import Any

import forged_changes
import msgspec
import pytest
from forged_changes import Json

import holdfast
from holdfast.features.sync import record_snapshots as states
from holdfast.features.sync.apply_changes import SyncResult
from holdfast.features.sync.exchange import LocalEndpoint, apply_pages, read_missing_pages
from holdfast.kernel.journal import journal
from holdfast.kernel.records.change import digest, node_of

DAY = 86_400 * 10**6
Make = Callable[..., holdfast.Holdfast]


@pytest.fixture
def clock() -> list[int]:
    return [1_790_000_000_000_000]


@pytest.fixture
def here(make: Make, clock: list[int]) -> holdfast.Holdfast:
    return make(now=lambda: clock[0])


@pytest.fixture
def there(make: Make, here: holdfast.Holdfast, clock: list[int]) -> holdfast.Holdfast:
    return make(now=lambda: clock[0])


def ahead(clock: list[int], days: int) -> int:
    return (clock[0] + days * DAY) // 1000 << 16


def erase_last_change(store: holdfast.Holdfast, **altered: Any) -> Json:
    """Return the last change of a store without its text, with altered fields."""
    said = forged_changes.wire(forged_changes.page_of(store)[1].changes[-1])
    bare = {name: value for name, value in said.items() if name not in ("body", "delta")}
    return forged_changes.sign_change(store, {**bare, "erased": digest(said.get("body"), said.get("delta")), **altered})


def reasons(answer: Any) -> list[str]:
    return [one.reason for one in answer.others if one.outcome == "rejected"]


def purge(store: holdfast.Holdfast, id: str) -> None:
    store.archive(ids=[id])
    store.archive_purge(ids=[id])


@pytest.mark.parametrize(
    ("altered", "reason"),
    [
        ({}, "waits"),
        ({"record": "nothing-here"}, "waits"),
        ({"kind": "hologram"}, "unknown_kind"),
        ({"at": (1_790_000_000_000_000 + 900 * DAY) // 1000 << 16}, "future"),
        ({"erased": "x"}, "invalid"),
        ({"actor": ""}, "invalid"),
        ({"actor": "x" * 513}, "invalid"),
        ({"op": "state"}, "invalid"),
        ({"at": -1}, "invalid"),
    ],
)
def test_an_erased_change_without_a_matching_purge_is_refused(
    here: holdfast.Holdfast, there: holdfast.Holdfast, altered: Json, reason: str
) -> None:
    there.store(title="Plan", content="It is secret.")
    assert reasons(forged_changes.send(here, there, [erase_last_change(there, **altered)])) == [reason]
    assert (here.verify().findings, here.verify().entries) == ([], 0)
    assert forged_changes.send_all(here, there).outcomes == ["new"]


def test_an_erased_change_of_a_live_record_waits(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    kept = there.store(title="Plan", content="It is secret.")
    forged_changes.send_all(here, there)
    there.update(id=kept.id, content="It is known.")
    assert reasons(forged_changes.send(here, there, [erase_last_change(there)])) == ["waits"]
    assert here.verify().intact
    assert forged_changes.send_all(here, there).outcomes == ["known", "updated"]
    assert here.get(id=kept.id).content == "It is known."


@pytest.mark.parametrize("taken", [["team/**"], ["other"]])
def test_a_peer_erases_nothing_outside_its_namespaces(
    here: holdfast.Holdfast, there: holdfast.Holdfast, taken: list[str]
) -> None:
    here.peer_add(name="there", token=there.peer_token().token, take=taken)
    kept = there.store(title="Plan", content="It is secret.", namespace="team/a")
    purge(there, kept.id)
    answer = forged_changes.send_all(here, there)
    assert reasons(answer) == ([] if taken == ["team/**"] else ["scope", "waits", "waits"])
    assert here.verify().intact


@pytest.mark.parametrize("page", [1, 500])
def test_purged_changes_arrive_in_any_page_size_and_leave_no_gap(
    here: holdfast.Holdfast, there: holdfast.Holdfast, make: Make, clock: list[int], page: int
) -> None:
    kept = there.store(title="Plan", content="It is secret.")
    there.update(id=kept.id, content="It is more secret.")
    purge(there, kept.id)
    taken = SyncResult()
    source, target = LocalEndpoint(there.ctx), LocalEndpoint(here.ctx)
    apply_pages(target, read_missing_pages(source, target, page), taken)
    third = make(now=lambda: clock[0])
    third.sync(remote=here.settings.db, direction="pull", trust_source=True)
    assert taken.list_rejected == []
    for store in (here, third):
        assert store.verify().findings == []
        assert store.quarantine().total == 0
        assert store.sync_digest().vector == there.sync_digest().vector
        assert store.sync_digest().digest == there.sync_digest().digest
    if page > 1:
        with third.ctx.reading() as session:
            assert [row[2] for row in session.rows("journal_of", record=kept.id, kind="memory", after=0, limit=9)] == [
                *range(1, 5)
            ], "what was erased is not before what erased it, as it is at its author's"
    with third.ctx.store.transaction() as session:
        session.execute_sql("update memory set title = 'Forged' where id = :id", [{"id": kept.id}])
    assert not third.verify().intact, "an entry without words hides what follows from the one before"


def test_a_purge_erases_quarantined_text_and_takes_its_sequence_number(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    kept = there.store(title="Plan", content="It is plain.")
    there.update(id=kept.id, content="It is abracadabra.")
    edit = forged_changes.wire(forged_changes.page_of(there)[1].changes[-1])
    assert reasons(forged_changes.send(here, there, [edit])) == ["waits"]
    purge(there, kept.id)
    assert [one for one in reasons(forged_changes.send_all(here, there)) if one != "waits"] == []
    with here.ctx.reading() as session:
        held = str(session.rows("quarantine_list")) + str(session.rows("change_feed", after=0, limit=100))
    assert "abracadabra" not in held
    assert here.quarantine().total == 0
    assert here.sync_digest().vector == there.sync_digest().vector
    assert here.verify().intact


@pytest.mark.parametrize("words", [True, False], ids=["with its words", "without them"])
def test_a_purge_replicates_despite_a_far_future_timestamp_of_a_peer(
    here: holdfast.Holdfast, there: holdfast.Holdfast, make: Make, clock: list[int], words: bool
) -> None:
    kept = here.store(title="Plan", content="It is secret.")
    for store in (there, third := make(now=lambda: clock[0])):
        store.sync(remote=here.settings.db, direction="pull", trust_source=True)
    there.update(id=kept.id, content="It is known.")
    if words:
        said = forged_changes.wire(forged_changes.page_of(there)[1].changes[-1])
        at = ahead(clock, 900)
        delta = {"content": [[[at, said["origin"], "For ever."]], {said["origin"]: at}]}
        said = forged_changes.sign_change(there, {**said, "at": at, "delta": msgspec.json.encode(delta).decode()})
    else:
        said = erase_last_change(there, at=ahead(clock, 900))
    assert reasons(forged_changes.send(here, there, [said])) == ["future"]
    purge(here, kept.id)
    assert third.sync(remote=here.settings.db, direction="pull", trust_source=True).rejected == 0
    with third.ctx.reading() as session:
        assert "secret" not in str(session.rows("change_feed", after=0, limit=100))
    assert [store.verify().findings for store in (here, third)] == [[], []]


def test_a_purge_never_uses_a_timestamp_that_peers_would_refuse(
    here: holdfast.Holdfast, make: Make, clock: list[int]
) -> None:
    """The journal already contains such a timestamp, from before clocks were checked."""
    kept = here.store(title="Plan", content="It is secret.")
    third = make(now=lambda: clock[0])
    third.sync(remote=here.settings.db, direction="pull", trust_source=True)
    author = journal.Author("0123456789ab.1-01234567", 1, "ai:bob@away", 1)
    with here.ctx.transaction() as write:
        write.add_entry(
            journal.PendingEntry(ahead(clock, 900), "update", "memory", kept.id, kept.id, None, None, author)
        )
        told = {"origin": author.origin, "n": 1, "signature": "00" * 64, "digest": "0" * 64, "exact_body": None}
        write.session.do("remote_change_add", **told)
        key = {"public_key": b"0" * 32, "node": node_of(author.origin), "now": clock[0]}
        write.session.do("replica_add", origin=author.origin, **key)
    purge(here, kept.id)
    third.sync(remote=here.settings.db, direction="pull", trust_source=True)
    with third.ctx.reading() as session:
        assert "secret" not in str(session.rows("change_feed", after=0, limit=100))
    assert third.verify().intact


def test_a_purge_of_another_record_than_stated_is_invalid(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    mine = here.store(title="Mine", content="It is mine.")
    kept = there.store(title="Plan", content="It is secret.")
    there.link(source_id=kept.id, target_id=there.store(title="Other", content="Other.").id, relation="related_to")
    link = forged_changes.wire(forged_changes.page_of(there)[1].changes[-1])
    purge(there, kept.id)
    said = forged_changes.wire(forged_changes.page_of(there)[1].changes[-1])
    delta = msgspec.json.decode(said["delta"])
    (value,), seen = delta["purged"]
    no_purge = {name: cell for name, cell in delta.items() if name != "purged"}

    def encode_purge(record: Json) -> str:
        return msgspec.json.encode({**delta, "purged": [[[*value[:2], record]], seen]}).decode()

    for altered in (
        {"delta": encode_purge({**value[2], "id": mine.id})},
        {"delta": msgspec.json.encode(no_purge).decode()},
        {"op": "update"},
        {"kind": "link", "record": link["record"], "delta": encode_purge(msgspec.json.decode(link["body"]))},
    ):
        assert reasons(forged_changes.send(here, there, [forged_changes.sign_change(there, {**said, **altered})])) == [
            "invalid"
        ], altered
    assert (here.get(id=mine.id).content, here.verify().findings) == ("It is mine.", [])


def test_a_purged_record_received_whole_covers_its_erased_changes(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    kept = there.store(title="Plan", content="It is secret.")
    purge(there, kept.id)
    with there.ctx.reading() as session:
        whole = msgspec.to_builtins(states.read_snapshot(session, "memory", kept.id))
    assert forged_changes.send(here, there, [], [whole]).outcomes == ["new"]
    assert set(forged_changes.send_all(here, there).outcomes) == {"noop"}
    assert here.verify().findings == []
    assert here.sync_digest().digest == there.sync_digest().digest

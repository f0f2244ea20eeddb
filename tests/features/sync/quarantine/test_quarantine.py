"""Quarantined changes can be listed, retried and dropped; dropped ones do not come back."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.features.sync import apply_changes, read_changes
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, NotFound

DAY = 86_400 * 10**6


@pytest.fixture
def clock() -> list[int]:
    return [1_790_000_000_000_000]


@pytest.fixture
def here(make: Callable[..., holdfast.Holdfast], clock: list[int]) -> holdfast.Holdfast:
    return make(now=lambda: clock[0])


@pytest.fixture
def there(make: Callable[..., holdfast.Holdfast], here: holdfast.Holdfast, clock: list[int]) -> holdfast.Holdfast:
    """A store with a clock a month ahead."""
    return make(agent_id="ai:bob@away", now=lambda: clock[0] + 30 * DAY)


def send(there: holdfast.Holdfast, here: holdfast.Holdfast, after: int = 0, **altered: Any) -> apply_changes.SyncResult:
    """Send all changes of a store after a position, the first one altered."""
    with there.ctx.reading() as session:
        key = there.ctx.store.signing_key(session)
        assert key is not None
        greeting, page = (
            read_changes.build_handshake(session, there.ctx.now()),
            read_changes.read_page(session, key, after, {}, 100),
        )
    changes = [msgspec.structs.replace(change, **altered if change.n == after + 1 else {}) for change in page.changes]
    taken = apply_changes.SyncResult()
    with here.ctx.transaction() as write:
        applier = apply_changes.ChangeApplier(write, greeting, taken)
        applier.merge(applier.verify(page._replace(changes=changes)))
        applier.finish()
    return taken


def test_a_quarantined_change_is_listed_with_its_reason_sender_and_attempts(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    kept = there.store(title="Later", content="It will be.")
    for _ in range(2):
        send(there, here)
    (one,) = here.quarantine().quarantined
    assert (one.reason, one.kind, one.record, one.action, one.tries) == ("future", "memory", kept.id, "store", 2)
    assert (one.peer, one.number, one.actor) == (one.origin.partition(".")[0], 1, "ai:bob@away")
    assert "It will be." in here.quarantine_show(id=one.id).says


def test_a_change_retried_when_due_is_applied_like_a_new_one(
    here: holdfast.Holdfast, there: holdfast.Holdfast, clock: list[int]
) -> None:
    kept = there.store(title="Later", content="It will be.")
    send(there, here)
    clock[0] += 25 * DAY
    (id,) = [one.id for one in here.quarantine().quarantined]
    done = here.quarantine_retry(ids=[id])
    assert (done.applied, done.rejected, here.quarantine().total) == (1, 0, 0)
    mine = here.get(id=kept.id)
    assert (mine.content, mine.agent_id, mine.metadata["imported_from_agent_id"]) == (
        "It will be.",
        "human:ann@home",
        "ai:bob@away",
    )
    assert here.verify().intact


def test_a_change_that_still_fails_stays_quarantined_and_is_counted(
    here: holdfast.Holdfast, there: holdfast.Holdfast, clock: list[int]
) -> None:
    there.store(title="Forged", content="They said that.")
    there.store(title="Later", content="It will be.")
    send(there, here, actor="ai:eve@away")
    clock[0] += 25 * DAY
    done = here.quarantine_retry()
    assert sorted((one.outcome, one.reason) for one in done.outcomes if one.outcome == "rejected") == [
        ("rejected", "forged")
    ]
    assert (done.applied, done.rejected) == (1, 1)
    assert [(one.reason, one.tries) for one in here.quarantine().quarantined] == [("forged", 2)]


def test_a_dropped_change_is_named_and_not_quarantined_again(
    here: holdfast.Holdfast, there: holdfast.Holdfast, clock: list[int]
) -> None:
    kept = there.store(title="Later", content="It will be.")
    send(there, here)
    before = here.verify().head
    (one,) = here.quarantine_drop(ids=[here.quarantine().quarantined[0].id]).dropped
    assert (one.record, one.reason, here.verify().head) == (kept.id, "future", before)
    clock[0] += 25 * DAY
    assert [again.reason for again in send(there, here).list_rejected] == ["dropped"]
    assert (here.quarantine().total, here.stats().total) == (0, 0)


def test_the_true_change_is_accepted_after_a_forged_one_was_dropped(
    here: holdfast.Holdfast, there: holdfast.Holdfast, clock: list[int]
) -> None:
    kept = there.store(title="Later", content="It will be.")
    send(there, here, actor="ai:eve@away")
    here.quarantine_drop(ids=[here.quarantine().quarantined[0].id])
    clock[0] += 25 * DAY
    assert send(there, here).list_rejected == []
    assert here.get(id=kept.id).content == "It will be."


def test_a_key_limited_to_namespaces_neither_sees_nor_settles_the_quarantine(here: holdfast.Holdfast) -> None:
    narrow = Caller("ai:narrow@here", namespaces=("open",))
    for name, arguments in (
        ("quarantine", {}),
        ("quarantine_show", {"id": "x"}),
        ("quarantine_retry", {}),
        ("quarantine_drop", {"ids": ["x"]}),
    ):
        with pytest.raises(Forbidden):
            here.call(name, arguments, caller=narrow)


def test_nothing_is_dropped_if_one_id_is_unknown(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    there.store(title="Later", content="It will be.")
    send(there, here)
    with pytest.raises(NotFound):
        here.quarantine_drop(ids=[here.quarantine().quarantined[0].id, "no-such-change"])
    assert here.quarantine().total == 1


def test_a_purge_by_a_store_that_had_the_change_removes_it_from_quarantine(
    here: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast], clock: list[int]
) -> None:
    other = make(now=lambda: clock[0])
    kept = other.store(title="Word", content="It is plain.")
    send(other, here)
    other.update(id=kept.id, content="It is abracadabra.")
    send(other, here, after=1, actor="ai:eve@away")
    assert "abracadabra" in here.quarantine_show(id=here.quarantine().quarantined[0].id).says
    other.archive(ids=[kept.id])
    other.archive_purge(ids=[kept.id])
    send(other, here, after=2)
    assert here.quarantine().total == 0

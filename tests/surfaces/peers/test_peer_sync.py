"""Two stores that sync over HTTP, exactly as two files do, on either engine."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from serving import serve_app

import deletion_scenario
import holdfast
from engines import ENGINES_BY_RING
from holdfast.features.sync import exchange as sync
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.render import render_sync_status
from holdfast.kernel.errors import Conflict, Invalid, PeerFailed
from holdfast.settings import Settings
from holdfast.surfaces.http.app import build_app

OWNER = "human:ann@home"


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def serve_store(hold: holdfast.Holdfast) -> Iterator[str]:
    with serve_app(build_app(hold)) as url:
        yield url


@pytest.fixture
def here(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(tmp_path / "here.db"), agent_id=OWNER) as opened:
        yield opened


@pytest.fixture
def there(db: str) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id=OWNER) as opened:
        yield opened


@pytest.fixture
def url(there: holdfast.Holdfast) -> Iterator[str]:
    with serve_store(there) as found:
        yield found


def digests(*stores: holdfast.Holdfast) -> set[str]:
    return {store.sync_digest().digest for store in stores}


def test_a_first_sync_transfers_everything_and_a_second_nothing(
    here: holdfast.Holdfast, there: holdfast.Holdfast, url: str
) -> None:
    source = here.store(title="Mine", content="I said this.")
    here.reflect(source_ids=[source.id], title="Drawn", content="So it is.")
    theirs = there.store(title="Theirs", content="They said that.")
    there.delete(id=there.store(title="Gone", content="Not any more.").id)
    first, second = (here.sync(remote=url) for _ in range(2))
    assert (first.pulled, first.pushed, first.deletes, first.rejected) == (1, 2, 1, 0)
    assert (second.pulled, second.pushed) == (0, 0)
    assert len(digests(here, there)) == 1
    here.update(id=theirs.id, content="They said that, and more.")
    assert here.sync(remote=url).pushed == 1
    assert there.get(id=theirs.id).content == "They said that, and more."


def test_a_dry_run_over_the_network_reports_what_the_run_does_and_changes_nothing(
    here: holdfast.Holdfast, there: holdfast.Holdfast, url: str
) -> None:
    for number in range(3):
        memory = here.store(title=f"Number {number}", content=f"It is {number}.")
        here.update(id=memory.id, priority=9)
    there.store(title="Theirs", content="They said that.")
    heads = [store.verify().head for store in (here, there)]
    planned = here.sync(remote=url, dry_run=True)
    assert (planned.push.new, planned.push.update, planned.pull.new) == (3, 0, 1)
    assert [store.verify().head for store in (here, there)] == heads
    done = here.sync(remote=url)
    assert (done.pushed, done.pulled) == (3, 1)


@pytest.mark.parametrize("direction", ["push", "merge"])
def test_remaining_conflicts_are_counted_over_the_network(
    here: holdfast.Holdfast, there: holdfast.Holdfast, url: str, direction: str
) -> None:
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    assert here.sync(remote=url, direction=direction).conflicts == there.conflicts().total == 1


@pytest.mark.parametrize("page", [1, 500])
@pytest.mark.parametrize("direction", ["pull", "push", "merge"])
def test_deletions_are_counted_by_the_final_state_over_the_network(
    here: holdfast.Holdfast,
    there: holdfast.Holdfast,
    url: str,
    direction: str,
    page: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sync, "PAGE", page)
    source, target = (there, here) if direction == "pull" else (here, there)
    deletion_scenario.delete_and_edit(source, target)
    planned, done = (here.sync(remote=url, direction=direction, dry_run=dry_run) for dry_run in (True, False))
    plan = planned.pull if direction == "pull" else planned.push
    assert (planned.deletes, msgspec.structs.asdict(plan)) == (deletion_scenario.DELETED, deletion_scenario.COUNTED)
    assert deletion_scenario.read_counts(done) == deletion_scenario.read_counts(planned)


def test_the_status_separates_encountered_conflicts_from_open_ones(
    here: holdfast.Holdfast, there: holdfast.Holdfast, url: str
) -> None:
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    here.sync(remote=url)
    before = here.sync_status()
    here.conflicts_resolve(id=here.conflicts().conflicts[0].id, keep="shown")
    here.sync(remote=url)
    after = here.call("sync_status", {})
    assert [(one.conflicts, one.peers[0].conflicts) for one in (before, after)] == [(1, 1), (0, 1)]
    heading, _, last = render_sync_status(after)
    assert "CONFLICTS MET" in heading
    assert last.startswith("0 open conflicts")


def test_a_conflict_resolved_during_a_sync_is_not_counted(
    here: holdfast.Holdfast, there: holdfast.Holdfast, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "PAGE", 1)
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    here.sync(remote=url, direction="pull", trust_source=True)
    (conflict,) = here.conflicts().conflicts
    here.conflicts_resolve(id=conflict.id, keep="shown")
    answers = [here.sync(remote=url, direction="push", dry_run=dry_run) for dry_run in (True, False)]
    assert [one.conflicts for one in answers] == [there.conflicts().total] * 2 == [0, 0]


def test_three_stores_sync_through_the_middle_one(
    here: holdfast.Holdfast, there: holdfast.Holdfast, url: str, tmp_path: Path
) -> None:
    with holdfast.open(str(tmp_path / "third.db"), agent_id=OWNER) as third:
        here.store(title="Mine", content="I said this.")
        third.store(title="Third", content="I said it third.")
        here.sync(remote=url, trust_source=True)
        done = third.sync(remote=url, trust_source=True)
        here.sync(remote=url, trust_source=True)
        assert (done.pulled, done.pushed) == (1, 1)
        assert len(digests(here, there, third)) == 1
        assert all(store.verify().intact for store in (here, there, third))


def test_a_skill_is_synced_with_its_files(here: holdfast.Holdfast, there: holdfast.Holdfast, url: str) -> None:
    skill = here.skill_register(inline_skill="---\nname: tidy\ndescription: Tidies up.\n---\nSweep first.\n")
    here.sync(remote=url)
    assert there.skill_get(skill_id=skill.id).body == here.skill_get(skill_id=skill.id).body


def test_a_sync_with_itself_or_an_invalid_address_is_refused(here: holdfast.Holdfast) -> None:
    with serve_store(here) as own, pytest.raises(Conflict, match="same store"):
        here.sync(remote=own)
    for wrong in ("http://", "https://u:secret@host/", "http://host/?key=secret", "http://host:port/"):
        with pytest.raises(Invalid) as refused:
            here.sync(remote=wrong)
        assert "secret" not in refused.value.message


def test_a_server_requiring_a_key_reports_it_and_accepts_the_one_in_the_settings(
    here: holdfast.Holdfast, there: holdfast.Holdfast, tmp_path: Path
) -> None:
    secret = there.key_create(name="peer", scope="admin").key
    confined = there.key_create(name="confined", scope="write").key
    here.store(title="Mine", content="I said this.")
    with serve_store(there) as url, ExitStack() as stack:
        with pytest.raises(PeerFailed, match="UNAUTHENTICATED"):
            here.sync(remote=url)

        def asking(key: str) -> holdfast.Holdfast:
            chosen = Settings(db=here.settings.db, agent_id=OWNER, sync_api_key=key, embedder="none")
            return stack.enter_context(holdfast.open(settings=chosen))

        with pytest.raises(PeerFailed, match="FORBIDDEN"):
            asking(confined).sync(remote=url)
        assert asking(secret).sync(remote=url).pushed == 1


def test_a_transaction_larger_than_a_message_is_synced_in_several(
    here: holdfast.Holdfast, there: holdfast.Holdfast, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MAX_PAGE_BYTES", 5000)
    here.bulk_store(memories=[{"title": f"Number {number}", "content": "so " * 500} for number in range(9)])
    assert here.sync(remote=url, direction="push").exported == 9
    assert len(digests(here, there)) == 1
    with there.ctx.reading() as session:
        times = {row[0] for row in session.query_sql("select recorded_at from journal", {})}
    assert len(times) > 1

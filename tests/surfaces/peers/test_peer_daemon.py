"""The sync daemon: it pushes changes at once and retries unreachable peers patiently."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import pytest
from serving import open_http_client, serve_app, with_settings

import holdfast
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.daemon import MAX_PAUSE, SyncDaemon, compute_pause, validate_settings
from holdfast.features.sync.exchange import sync_with
from holdfast.kernel.errors import Invalid, PeerFailed
from holdfast.kernel.net.outbound import PeerCredentials
from holdfast.surfaces.cli.app import run
from holdfast.surfaces.http.app import build_app
from timeouts import TIMEOUT, wait_until

HOLDFAST = (sys.executable, "-c", "from holdfast.__main__ import main; main()")
NEVER = 3600.0
OFTEN = 0.02


Make = Callable[[], holdfast.Holdfast]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:
        numbers = count()
        yield lambda: stack.enter_context(
            holdfast.open(str(tmp_path / f"{next(numbers)}.db"), agent_id="human:ann@home")
        )


@pytest.fixture
def here(make: Make) -> holdfast.Holdfast:
    return make()


@pytest.fixture
def there(make: Make) -> holdfast.Holdfast:
    return make()


@contextmanager
def serve_store(hold: holdfast.Holdfast) -> Iterator[str]:
    with serve_app(build_app(hold)) as url:
        yield url


@contextmanager
def running_daemon(hold: holdfast.Holdfast, *peers: str, interval: float = NEVER) -> Iterator[SyncDaemon]:
    daemon = SyncDaemon(hold.ctx, peers, interval=interval, batch=500)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


def titles(hold: holdfast.Holdfast) -> set[str]:
    return {memory.title for memory in hold.list().memories}


def test_a_local_change_is_pushed_at_once_whatever_the_interval(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    there.store(title="Old", content="It was there before.")
    with serve_store(there) as url, running_daemon(here, url):
        wait_until(lambda: "Old" in titles(here))
        for title in ("New", "Newer", "Newest"):
            here.store(title=title, content="It was stored just now.")
            wait_until(lambda: title in titles(there))  # noqa: B023 - called before the next one


def test_a_remote_change_is_pulled_at_the_interval(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    with serve_store(there) as url, running_daemon(here, url, interval=OFTEN):
        there.store(title="New", content="It was stored just now.")
        wait_until(lambda: "New" in titles(here))
        wait_until(lambda: bool(here.sync_status().peers))
    (status,) = here.sync_status().peers
    assert (status.state, status.peer, status.failures) == ("ok", url, 0)
    with open_http_client(here) as client:
        assert f'holdfast_peer_behind_here{{peer="{url}"}} 0' in client.get("/metrics").text.splitlines()


def test_two_daemons_watching_each_other_become_idle(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    with serve_store(there) as theirs, serve_store(here) as mine:
        with running_daemon(here, theirs, interval=OFTEN), running_daemon(there, mine, interval=OFTEN):
            for number in range(5):
                here.store(title=f"Mine {number}", content="I said this.")
                there.store(title=f"Theirs {number}", content="They said that.")
            wait_until(lambda: len(titles(here)) == len(titles(there)) == 10)
        here.sync(remote=theirs)
        there.sync(remote=mine)  # the pushing store learns only at the next handshake what the other has received
        for hold in (here, there):
            (status,) = hold.sync_status().peers
            assert (status.behind_here, status.behind_there, status.quarantined) == (0, 0, 0)
        assert here.sync_digest().seq == there.sync_digest().seq == 10


def test_an_unreachable_peer_blocks_nobody_and_is_found_again(make: Make) -> None:
    here, there, away = make(), make(), make()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    absent = f"http://127.0.0.1:{port}"
    with serve_store(there) as url, running_daemon(here, absent, url, interval=OFTEN):
        here.store(title="New", content="It was stored just now.")
        wait_until(lambda: "New" in titles(there))
        wait_until(lambda: any(one.state == "failing" for one in here.sync_status().peers))
        failing = next(one for one in here.sync_status().peers if one.peer == absent)
        assert "cannot be reached" in failing.last_error
        with serve_app(build_app(away), port=port):
            wait_until(lambda: "New" in titles(away))
            wait_until(lambda: all(one.state == "ok" for one in here.sync_status().peers))


def test_the_daemon_stops_despite_a_peer_that_never_answers(here: holdfast.Holdfast) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        daemon = SyncDaemon(here.ctx, [f"http://127.0.0.1:{silent.getsockname()[1]}"], interval=OFTEN, batch=500)
        daemon.start()
        silent.accept()
        daemon.stop()
        assert not any(thread.is_alive() for thread in daemon._threads)


def test_a_failing_peer_is_retried_with_growing_and_random_delays() -> None:
    longest = [compute_pause(failures, 2.0, 1.0) for failures in range(1, 7)]
    assert longest == [4.0, 8.0, 16.0, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]
    assert [compute_pause(failures, 2.0, 0.0) for failures in range(1, 7)] == [one / 2 for one in longest]
    assert compute_pause(9, 300.0, 1.0) == 300.0


@pytest.mark.parametrize(
    ("peers", "access", "said"),
    [
        ((), PeerCredentials(), "at least one address"),
        (("https://desk",), PeerCredentials(insecure=True), "needs --client-cert and --client-key"),
        (
            ("https://desk",),
            PeerCredentials(insecure=True, client_cert="a.pem"),
            "needs --client-cert and --client-key",
        ),
        (("https://desk",), PeerCredentials(client_key="a.key"), "--client-cert and --client-key together"),
    ],
)
def test_invalid_daemon_settings_are_refused(peers: tuple[str, ...], access: PeerCredentials, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        validate_settings(peers, access)


@pytest.mark.parametrize(
    ("option", "given"),
    [("fingerprint", "zz"), ("ca", "no.pem"), ("client_cert", "no.pem"), ("client_key", "no\0.key")],
)
def test_unusable_credentials_are_refused_before_anything_starts(
    here: holdfast.Holdfast, option: str, given: str
) -> None:
    """No request is sent: there is no such peer."""
    both = {"client_cert": __file__, "client_key": __file__} if option.startswith("client") else {}
    ctx = replace(here.ctx, peer_credentials=PeerCredentials(**{**both, option: given}))
    url = "https://127.0.0.1:9"
    for begin in (lambda: SyncDaemon(ctx, [url], interval=NEVER, batch=1), lambda: sync_with(ctx, url, "merge")):
        with pytest.raises(Invalid, match=f"^{option}: ") as refused:
            begin()
        assert refused.value.details["fields"] == [option]


def test_a_server_syncs_by_its_settings(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    with serve_store(there) as url, serve_store(with_settings(here, sync_peers=(url,), sync_interval_secs=OFTEN)):
        here.store(title="New", content="It was stored just now.")
        wait_until(lambda: "New" in titles(there))


def test_a_peer_of_a_release_without_a_record_kind_is_reported_and_still_receives_it(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    with serve_store(there) as url:
        here.sync(remote=url)
        here.policy_set(namespace="team", max_reflection_depth=2)
        with there.ctx.reading() as session:
            greeting = telling.build_handshake(session, there.ctx.now())
        older = {"protocol": 1, "greeting": msgspec.to_builtins(greeting), "kinds": ["memory", "link"]}
        here.call("peer_hello", {"message": older})
        (status,) = here.sync_status().peers
        assert "policy" in status.unknown_there
        here.sync(remote=url)
    assert there.policy_get(namespace="team").rules.max_reflection_depth == 2


def test_the_command_prints_its_peers_and_stops_on_a_signal(here: holdfast.Holdfast) -> None:
    command = [*HOLDFAST, "sync-daemon", "--db", here.settings.db, "--peers", "http://127.0.0.1:9,http://127.0.0.1:10"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "in step with http://127.0.0.1:9, http://127.0.0.1:10" in process.stderr.readline()
    process.terminate()
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "at least one address"),
        (("--peers", "https://desk", "--insecure-skip-server-verify"), "needs --client-cert"),
        (("--peers", "desk.example:9077"), "http:// or https://"),
        (("--peers", "https://desk", "--interval", "0"), "sync_interval_secs"),
        (("--peers", "https://desk", "--batch-size", "0"), "sync_batch_size"),
    ],
)
def test_the_command_refuses_invalid_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert run(["sync-daemon", "--db", str(tmp_path / "one.db"), *words]) != 0
    assert said in capsys.readouterr().err


def test_a_server_refuses_to_start_with_invalid_peer_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_SYNC_PEERS", "https://desk.example,desk.example:9077")
    assert run(["serve", "--db", str(tmp_path / "one.db"), "--port", "0"]) == 2
    assert "http:// or https://" in capsys.readouterr().err


def test_an_enrolled_peer_is_listed_once_and_not_after_its_removal(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    with serve_store(there) as url:
        here.peer_add(name="desk", token=there.peer_token().token, url=f"{url}/")
        assert [(one.peer, one.state) for one in here.sync_status().peers] == [("desk", "unheard")]
        here.sync(remote=url)
        assert [(one.peer, one.state, one.url) for one in here.sync_status().peers] == [("desk", "ok", url)]
    with running_daemon(here, url, interval=OFTEN):
        wait_until(lambda: here.sync_status().peers[0].state == "failing")
    assert len(here.sync_status().peers) == 1
    here.peer_remove(name="desk")
    assert here.sync_status().peers == []


def test_a_mistyped_address_is_not_stored(here: holdfast.Holdfast) -> None:
    with pytest.raises(PeerFailed):
        here.sync(remote="http://127.0.0.1:9")
    assert here.sync_status().peers == []

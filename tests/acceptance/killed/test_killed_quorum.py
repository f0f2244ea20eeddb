"""Quorum writes with killed processes: confirmed writes are durable, unconfirmed ones are marked as pending."""

import socket
import threading
from pathlib import Path

import httpx
import pytest
from serving_processes import ServerProcess, start_servers

import holdfast
from timeouts import TIMEOUT, wait_until

pytestmark = pytest.mark.full


def store(url: str, title: str) -> httpx.Response:
    return httpx.post(f"{url}/api/v1/memories", json={"title": title, "content": "It is 8080."}, timeout=TIMEOUT)


def store_unanswered(url: str, title: str) -> None:
    """Make a write whose response never arrives."""
    with pytest.raises(httpx.HTTPError):
        store(url, title)


def kill_server(server: ServerProcess) -> None:
    server.process.kill()
    server.process.wait()


def quorum(*peers: str, needed: int, timeout_ms: int = 20_000) -> dict[str, str]:
    counted = {"quorum_writes": str(needed), "quorum_peers": ",".join(peers)}
    return counted | {"quorum_timeout_ms": str(timeout_ms)}


def test_writes_acknowledged_by_two_peers_survive_killing_both(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{name}.db") for name in ("here", "one", "other")]
    with (
        start_servers(1, files[1]) as (one,),
        start_servers(1, files[2]) as (other,),
        start_servers(1, files[0], **quorum(one.url, other.url, needed=3)) as (here,),
    ):
        ids = [store(here.url, f"Number {n}").json()["id"] for n in range(5)]
        kill_server(one)
        kill_server(other)
        late = store(here.url, "Late").json()
        assert (late["code"], late["got"], late["needed"]) == ("QUORUM_NOT_MET", 1, 3)
    for file in files:
        with holdfast.open(file) as hold:
            assert [hold.get(id=id).title for id in ids] == [f"Number {n}" for n in range(5)]
            assert hold.verify().intact


def test_a_server_killed_while_waiting_leaves_a_pending_ack_and_the_next_one_delivers(tmp_path: Path) -> None:
    file = str(tmp_path / "here.db")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with start_servers(1, file, **quorum(url, needed=2)) as (here,):
            writer = threading.Thread(target=store_unanswered, args=(here.url, "Port"))
            writer.start()
            connection, _ = silent.accept()
            wait_until(lambda: httpx.get(f"{here.url}/api/v1/memories", timeout=TIMEOUT).json()["count"])
            kill_server(here)
            writer.join()
            connection.close()
    with holdfast.open(file) as hold:
        assert hold.sync_status().pending_replication == 1
    with (
        start_servers(1, str(tmp_path / "one.db")) as (one,),
        start_servers(1, file, **quorum(one.url, needed=2)) as (here,),
    ):
        status = f"{here.url}/api/v1/sync/status"
        wait_until(lambda: not httpx.get(status, timeout=TIMEOUT).json()["pending_replication"])
        assert httpx.get(f"{one.url}/api/v1/memories", timeout=TIMEOUT).json()["memories"][0]["title"] == "Port"

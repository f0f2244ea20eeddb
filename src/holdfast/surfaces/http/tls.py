"""TLS for the server, with an optional allowlist of client certificates."""

import os
import ssl
import sys
import threading

from holdfast.kernel.errors import Invalid, InvalidSetting
from holdfast.kernel.net import fingerprint
from holdfast.kernel.net.tls import server_context
from holdfast.settings import Settings


def make_tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Build the TLS context of the settings, or None without TLS."""
    cert, key, ca, listed = settings.tls_cert, settings.tls_key, settings.client_ca, settings.client_fingerprints
    if cert is None and key is None:
        if ca or listed:
            raise InvalidSetting("client_ca and client_fingerprints require TLS: set tls_cert and tls_key.")
        return None
    if not (cert and key):
        raise InvalidSetting("tls_cert and tls_key go together: set both.")
    if listed and not ca:
        raise InvalidSetting("client_fingerprints requires client_ca: set the CA that signs client certificates.")
    return server_context(cert, key, ca, Allowlist(listed).allows if listed else None)


class Allowlist:
    """Accepted fingerprints, reloaded when their file changes.

    If the file cannot be read or is empty, the last valid list stays in force.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._file_stamp()
        try:
            self._fingerprints = self._read()
        except (OSError, Invalid) as error:
            raise InvalidSetting(f"client_fingerprints: cannot use {path}: {_reason(error)}.") from None

    def allows(self, found: str) -> bool:
        if (mark := self._file_stamp()) != self._stamp:
            self._reload(mark)
        return found in self._fingerprints

    def _reload(self, mark: tuple[int, ...]) -> None:
        with self._lock:
            if mark == self._stamp:
                return
            self._stamp = mark
            try:
                self._fingerprints = self._read()
            except (OSError, Invalid) as error:
                print(
                    f"Cannot use {self._path}: {_reason(error)}; the previous list stays in force.",
                    file=sys.stderr,
                    flush=True,
                )

    def _read(self) -> frozenset[str]:
        with open(self._path, "rb") as file:
            return fingerprint.parse_fingerprint_list(file.read().decode("utf-8", "replace"))

    def _file_stamp(self) -> tuple[int, ...]:
        """Return a stamp that changes when the file is changed or replaced."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _reason(error: OSError | Invalid) -> str:
    return error.message if isinstance(error, Invalid) else str(error.strerror)

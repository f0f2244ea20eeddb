"""The two endpoints of an exchange: each identifies itself, reads changes for the other and applies the other's."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from holdfast.features.sync.apply_changes import SyncResult
from holdfast.features.sync.read_changes import Handshake, Page


class Endpoint(Protocol):
    """One side of an exchange: a local store or a server."""

    def read_handshake(self) -> Handshake:
        """Return its current identity and version vector."""

    def get_cursor(self, sender: Handshake) -> int:
        """Return its cursor in the journal of another store."""

    def read_changes(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Read a page of its journal after a sequence number, without known changes."""

    def apply_changes(self, page: Page, sender: Handshake, result: SyncResult) -> None:
        """Apply a page in one transaction, durable on return; record the outcome of each change."""

    def open_dry_run(self) -> AbstractContextManager["Endpoint"]:
        """Return the same endpoint for a dry run: everything applied is rolled back on exit."""

    def find_forked_origins(self, asker: Handshake) -> frozenset[str]:
        """Find the origins whose changes differ between it and another store."""

    def forget_handshake(self) -> None:
        """Forget the cached handshake: the other side changed its replica id."""

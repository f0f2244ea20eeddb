"""Sync with another store: a server over HTTP, or a store that this process can open."""

import re
from contextlib import closing
from dataclasses import replace

from holdfast.features.admin.backup import must_be_local, must_reach_all
from holdfast.features.sync.exchange import Direction, Synced, owner_of, sync
from holdfast.kernel.context import Hold
from holdfast.kernel.locals import Locals
from holdfast.kernel.storage.locate import open_existing

_URL = re.compile(r"https?://", re.IGNORECASE)


def sync_with(
    here: Hold, address: str, direction: Direction, *, dry_run: bool = False, trust_source: bool = False
) -> Synced:
    """Sync this store with a server or another store; never creates a store."""
    must_reach_all(here)
    must_be_local(here, "remote")
    if _URL.match(address):
        from holdfast.features.sync.peers.client import Link
        from holdfast.features.sync.remote_endpoint import access_to, exchange

        with closing(Link(address, access_to(here, address))) as link:
            return exchange(here, link, direction, dry_run=dry_run, owner=owner_of(here, trust_source))
    with closing(open_existing(address)) as store:
        there = replace(here, store=store, local=Locals(), notified=[])
        return sync(here, there, direction, dry_run=dry_run, trust_source=trust_source)

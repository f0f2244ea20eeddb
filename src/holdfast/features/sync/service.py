"""Sync with another store: a server over HTTP, or a store that this process can open."""

import re
from contextlib import closing
from dataclasses import replace

from holdfast.features.admin.backup import must_be_local, must_reach_all_namespaces
from holdfast.features.sync.exchange import Direction, ExchangeResult, get_owner, sync_stores
from holdfast.kernel.context import Context
from holdfast.kernel.storage.open_by_address import open_existing
from holdfast.kernel.storage.port import TypedLocals

_URL = re.compile(r"https?://", re.IGNORECASE)


def sync_with(
    here: Context, address: str, direction: Direction, *, dry_run: bool = False, trust_source: bool = False
) -> ExchangeResult:
    """Sync this store with a server or another store; never creates a store."""
    must_reach_all_namespaces(here)
    must_be_local(here, "remote")
    if _URL.match(address):
        from holdfast.features.sync.peers.client import PeerClient
        from holdfast.features.sync.remote_endpoint import get_access, sync_with_server

        with closing(PeerClient(address, get_access(here, address))) as link:
            return sync_with_server(here, link, direction, dry_run=dry_run, owner=get_owner(here, trust_source))
    with closing(open_existing(address)) as store:
        there = replace(here, store=store, local=TypedLocals(), notices=[])
        return sync_stores(here, there, direction, dry_run=dry_run, trust_source=trust_source)

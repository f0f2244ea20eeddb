"""Connect features to the kernel: record kinds, transaction listeners, redactions."""

from collections.abc import Mapping
from functools import cache

from holdfast.features.access import model as access_kinds
from holdfast.features.embeddings import passage_vectors as embeddings
from holdfast.features.graph import model as graph_kinds
from holdfast.features.graph.depth import check_depth
from holdfast.features.graph.entities import purge_aliases
from holdfast.features.ingest import store as ingest
from holdfast.features.llm import store as llm_store
from holdfast.features.memories import grant as grant_kind
from holdfast.features.memories.lifecycle import before_collecting, on_collect, on_purge
from holdfast.features.memories.store_memory import register_echo_finder, register_field_filter, register_place_check
from holdfast.features.memories.views import register_computed_namespace
from holdfast.features.namespaces import model as namespace_kinds
from holdfast.features.namespaces.secrets import apply_secret_policy
from holdfast.features.people import model as people_kinds
from holdfast.features.recall import recall_log
from holdfast.features.recall.echoes import list_echoed
from holdfast.features.recall.recall_log import oldest_kept_time
from holdfast.features.reflections import propagate
from holdfast.features.reflections.list_stale import list_computed_notices
from holdfast.features.reflections.propagate import InvalidationListener
from holdfast.features.skills import file_contents
from holdfast.features.skills import model as skill_kinds
from holdfast.features.sync import conflict_store
from holdfast.features.sync.quarantine import store as quarantine
from holdfast.features.sync.read_changes import VersionVectorListener
from holdfast.features.usage import service as usage_service
from holdfast.kernel.context import Context
from holdfast.kernel.journal.redact import on_clear_derived, on_redact
from holdfast.kernel.journal.transaction import Transaction, add_listener
from holdfast.kernel.journal.verify import on_verify
from holdfast.kernel.records.merge import MAX_CONFLICTS_PER_FIELD
from holdfast.kernel.storage.local_table import list_tables, register_modules
from holdfast.kernel.storage.port import Session

KIND_MODULES = (grant_kind, access_kinds, people_kinds, graph_kinds, namespace_kinds, skill_kinds)
"""Modules that register record kinds on import."""
TABLE_MODULES = (
    "tasks.store",
    "runs.store",
    "usage.store",
    "learning.store",
    "conversations.store",
    "conversations.onboarding",
    "people.erase_person",
    "importers.store",
    "recall.recall_log",
    "webhooks.store",
    "curation.store",
    "ingest.store",
    "llm.store",
    "agent_hosts.store",
)
"""Modules that declare local tables; imported when all tables are needed."""


def redact_memory(session: Session, kind: str, record: str, seen: Mapping[str, int]) -> None:
    """Erase a purged memory from local tables: embeddings, access counts, recalls, curation, ingests."""
    if kind != "memory":
        return
    session.do("memory_access_drop", id=record)
    session.do("duplicate_count_drop", id=record)
    embeddings.drop_embeddings(session, record)
    for feature in (recall_log, ingest):
        feature.purge_memories(session, [record])
    for table in list_tables():
        table.purge_memories(session, [record])


def retry_quarantined(ctx: Context) -> None:
    """Apply quarantined changes whose time was too far ahead and has come."""
    with ctx.reading() as session:
        is_waiting = session.row("quarantine_future")
    if is_waiting:
        from holdfast.features.sync.quarantine.service import apply_due  # rarely needed and slow to import

        apply_due(ctx)


def collect_expired(ctx: Context, tx: Transaction) -> None:
    """Delete expired data of features: old conflicts, due notices, recalls, cached model answers."""
    for record, cell in tx.session.rows("conflict_excess", most=MAX_CONFLICTS_PER_FIELD):
        conflict_store.drop_excess_values(tx, record, cell)
    propagate.collect_ended(tx)
    recall_log.prune_recalls(tx.session, oldest_kept_time(tx.now, ctx.recall_retention_days))
    llm_store.prune_answers(tx.session, tx.now)
    usage_service.prune_calls(tx.session, tx.now)


@cache
def connect_features() -> None:
    """Register listeners and redactions of all features, once per process, before a store is opened."""
    register_modules(f"holdfast.features.{name}" for name in TABLE_MODULES)
    add_listener(InvalidationListener())
    add_listener(VersionVectorListener())
    register_field_filter(apply_secret_policy)
    register_echo_finder(list_echoed)
    register_place_check(check_depth)
    before_collecting(retry_quarantined)
    on_collect(collect_expired)
    on_purge(purge_aliases)
    on_purge(propagate.purge_notices)
    register_computed_namespace(list_computed_notices)
    on_verify(file_contents.find_damage)
    on_redact(quarantine.purge_record)
    on_redact(redact_memory)
    on_clear_derived(llm_store.clear_answers)

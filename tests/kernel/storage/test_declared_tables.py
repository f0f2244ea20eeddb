"""Every table of the schema is declared: replicated, local, or internal for a reason."""

from contextlib import closing

import pytest

from holdfast.features.transfer.schema_v1 import ARRAYS
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.records.fields import ExportAs, Mark
from holdfast.kernel.storage.local_table import LocalTable, list_tables
from holdfast.kernel.storage.sqlite import schema
from holdfast.kernel.storage.sqlite.connection import open_database
from holdfast.wiring import connect_features

connect_features()
KIND_TABLES = {"grant": "memory_grant"}
"""Tables of record kinds that have another name."""
INTERNAL = {
    "ai_memory_state": "What peers of another protocol were sent; belongs to their connection.",
    "api_key": "A secret of this store: never exported, revoked instead of erased.",
    "baseline": "Journal of other replicas below the compaction point.",
    "binary_index": "Derived from the embeddings, by SQLite alone.",
    "binary_index_pack": "Derived from the embeddings, by SQLite alone.",
    "compacted_record": "Journal below the compaction point; a purge redacts it.",
    "compaction_point": "Journal.",
    "conflict": "Derived from the field versions of records.",
    "duplicate_count": "A counter of its memory, dropped with it.",
    "embedding": "Derived from a memory, dropped with it.",
    "embedding_removed": "Numbers of embeddings that the binary index must forget.",
    "job_watermark": "When a job ran last; no person, no memory.",
    "journal": "The journal itself.",
    "journal_head": "Journal.",
    "lease": "Holds for minutes.",
    "lsh_band": "Derived from a memory, dropped with it.",
    "memory_access": "Counters of a memory, dropped with it.",
    "memory_tag": "Columns of a memory.",
    "memory_text": "Full-text index of memories.",
    "memory_vocab": "Words of the full-text index.",
    "meta": "Fields of other programs' exports, by row.",
    "notice": "Messages between agents: exported as `notices` by their own format, which is ai-memory's.",
    "peer": "Peers and their addresses; belongs to this store.",
    "peer_link": "State of the connection to a peer.",
    "peer_nonce": "Used nonces of a peer.",
    "peer_seen": "State of the connection to a peer.",
    "pending": "Actions that wait for an approval here.",
    "quarantine": "Refused changes of peers; a purge drops them.",
    "quarantine_dropped": "Refused changes of peers that somebody dropped.",
    "recall_log": "A bounded log of recalls; a purge redacts the hits.",
    "reflection_proposal": "Proposed reflections; they name memories by a digest of their ids.",
    "remote_change": "Journal of other replicas; a purge redacts it.",
    "replica": "Journal.",
    "signer": "Public keys of the journal's signers.",
    "skill_piece": "Contents of skill versions, replicated with them.",
    "sync_cursor": "Sync state of a peer.",
    "sync_pending_ack": "Sync state of a peer.",
    "version_vector": "Journal.",
}
"""Tables that are neither of a record kind nor declared as local, and why."""


@pytest.fixture
def columns() -> dict[str, list[str]]:
    """The columns of every table of a new file."""
    with closing(open_database(":memory:")) as connection:
        connection.execute(schema.SCRIPT.read_text("utf-8"))
        names = [
            name
            for (name,) in connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
            if not name.startswith(("memory_text_", "sqlite_"))
        ]
        return {
            name: [row[1] for row in connection.execute(f"pragma table_info('{name}')").fetchall()] for name in names
        }


def test_every_table_is_replicated_local_or_internal(columns: dict[str, list[str]]) -> None:
    replicated = {KIND_TABLES.get(name, name) for name in KINDS}
    local = {table.name for table in list_tables()}
    assert replicated & local == (replicated | local) & INTERNAL.keys() == set()
    assert replicated | local | INTERNAL.keys() == columns.keys()


@pytest.mark.parametrize("table", list_tables(), ids=lambda table: table.name)
def test_a_struct_has_exactly_the_columns_of_its_table(
    columns: dict[str, list[str]], table: LocalTable[object]
) -> None:
    assert sorted(table.columns) == sorted(columns[table.name])
    named = [*table.key, *table.memories, *table.mutable]
    named += [table.owner.column, table.owner.at] if table.owner else []
    named += [table.retention.column] if table.retention else []
    assert set(named) <= set(table.columns)


def test_a_table_with_a_principal_says_how_it_is_erased() -> None:
    erased = {table.name for table in list_tables() if table.owner}
    assert erased == {table.name for table in list_tables() if "principal" in table.columns}


def test_an_exported_field_has_a_default_if_it_is_local() -> None:
    exported = [table for table in list_tables() if table.export]
    assert {table.export.array for table in exported if table.export} <= set(ARRAYS)
    for table in exported:
        required = {name for name, field in table.fields.items() if field.is_required}
        assert required & set(table.has_mark(Mark.LOCAL)) == set()
        times = {name for name in table.columns if name.endswith("_at")} - set(table.has_mark(Mark.LOCAL))
        assert [
            name for name in times if not any(isinstance(mark, ExportAs) for mark in table.fields[name].marks)
        ] == []

"""Query plans of imports: imported items are found by index."""

from plans import Plans

import holdfast
from holdfast.features.importers import store as mined

INDEXES = (
    "sqlite_autoindex_imported_statement_1",
    "imported_statement_pkey",
    "imported_statement_utterance",
    "sqlite_autoindex_memory_1",
    "memory_id_key",
)


def test_imported_chats_are_looked_up_by_index(plans: Plans, hold: holdfast.Holdfast) -> None:
    with plans.record_statements() as seen, hold.ctx.store.reading() as session:
        mined.find_records(session, ["a", "b"])
        mined.IMPORT_RECORDS.get_many(session, ["x"], "utterance_digest")
        mined.find_existing_memories(session, ["a", "b"])
    run = [one for one in seen if "from imported_statement" in one[0] or "select id from memory" in one[0]]
    assert len(run) == 3
    assert not any(walk in step for step in plans.steps(run) for walk in ("SCAN m", "Seq Scan on m"))
    found = [next((index for index in INDEXES if index in step), None) for step in plans.steps(run)]
    assert len([index for index in found if index is not None]) == 3

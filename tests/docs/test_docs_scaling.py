"""The page about scaling to many nodes covers every table."""

import re

from doc_pages import ROOT

from holdfast.kernel.storage import statements
from holdfast.kernel.storage.local_table import list_tables
from holdfast.kernel.storage.postgres.engine import STATEMENTS
from holdfast.wiring import connect_features

PAGE = ROOT / "docs" / "scaling.md"
HEADING = "### Which statements would cross shards"


def test_every_table_is_assigned_to_its_shards() -> None:
    text = PAGE.read_text("utf-8").partition(HEADING)[2].partition("\n### ")[0]
    placed = set(re.findall(r"`([a-z_]+)`", text))
    connect_features()
    whole = {name for name in statements.load_statements(*STATEMENTS) if "." not in name}
    whole |= {table.name for table in list_tables()}
    assert whole - placed == set()
    assert {name for name in placed if "_" in name} - whole <= {"memory_place", "journal_head_moved"}

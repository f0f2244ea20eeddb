"""Query plans of reflections and links: every step uses an index."""

from typing import Any

import pytest
from plans import Plans

from holdfast.app import Holdfast

ASKED: dict[str, dict[str, Any]] = {
    "reflect": {"source_ids": ["GROUND", "FIRST"], "title": "Fresh", "content": "It follows."},
    "link": {"source_id": "GROUND", "target_id": "OTHER", "relation": "reflects_on"},
    "kg_invalidate": {"source_id": "FIRST", "target_id": "GROUND", "relation": "reflects_on"},
    "policy_get": {"namespace": "team"},
    "reflection_origin": {"memory_id": "FIRST"},
    "export_reflection": {"memory_id": "FIRST"},
    "reflect_suggest": {"namespace": "team"},
    "pending_list": {"status": "pending"},
}


@pytest.mark.parametrize("what", ASKED)
def test_sources_and_dependents_are_found_by_index(plans: Plans, hold: Holdfast, what: str) -> None:
    ids = {"GROUND": hold.store(title="Ground", content="It is so.", namespace="team").id}
    ids["OTHER"] = hold.store(title="Other", content="It is so, too.", namespace="team").id
    ids["FIRST"] = hold.reflect(source_ids=[ids["GROUND"]], title="First", content="It follows.").id
    arguments = {
        name: [ids[one] for one in value] if isinstance(value, list) else ids.get(value, value)
        for name, value in ASKED[what].items()
    }
    with plans.record_statements() as seen:
        hold.call(what, arguments)
    assert plans.steps(seen)
    assert plans.walks(seen) == []

"""Query plans of curation: every step uses an index."""

from collections.abc import Callable
from typing import Any

import pytest
from plans import Plans

from holdfast.app import Holdfast

POOL = "The connection pool keeps ten connections for all of the workers of the server."

ASKED: dict[str, Callable[[Holdfast, str], Any]] = {
    "curate": lambda hold, id: hold.curate(apply=True),
    "rollback": lambda hold, id: hold.curate_rollback(hold.curate(apply=True).run_id),
    "proposals": lambda hold, id: (hold.curate(apply=True), hold.curate_proposals()),
    "runs": lambda hold, id: hold.curate_runs(),
    "auto_tag": lambda hold, id: hold.auto_tag(id, apply=True),
    "expand_query": lambda hold, id: hold.expand_query("pool"),
    "detect_contradiction": lambda hold, id: hold.detect_contradiction(id, hold.store(title="x", content="y").id),
    "persona": lambda hold, id: (hold.persona_generate("pool"), hold.persona("pool")),
    "atomise": lambda hold, id: hold.atomise(hold.store(title="R", content=f"{POOL} " * 9).id, max_atom_tokens=60),
}


@pytest.mark.full
def test_curated_and_derived_memories_are_found_by_index(plans: Plans, hold: Holdfast) -> None:
    hold.entity_register(canonical_name="Ada", namespace="people", aliases=["Countess"])
    unplanned, walking = [], {}
    for what, ask in ASKED.items():
        id = hold.store(title=f"Pool of {what}", content=POOL, force=True).id
        hold.store(title=f"Connection pool of {what}", content=POOL.replace("all of the", "the"), force=True)
        hold.store(title=f"Workers of {what}", content=POOL.replace("ten", "nine"), force=True)
        with plans.record_statements() as seen:
            ask(hold, id)
        if not plans.steps(seen):
            unplanned.append(what)
        if walks := plans.walks(seen):
            walking[what] = walks
    assert (unplanned, walking) == ([], {})

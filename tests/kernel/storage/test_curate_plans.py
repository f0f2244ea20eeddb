"""Query plans of curation: every step uses an index."""

from collections.abc import Callable
from typing import Any

import pytest
from plans import Plans

from holdfast.app import Holdfast

POOL = "The connection pool keeps ten connections for all of the workers of the server."

ASKED: dict[str, Callable[[Holdfast, str], Any]] = {
    "curate": lambda ctx, id: ctx.curate(apply=True),
    "rollback": lambda ctx, id: ctx.curate_rollback(ctx.curate(apply=True).run_id),
    "proposals": lambda ctx, id: (ctx.curate(apply=True), ctx.curate_proposals()),
    "runs": lambda ctx, id: ctx.curate_runs(),
    "auto_tag": lambda ctx, id: ctx.auto_tag(id, apply=True),
    "expand_query": lambda ctx, id: ctx.expand_query("pool"),
    "detect_contradiction": lambda ctx, id: ctx.detect_contradiction(id, ctx.store(title="x", content="y").id),
    "persona": lambda ctx, id: (ctx.persona_generate("pool"), ctx.persona("pool")),
    "atomise": lambda ctx, id: ctx.atomise(ctx.store(title="R", content=f"{POOL} " * 9).id, max_atom_tokens=60),
}


@pytest.mark.full
def test_what_is_curated_and_derived_is_found_by_index(plans: Plans, ctx: Holdfast) -> None:
    ctx.entity_register(canonical_name="Ada", namespace="people", aliases=["Countess"])
    unplanned, walking = [], {}
    for what, ask in ASKED.items():
        id = ctx.store(title=f"Pool of {what}", content=POOL, force=True).id
        ctx.store(title=f"Connection pool of {what}", content=POOL.replace("all of the", "the"), force=True)
        ctx.store(title=f"Workers of {what}", content=POOL.replace("ten", "nine"), force=True)
        with plans.record_statements() as seen:
            ask(ctx, id)
        if not plans.steps(seen):
            unplanned.append(what)
        if walks := plans.walks(seen):
            walking[what] = walks
    assert (unplanned, walking) == ([], {})

"""Query plans of webhooks: the next delivery is found by index."""

from plans import Plans

import holdfast
from holdfast.features.webhooks import store as subscriptions

INDEXES = ("subscription_ready", "delivery_waiting", "delivery_number")


def test_deliveries_are_found_by_their_indexes(plans: Plans, hold: holdfast.Holdfast) -> None:
    with plans.record_statements() as seen, hold.ctx.store.transaction() as session:
        subscriptions.list_due(session, "somebody", 1)
        subscriptions.next_waiting(session, "a")
        session.do("delivery_prune", subscription="a", number=1)
    run = [one for one in seen if "from subscription t" in one[0] or "delivery" in one[0]]
    assert len(run) == 3
    steps = plans.steps(run)
    assert not any(walk in step for step in steps for walk in ("SCAN t", "Seq Scan on "))
    assert {index for index in INDEXES if any(index in step for step in steps)} == set(INDEXES)

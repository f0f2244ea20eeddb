"""A very large transaction is journalled completely, in order, and reads its own writes."""

from typing import Any

from holdfast.kernel.journal.transaction import CHUNK_SIZE


def test_a_large_transaction_is_journalled_in_order_and_merges_with_its_own_writes(hold: Any) -> None:
    many = [f"Gate {number}" for number in range(2 * CHUNK_SIZE)]
    rows = [{"title": gate, "content": f"{gate} is shut.", "namespace": "g"} for gate in (*many, "Gate 0")]
    rows[-1]["content"] = "Gate 0 is open."
    answer = hold.bulk_store(memories=rows, on_conflict="merge")
    told = hold.events(limit=1000).events
    assert [one.record for one in told if one.kind == "memory"] == list(answer.ids)
    assert {one.batch for one in told} == {told[0].seq}
    assert (answer.outcomes[-1].outcome, hold.get(answer.ids[0]).content) == ("merged", "Gate 0 is open.")
    assert hold.verify().intact

"""Three machines that write during network partitions and server crashes converge."""

import os
from contextlib import ExitStack
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
from network_machines import can_be_made, machines

import holdfast
from timeouts import TEST_TIMEOUT, wait_until

ROUNDS = int(os.environ.get("HOLDFAST_NETWORK_ROUNDS", "0"))
VOCABULARY = ["".join(Random(seed).choices("aeioubcdfglmnprst", k=3 + seed % 7)) for seed in range(3000)]
"""A text that compresses like prose."""
pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(TEST_TIMEOUT * 2),
    pytest.mark.skipif(not ROUNDS, reason="asked for by `make test-network`"),
]


def words(hold: holdfast.Holdfast) -> int:
    """Size of the content of local changes, in bytes."""
    with hold.ctx.reading() as session:
        rows = session.query_sql("select body, delta from journal where origin in (select origin from signer)", {})
    return sum(len((delta or body or "").encode()) for body, delta in rows)


def test_partitioned_and_killed_machines_converge_after_the_network_is_restored(tmp_path: Path) -> None:
    if not can_be_made():
        pytest.skip("networks of our own cannot be made here")
    chance = Random(7)
    with machines(tmp_path, 3) as made, ExitStack() as stack:
        stores = [stack.enter_context(holdfast.open(one.db, agent_id="ai:a@x", once=True)) for one in made]
        kept: list[str] = []
        for number in range(ROUNDS):
            victim = chance.choice(made)
            victim.cut()
            if number % 5 == 4:
                victim.kill()
            for store in stores:
                for _ in range(4):
                    text = " ".join(chance.choices(VOCABULARY, k=60))
                    kept.append(store.store(title=f"Number {len(kept)}", content=text, tier="long").id)
                store.update(id=chance.choice(kept[-3:]) if store is stores[-1] else kept[-1], priority=9)
            sleep(0.2)
            if number % 5 == 4:
                victim.start([other for other in made if other is not victim])
            victim.heal()
        begun = monotonic()
        wait_until(lambda: len({store.sync_digest().digest for store in stores}) == 1)
        level = monotonic() - begun
        assert [store.stats().total for store in stores] == [len(kept)] * 3
        assert all(store.verify().intact for store in stores)
        changed, sent = sum(map(words, stores)), sum(one.sent_bytes() for one in made)
        print(
            f"{ROUNDS} cuts, {len(kept)} memories: level after {level:.1f} s; {sent / (2 * changed):.2f} bytes sent for"
        )
        print(f"each byte that was changed ({changed:,}) and each of the two others ({sent:,} bytes in all)")

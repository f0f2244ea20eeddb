"""Write buffered accesses and recalls in a batch, after the reads."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.features.memories.access_log import Uses
from holdfast.features.recall import recall_store as recalls
from holdfast.features.recall.recall_log import Asked, Recalls, oldest
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import OutcomeUnknown, StoreError
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction


def flush(hold: Hold) -> int:
    """Count accesses, extend expiry times, promote memories that are used often. Return the number of memories.

    Changes are made in the name of the agent that used the memories. What cannot be written now waits for the next
    flush; without one it is lost, which is acceptable for a hint.
    """
    written = 0
    used_by, asked = hold.local(Uses).take(), hold.local(Recalls).take()
    for agent in dict.fromkeys([*used_by, *(one.agent for one in asked)]):
        used, theirs = used_by.get(agent, {}), [one for one in asked if one.agent == agent]
        user = hold.seen_by(replace(hold.caller, agent=agent))
        try:
            with user.writing() as write:
                for id in sorted(used):
                    _count(user, write, id, *used[id])
                _log(user, write, theirs)
            written += len(used)
        except OutcomeUnknown:
            continue  # lose a count rather than count twice
        except StoreError:
            hold.local(Uses).add(agent, used)
            hold.local(Recalls).put_back(theirs)
    return written


def _log(hold: Hold, write: Transaction, asked: Sequence[Asked]) -> None:
    """Store recalls for a while, so that they can be rated."""
    if asked:
        recalls.add(write.session, [one.logged(whole=hold.keep_recalls > 0) for one in asked])
        recalls.prune(write.session, oldest(write.now, hold.keep_recalls))


def _count(hold: Hold, write: Transaction, id: str, uses: int, at: int) -> None:
    memory = write.get(MEMORY, id)
    if memory is None or memory.state != "live":
        return
    write.session.do("access_add", memory=id, origin=write.origin, uses=uses, used_at=at)
    if memory.expires_at is None:
        return
    write.session.do("memory_extend", id=id, until=hold.lifetimes.extended(memory.tier, at))
    total = write.session.rows("access_of", ids=[id])[0][1]
    if memory.tier == "mid" and 0 < hold.lifetimes.promote_after <= total:
        write.change(MEMORY, memory, replace(memory, tier="long", expires_at=None), "promote")

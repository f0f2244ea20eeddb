"""Write down which memories were used, and for which questions, in a batch after the reading is done."""

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
    """Count the uses, lengthen the lives they lengthen, promote what is used often. How many memories it was.

    Each under the name of the agent that used them: a promotion is its doing.
    What a store cannot take now waits for the next time; if there is none it is lost, being a hint and no memory.
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
            continue  # rather never counted than twice
        except StoreError:
            hold.local(Uses).add(agent, used)
            hold.local(Recalls).put_back(theirs)
    return written


def _log(hold: Hold, write: Transaction, asked: Sequence[Asked]) -> None:
    """Keep what was asked, for a while, so that something can be said of it."""
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

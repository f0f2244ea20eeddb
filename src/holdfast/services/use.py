"""Write down which memories were used, in a batch after the reading is done."""

from msgspec.structs import replace

from ..domain.errors import OutcomeUnknown, StoreError
from ..storage.records import MEMORY, Writing
from .hold import Hold


def flush(hold: Hold) -> int:
    """Count the uses, lengthen the lives they lengthen, promote what is used often. How many memories it was.

    Each under the name of the agent that used them: a promotion is its doing.
    What a store cannot take now waits for the next time; if there is none it is lost, being a hint and no memory.
    """
    written = 0
    for agent, used in hold.uses.take().items():
        user = hold.seen_by(replace(hold.caller, agent=agent))
        try:
            with user.writing() as write:
                for id in sorted(used):
                    _count(user, write, id, *used[id])
            written += len(used)
        except OutcomeUnknown:
            continue  # rather never counted than twice
        except StoreError:
            hold.uses.add(agent, used)
    return written


def _count(hold: Hold, write: Writing, id: str, uses: int, at: int) -> None:
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

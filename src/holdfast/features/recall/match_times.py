"""Times of all memories that match a query, not only of the best hits."""

from collections.abc import Sequence

from holdfast.features.memories.store import Filter, narrowed
from holdfast.features.recall import fts_query as asking
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.port import Session

MOST = asking.ROW_BUDGET


def said(session: Session, caller: Caller, words: Sequence[str], which: Filter, now: int) -> dict[str, int] | None:
    """Return the ids and times of all memories with any of some words; None if there are too many to read."""
    put = asking.question(session, words)
    if any(_held(word, put) for word in words if word not in put.rare):
        return None
    if not put.rare:
        return {}
    parts, params = narrowed(caller, which, now)
    _, asked = session.asking(put.rare, every=False)
    params |= {"match": asked["match"], "limit": MOST + 1}
    found = {row[0]: row[1] for row in session.assembled(("memory_said", *parts, "memory_said.some"), params)}
    return None if len(found) > MOST else found


def _held(word: str, put: asking.Question) -> int:
    """Return in how many memories a word occurs, as far as counted."""
    return min((put.held.get(stem, 0) for stem in tokens.stems(word)), default=0)

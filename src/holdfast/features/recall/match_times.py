"""Times of all memories that match a query, not only of the best hits."""

from collections.abc import Sequence

from holdfast.features.memories.store import Filter, filter_clauses
from holdfast.features.recall import fts_query
from holdfast.kernel.context import Caller
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.port import Session

MAX_MATCHES = fts_query.ROW_BUDGET


def find_match_times(
    session: Session, caller: Caller, words: Sequence[str], which: Filter, now: int
) -> dict[str, int] | None:
    """Return the ids and times of all memories with any of some words; None if there are too many to read."""
    plan = fts_query.plan_query(session, words)
    if any(_count_documents(word, plan) for word in words if word not in plan.rare):
        return None
    if not plan.rare:
        return {}
    parts, params = filter_clauses(caller, which, now)
    _, match_params = session.full_text_query(plan.rare, match_all=False)
    params |= {"match": match_params["match"], "limit": MAX_MATCHES + 1}
    found = {row[0]: row[1] for row in session.select(("match_times", *parts, "match_times.limit"), params)}
    return None if len(found) > MAX_MATCHES else found


def _count_documents(word: str, plan: fts_query.FtsPlan) -> int:
    """Return in how many memories a word occurs, as far as counted."""
    return min((plan.document_counts.get(stem, 0) for stem in index_terms.stems(word)), default=0)

"""Recall log and feedback. Local to this store, never journalled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.features.recall.utility import Verdict, utility
from holdfast.kernel.storage.port import Session

MOST = 10_000
"""Maximum number of logged recalls."""
ROOM = MOST // 10
"""Number deleted at once above the maximum."""
PAGE = 500
FIRST = "\U0010ffff"
"""Sorts after every id."""


class Hit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A logged hit with the parts of its score."""

    id: str
    score: float
    adjustment: float
    words: float
    parts: dict[str, float]
    cosine: float | None = None


class Logged(NamedTuple):
    """A logged recall."""

    id: str
    asked_at: int
    agent: str
    question: str | None
    hits: list[Hit]


class Said(NamedTuple):
    recall: str
    memory: str
    agent: str
    verdict: Verdict


def add(session: Session, many: Sequence[Logged]) -> None:
    """Store recalls. Memories purged meanwhile are left out, and so is a query that found one."""
    ids = {hit.id for one in many for hit in one.hits}
    purged = {row[0] for row in session.rows("recall_purged", ids=list(ids))}
    session.many("recall_log_add", (_row(one, purged) for one in many))


def _row(one: Logged, purged: set[str]) -> dict[str, object]:
    question = None if any(hit.id in purged for hit in one.hits) else one.question
    return {**one._asdict(), "question": question, "hits": _text(one.hits, purged)}


def _text(hits: Iterable[Hit], without: set[str]) -> str:
    return msgspec.json.encode([hit for hit in hits if hit.id not in without]).decode()


def get(session: Session, id: str) -> Logged | None:
    row = session.row("recall_log_get", id=id)
    return None if row is None else _logged(row)


def page(session: Session, agent: str | None, *, before: str, limit: int) -> list[Logged]:
    """List recalls of one agent or of all before a recall id, newest first."""
    if agent is None:
        rows = session.rows("recall_log_before", before=before or FIRST, limit=limit)
    else:
        rows = session.rows("recall_log_of", agent=agent, before=before or FIRST, limit=limit)
    return [_logged(row) for row in rows]


def lately(session: Session, agent: str, *, since: int, limit: int) -> list[list[str]]:
    """List the hit ids of an agent's last recalls since a time, newest first."""
    rows = session.rows("recall_log_lately", agent=agent, since=since, limit=limit)
    return [[hit.id for hit in msgspec.json.decode(row[0], type=list[_Named])] for row in rows]


class _Named(msgspec.Struct, frozen=True):
    """The memory id of a logged hit."""

    id: str


def _logged(row: tuple[str, int, str, str | None, str]) -> Logged:
    return Logged(*row[:4], msgspec.json.decode(row[4], type=list[Hit]))


def prune(session: Session, before: int) -> None:
    """Delete recalls before a time, and the oldest above the maximum."""
    session.do("recall_log_aged", before=before)
    ((count,),) = session.rows("recall_log_count")
    if count > MOST:
        session.do("recall_log_excess", excess=count - MOST + ROOM)


def say(session: Session, many: Iterable[Said], now: int) -> None:
    """Store verdicts; they replace earlier ones of the same agent on the same hits."""
    session.many("recall_feedback_put", ({**one._asdict(), "given_at": now} for one in many))


def said_of(session: Session, recalls: Iterable[str]) -> list[Said]:
    """List all verdicts on the hits of some recalls, in the order given."""
    return [Said(*row) for row in session.rows("recall_feedback_of", ids=list(recalls))]


def utilities(session: Session, ids: Sequence[str]) -> dict[str, float]:
    """Compute the utility of the memories that have verdicts."""
    counts: dict[str, dict[Verdict, int]] = {}
    for memory, verdict, count in session.rows("recall_feedback_counts", ids=list(ids)) if ids else ():
        counts.setdefault(memory, {})[verdict] = count
    return {memory: utility(said) for memory, said in counts.items()}


def purge(session: Session, ids: Sequence[str]) -> None:
    """Delete memories from the log, with the queries that found them and their verdicts."""
    session.do("recall_feedback_purged", ids=list(ids))
    gone, after = set(ids), ""
    while rows := session.rows("recall_log_page", after=after, limit=PAGE):
        for one in map(_logged, rows):
            if any(hit.id in gone for hit in one.hits):
                session.do("recall_log_purged", id=one.id, hits=_text(one.hits, gone))
        after = rows[-1][0]


def by_hit(said: Iterable[Said]) -> Mapping[tuple[str, str], dict[str, Verdict]]:
    """Group verdicts by recall and memory, one per agent."""
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    for one in said:
        found.setdefault((one.recall, one.memory), {})[one.agent] = one.verdict
    return found

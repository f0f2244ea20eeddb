"""Quality report of a store (everything the caller may see) or of another program's export, in one pass."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast.features.curation.quality import Collection, Example, Finding, Found, Text, Trouble
from holdfast.features.graph import store as links
from holdfast.features.graph.store import Which
from holdfast.features.importers.model import Note, Problem, Record, Rows, Turn
from holdfast.features.memories import store as memories
from holdfast.features.memories.dedup import LATELY, MOST_RECALLED, MOST_RECALLS
from holdfast.features.memories.find_memories import normal
from holdfast.features.memories.store import Filter
from holdfast.features.recall import recall_store as recalls
from holdfast.features.recall.recall_log import Recalls
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.kernel import timestamps as moment
from holdfast.kernel.context import Hold
from holdfast.kernel.journal.kinds import memory_of
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import echoes, worth_reading

PAGE = 500
MOST_RECALLS_READ = 2000
MOST_LOOPS_LOOKED_AT = 2000
"""Newest memories stored shortly after a recall that are checked for recall loops."""
MOST_LINKS = 10_000


class Audit(NamedTuple):
    """Findings over all checked texts."""

    total: int
    findings: dict[Trouble, Finding]
    problems: list[Problem]


def of_store(hold: Hold, namespace: str | None) -> Audit:
    """Report on the live memories of the store or a namespace."""
    which = normal(Filter(namespace=namespace))
    with hold.reading() as session:
        scan = _Looked(hold, session)
        total = memories.count(session, hold.caller, which, hold.now())
        for page in _pages(hold, session, which):
            scan.page(page)
            hold.progress(min(scan.texts.total, total), total, "auditing")
        same, near, against = scan.texts.alike()
        loops = scan.loops()
    return Audit(scan.texts.total, scan.findings(same, near, against, loops), [])


def _pages(hold: Hold, session: Session, which: Filter) -> Iterator[list[Memory]]:
    parts, params = memories.narrowed(hold.caller, which, hold.now())
    after = ""
    while rows := session.assembled(
        ("memory_select", *parts, "transfer.page"), params | {"after": after, "limit": PAGE}
    ):
        yield list(map(memory_of, rows))
        after = rows[-1][0]


class _Looked:
    """Findings collected while reading the memories of a store."""

    def __init__(self, hold: Hold, session: Session) -> None:
        self._hold, self._session, self._now = hold, session, hold.now()
        self.texts = Collection()
        self._stale, self._unread, self._contradicted = Found(), Found(), Found()
        self._recalls = _recalls(hold, session)
        self._after: list[Memory] = []

    def page(self, page: list[Memory]) -> None:
        ids = [memory.id for memory in page]
        uses = memories.uses(self._session, ids)
        stale = invalidations.stale(self._session, self._hold.caller, ids, self._now)
        linked = self._tied(ids)
        for memory in page:
            self.texts.add(_text(memory))
            if why := self._outlived(memory, stale, linked["supersedes"]):
                self._stale.add(Example((memory.id,), f"{memory.title}: {why}"))
            if uses.get(memory.id, (0, 0))[0] == 0:
                self._unread.add(Example((memory.id,), memory.title))
            if memory.id in linked["contradicts"]:
                self._contradicted.add(Example((memory.id, linked["contradicts"][memory.id]), memory.title))
            if memory.agent == self._hold.caller.agent and self._recalls_before(memory):
                self._after.append(memory)

    def _tied(self, ids: list[str]) -> dict[str, dict[str, str]]:
        which = Which(relations=("supersedes", "contradicts"))
        found: dict[str, dict[str, str]] = {"supersedes": {}, "contradicts": {}}
        for edge in links.entering(self._session, self._hold.caller, ids, which, self._now, limit=MOST_LINKS):
            found[edge.link.relation][edge.link.target] = edge.id
        return found

    def _outlived(self, memory: Memory, stale: dict[str, Any], superseded: dict[str, str]) -> str | None:
        if memory.id in superseded:
            return f"superseded by {superseded[memory.id]}"
        if memory.valid_until is not None and memory.valid_until <= self._now:
            return f"valid until {moment.to_text(memory.valid_until)}"
        return "a source changed or was deleted" if memory.id in stale else None

    def _recalls_before(self, memory: Memory) -> list[recalls.Logged]:
        since = memory.created_at - LATELY
        return [one for one in self._recalls if since <= one.asked_at < memory.created_at][:MOST_RECALLS]

    def loops(self) -> Finding:
        """Find memories that only repeat what their agent recalled shortly before."""
        found = Found()
        for memory in self._after[-MOST_LOOPS_LOOKED_AT:]:
            ids = [hit.id for one in self._recalls_before(memory) for hit in one.hits if hit.id != memory.id]
            read = memories.by_ids(
                self._session, self._hold.caller, list(dict.fromkeys(ids))[:MOST_RECALLED], self._now, view="kept"
            )
            older = [one for one in read.values() if one.created_at < memory.created_at]
            texts = [f"{one.title}\n{one.content}" for one in older]
            near = worth_reading(texts, memory.content)
            if repeated := echoes([texts[at] for at in near], memory.content, [older[at] for at in near]):
                found.add(Example((memory.id, *(one.id for one in repeated)), memory.title))
        return found.finding()

    def findings(self, same: Finding, near: Finding, against: Finding, loops: Finding) -> dict[Trouble, Finding]:
        linked = self._contradicted.finding()
        both = Finding((against.many or 0) + (linked.many or 0), linked.examples + against.examples)
        return {
            "duplicates": same,
            "near_duplicates": near,
            "recall_loops": loops,
            "secrets": self.texts.secrets.finding(),
            "untrusted": self.texts.untrusted.finding(),
            "contradictions": both,
            "stale": self._stale.finding(),
            "never_read": self._unread.finding(),
        }


def _recalls(hold: Hold, session: Session) -> list[recalls.Logged]:
    """List the recalls of the calling agent, newest first."""
    logged = recalls.page(session, hold.caller.agent, before="", limit=MOST_RECALLS_READ)
    buffered = [one.logged(whole=False) for one in hold.local(Recalls).all() if one.agent == hold.caller.agent]
    return [*buffered[::-1], *logged]


def _text(memory: Memory) -> Text:
    is_spoken = memory.thread is not None or memory.kind == "conversation"
    return Text(memory.id, memory.namespace, memory.title, memory.content, is_spoken)


def of_records(records: Iterator[Record], keep_going: Callable[[], None]) -> Audit:
    """Report on another program's export, which has no recall history."""
    texts, problems = Collection(), list[Problem]()
    for record in records:
        keep_going()
        if isinstance(record, Problem):
            problems.append(record)
        for text in _texts(record):
            texts.add(text)
    same, near, against = texts.alike()
    unknown = Finding(None)
    findings: dict[Trouble, Finding] = {
        "duplicates": same,
        "near_duplicates": near,
        "recall_loops": unknown,
        "secrets": texts.secrets.finding(),
        "untrusted": texts.untrusted.finding(),
        "contradictions": against,
        "stale": unknown,
        "never_read": unknown,
    }
    return Audit(texts.total, findings, problems)


def _texts(record: Record) -> Iterator[Text]:
    match record:
        case Turn():
            yield Text(record.where, record.thread, record.name, record.content, spoken=True)
        case Note():
            yield Text(record.where, "", record.title, record.content)
        case Rows():
            for number, row in enumerate(record.envelope.get("memories") or ()):
                if isinstance(row, dict) and isinstance(row.get("content"), str):
                    yield _row(row, f"{record.where}[{number}]")


def _row(row: dict[str, Any], where: str) -> Text:
    def said(name: str, default: str = "") -> str:
        value = row.get(name)
        return value if isinstance(value, str) else default

    return Text(said("id", where), said("namespace"), said("title"), said("content"))

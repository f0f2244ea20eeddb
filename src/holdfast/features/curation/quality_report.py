"""Quality report of a store (everything the caller may see) or of another program's export, in one pass."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast.features.curation.quality import Example, Finding, FindingCounter, Text, TextCollection, Trouble
from holdfast.features.graph import store as links
from holdfast.features.graph.store import LinkFilter
from holdfast.features.importers.model import EnvelopeRows, Note, Problem, Record, Turn
from holdfast.features.memories import store as memories
from holdfast.features.memories.echoes import MAX_RECALLED_HITS, MAX_RECALLS, RECALL_WINDOW
from holdfast.features.memories.store import Filter, normalize_filter
from holdfast.features.recall import recall_log
from holdfast.features.recall.recall_log import RecallLog
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.kernel import timestamps
from holdfast.kernel.context import Context
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import find_echoes, preselect_echoes

PAGE = 500
MAX_RECALLS_READ = 2000
MAX_LOOP_CANDIDATES = 2000
"""Newest memories stored shortly after a recall that are checked for recall loops."""
MAX_LINKS = 10_000


class QualityReport(NamedTuple):
    """Findings over all checked texts."""

    total: int
    findings: dict[Trouble, Finding]
    problems: list[Problem]


def report_on_store(ctx: Context, namespace: str | None) -> QualityReport:
    """Report on the live memories of the store or a namespace."""
    which = normalize_filter(Filter(namespace=namespace))
    with ctx.reading() as session:
        scan = _StoreScan(ctx, session)
        total = memories.count(session, ctx.caller, which, ctx.now())
        for page in _read_pages(ctx, session, which):
            scan.add_page(page)
            ctx.progress(min(scan.texts.total, total), total, "auditing")
        same, near, against = scan.texts.find_repeats()
        loops = scan.find_loops()
    return QualityReport(scan.texts.total, scan.build_findings(same, near, against, loops), [])


def _read_pages(ctx: Context, session: Session, which: Filter) -> Iterator[list[Memory]]:
    parts, params = memories.filter_clauses(ctx.caller, which, ctx.now())
    after = ""
    while rows := session.select(("memory_select", *parts, "transfer.page"), params | {"after": after, "limit": PAGE}):
        yield list(map(load_memory, rows))
        after = rows[-1][0]


class _StoreScan:
    """Findings collected while reading the memories of a store."""

    def __init__(self, ctx: Context, session: Session) -> None:
        self._ctx, self._session, self._now = ctx, session, ctx.now()
        self.texts = TextCollection()
        self._stale, self._unread, self._contradicted = FindingCounter(), FindingCounter(), FindingCounter()
        self._recalls = _list_recalls(ctx, session)
        self._after_recall: list[Memory] = []

    def add_page(self, page: list[Memory]) -> None:
        ids = [memory.id for memory in page]
        uses = memories.read_access_counts(self._session, ids)
        stale = invalidations.find_stale(self._session, self._ctx.caller, ids, self._now)
        linked = self._find_links(ids)
        for memory in page:
            self.texts.add(_build_text(memory))
            if why := self._find_stale_reason(memory, stale, linked["supersedes"]):
                self._stale.add(Example((memory.id,), f"{memory.title}: {why}"))
            if uses.get(memory.id, (0, 0))[0] == 0:
                self._unread.add(Example((memory.id,), memory.title))
            if memory.id in linked["contradicts"]:
                self._contradicted.add(Example((memory.id, linked["contradicts"][memory.id]), memory.title))
            if memory.agent == self._ctx.caller.agent and self._list_recalls_before(memory):
                self._after_recall.append(memory)

    def _find_links(self, ids: list[str]) -> dict[str, dict[str, str]]:
        which = LinkFilter(relations=("supersedes", "contradicts"))
        found: dict[str, dict[str, str]] = {"supersedes": {}, "contradicts": {}}
        for edge in links.list_incoming(self._session, self._ctx.caller, ids, which, self._now, limit=MAX_LINKS):
            found[edge.link.relation][edge.link.target] = edge.id
        return found

    def _find_stale_reason(self, memory: Memory, stale: dict[str, Any], superseded: dict[str, str]) -> str | None:
        if memory.id in superseded:
            return f"superseded by {superseded[memory.id]}"
        if memory.valid_until is not None and memory.valid_until <= self._now:
            return f"valid until {timestamps.format_timestamp(memory.valid_until)}"
        return "a source changed or was deleted" if memory.id in stale else None

    def _list_recalls_before(self, memory: Memory) -> list[recall_log.RecallRecord]:
        since = memory.created_at - RECALL_WINDOW
        return [one for one in self._recalls if since <= one.asked_at < memory.created_at][:MAX_RECALLS]

    def find_loops(self) -> Finding:
        """Find memories that only repeat what their agent recalled shortly before."""
        found = FindingCounter()
        for memory in self._after_recall[-MAX_LOOP_CANDIDATES:]:
            ids = [hit.id for one in self._list_recalls_before(memory) for hit in one.hits if hit.id != memory.id]
            read = memories.by_ids(
                self._session, self._ctx.caller, list(dict.fromkeys(ids))[:MAX_RECALLED_HITS], self._now, view="kept"
            )
            older = [one for one in read.values() if one.created_at < memory.created_at]
            texts = [f"{one.title}\n{one.content}" for one in older]
            near = preselect_echoes(texts, memory.content)
            if repeated := find_echoes([texts[at] for at in near], memory.content, [older[at] for at in near]):
                found.add(Example((memory.id, *(one.id for one in repeated)), memory.title))
        return found.build_finding()

    def build_findings(self, same: Finding, near: Finding, against: Finding, loops: Finding) -> dict[Trouble, Finding]:
        linked = self._contradicted.build_finding()
        both = Finding((against.total or 0) + (linked.total or 0), linked.examples + against.examples)
        return {
            "duplicates": same,
            "near_duplicates": near,
            "recall_loops": loops,
            "secrets": self.texts.secrets.build_finding(),
            "untrusted": self.texts.untrusted.build_finding(),
            "contradictions": both,
            "stale": self._stale.build_finding(),
            "never_read": self._unread.build_finding(),
        }


def _list_recalls(ctx: Context, session: Session) -> list[recall_log.RecallRecord]:
    """List the recalls of the calling agent, newest first."""
    logged = recall_log.list_page(session, ctx.caller.agent, before="", limit=MAX_RECALLS_READ)
    buffered = [
        one.to_record(with_question=False) for one in list(ctx.local[RecallLog]) if one.agent == ctx.caller.agent
    ]
    return [*buffered[::-1], *logged]


def _build_text(memory: Memory) -> Text:
    is_spoken = memory.thread is not None or memory.kind == "conversation"
    return Text(memory.id, memory.namespace, memory.title, memory.content, is_spoken)


def report_on_records(records: Iterator[Record], check_cancelled: Callable[[], None]) -> QualityReport:
    """Report on another program's export, which has no recall history."""
    texts, problems = TextCollection(), list[Problem]()
    for record in records:
        check_cancelled()
        if isinstance(record, Problem):
            problems.append(record)
        for text in _read_texts(record):
            texts.add(text)
    same, near, against = texts.find_repeats()
    unknown = Finding(None)
    findings: dict[Trouble, Finding] = {
        "duplicates": same,
        "near_duplicates": near,
        "recall_loops": unknown,
        "secrets": texts.secrets.build_finding(),
        "untrusted": texts.untrusted.build_finding(),
        "contradictions": against,
        "stale": unknown,
        "never_read": unknown,
    }
    return QualityReport(texts.total, findings, problems)


def _read_texts(record: Record) -> Iterator[Text]:
    match record:
        case Turn():
            yield Text(record.where, record.thread, record.name, record.content, is_spoken=True)
        case Note():
            yield Text(record.where, "", record.title, record.content)
        case EnvelopeRows():
            for number, row in enumerate(record.envelope.get("memories") or ()):
                if isinstance(row, dict) and isinstance(row.get("content"), str):
                    yield _read_row(row, f"{record.where}[{number}]")


def _read_row(row: dict[str, Any], where: str) -> Text:
    def get_text(name: str, default: str = "") -> str:
        value = row.get(name)
        return value if isinstance(value, str) else default

    return Text(get_text("id", where), get_text("namespace"), get_text("title"), get_text("content"))

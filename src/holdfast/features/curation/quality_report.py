"""Quality report of a store (everything the caller may see) or of another program's export: findings and a score."""

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.graph import read_links as links
from holdfast.features.graph.read_links import LinkFilter
from holdfast.features.importers.model import EnvelopeRows, Note, Problem, Record, Turn
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter, normalize_filter
from holdfast.features.recall import recall_log
from holdfast.features.recall.echoes import MAX_RECALLED_HITS, MAX_RECALLS, RECALL_WINDOW
from holdfast.features.recall.recall_log import RecallLog
from holdfast.features.reflections import read_invalidations as invalidations
from holdfast.kernel import timestamps
from holdfast.kernel.context import Context
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.index_terms import hash_text, lsh_bands
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import content_scan
from holdfast.kernel.text.content_scan import find_injections
from holdfast.kernel.text.similarity import (
    Relation,
    compare_titled,
    find_echoes,
    have_distinct_subjects,
    normalize_text,
    preselect_echoes,
)
from holdfast.kernel.text.terms import read_terms

Trouble = Literal[
    "duplicates", "near_duplicates", "recall_loops", "secrets", "untrusted", "contradictions", "stale", "never_read"
]
WEIGHTS: dict[Trouble, float] = {
    "duplicates": 1.0,
    "near_duplicates": 0.5,
    "recall_loops": 1.0,
    "secrets": 2.0,
    "untrusted": 0.5,
    "contradictions": 0.5,
    "stale": 0.5,
    "never_read": 0.1,
}
"""Share of the 100 points lost if every text has the problem; the score is never below 0."""

MAX_TEXTS = 200_000
"""Maximum number of texts checked."""
MAX_TEXT_LENGTH = 1000
"""Characters of a text used for comparison."""
MAX_COMPARISONS = 100_000
MIN_WORDS = 4
"""Shorter texts are near-duplicates by chance: they count only if equal."""
NO_BAND = -1
BANDS_PER_TEXT = 7
"""Hashes per text: one of the whole text, and one per MinHash band."""
MAX_EXAMPLES = 10


class Text(NamedTuple):
    """A text to check."""

    id: str
    place: str
    title: str
    content: str
    is_spoken: bool = False
    """Whether it is a message of a conversation: repetitions there are not a problem."""


class AuditExample(Struct, frozen=True):
    """An example of a finding: one text, or all texts of a group."""

    ids: list[str]
    what: str


class Finding(NamedTuple):
    """Number of texts with a problem, and examples; None if it cannot be determined."""

    total: int | None
    examples: tuple[AuditExample, ...] = ()


class FindingCounter:
    """Count texts with a problem and keep the first examples."""

    def __init__(self) -> None:
        self.count, self._examples = 0, list[AuditExample]()

    def add(self, example: AuditExample, number: int = 1) -> None:
        self.count += number
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append(replace(example, what=content_scan.redact_text(example.what)[0]))

    def build_finding(self) -> Finding:
        return Finding(self.count, tuple(self._examples))


class TextCollection:
    """Texts added one by one, and compared at the end."""

    def __init__(self) -> None:
        self.total = 0
        self.secrets, self.untrusted = FindingCounter(), FindingCounter()
        self._texts: list[Text] = []
        self._bands = array("q")

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: Text) -> None:
        """Check a text for secrets and injections, and index it for comparison."""
        self.total += 1
        if self.total > MAX_TEXTS:
            return
        if kinds := {secret.kind for secret in content_scan.find_secrets(f"{text.title}\n{text.content}")}:
            self.secrets.add(AuditExample([text.id], ", ".join(sorted(kinds))))
        if signs := find_injections(f"{text.title}\n{text.content}"):
            self.untrusted.add(AuditExample([text.id], ", ".join(signs)))
        if not text.is_spoken:
            self._index_text(text)

    def _index_text(self, text: Text) -> None:
        normalized = normalize_text(text.content)
        if not normalized:
            return
        means = {term.meaning for term in read_terms(text.content[:MAX_TEXT_LENGTH]) if term.sort != "filler"}
        place = hash_text(text.place)
        few = len(means) < MIN_WORDS
        near = (NO_BAND,) * (BANDS_PER_TEXT - 1) if few else (place ^ band for band in lsh_bands(means))
        self._bands.extend((place ^ hash_text(normalized), *near))
        self._texts.append(text._replace(content=text.content[:MAX_TEXT_LENGTH]))

    def find_repeats(self) -> tuple[Finding, Finding, Finding]:
        """Find duplicates, near-duplicates and contradictions. The first text of a group does not count."""
        same, near, against = _Groups(len(self._texts)), _Groups(len(self._texts)), FindingCounter()
        for one, other in self._find_equal_pairs():
            if not self._is_distinct(one, other):
                same.join(one, other)
        for one, other in self._find_candidate_pairs():
            if same.find_root(one) == same.find_root(other) or near.find_root(one) == near.find_root(other):
                continue
            match self._compare(one, other):
                case "same" | "near" | "update":
                    near.join(one, other)
                case "conflict":
                    against.add(
                        AuditExample([self._texts[one].id, self._texts[other].id], self._join_titles(one, other))
                    )
        return self._build_group_finding(same), self._build_group_finding(near), against.build_finding()

    def _compare(self, one: int, other: int) -> Relation:
        old, new = self._texts[one], self._texts[other]
        return compare_titled(old.title, old.content, new.title, new.content).relation

    def _is_distinct(self, one: int, other: int) -> bool:
        old, new = self._texts[one], self._texts[other]
        return have_distinct_subjects(old.title, new.title, old.content)

    def _join_titles(self, *numbers: int) -> str:
        return " | ".join(self._texts[number].title for number in numbers)

    def _find_equal_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield consecutive pairs of equal texts."""
        last: dict[int, int] = {}
        for number in range(len(self._texts)):
            exact = self._bands[number * BANDS_PER_TEXT]
            if exact in last:
                yield last[exact], number
            last[exact] = number

    def _find_candidate_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield each text with the previous text of each of its bands, up to the comparison limit."""
        last: dict[int, int] = {}
        pairs = 0
        for number in range(len(self._texts)):
            own, *others = self._bands[number * BANDS_PER_TEXT + 1 : (number + 1) * BANDS_PER_TEXT]
            if own == NO_BAND:
                continue
            for other in sorted({last[band] for band in (own, *others) if band in last}):
                if pairs < MAX_COMPARISONS:
                    pairs += 1
                    yield other, number
            last[own] = number

    def _build_group_finding(self, groups: "_Groups") -> Finding:
        found = FindingCounter()
        for numbers in groups.list_groups():
            found.add(
                AuditExample([self._texts[number].id for number in numbers], self._join_titles(*numbers[:3])),
                len(numbers) - 1,
            )
        return found.build_finding()


class _Groups:
    """Disjoint sets of numbers (union-find)."""

    def __init__(self, size: int) -> None:
        self._parents = array("q", range(size))

    def find_root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.find_root(one), self.find_root(other)))
        self._parents[high] = low

    def list_groups(self) -> list[list[int]]:
        """List groups of two or more, ordered by their first number."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._parents)):
            found.setdefault(self.find_root(number), []).append(number)
        return [numbers for numbers in found.values() if len(numbers) > 1]


def compute_score(total: int, counts: Iterable[tuple[Trouble, int | None]]) -> int:
    """Compute the score: 100 minus, for each problem, its share of the texts times its weight."""
    deducted = sum(WEIGHTS[trouble] * count / total for trouble, count in counts if count) if total else 0.0
    return round(100 * max(0.0, 1 - deducted))


PAGE = 500
MAX_RECALLS_READ = 2000
MAX_LOOP_CANDIDATES = 2000
"""Newest memories stored shortly after a recall that are checked for recall loops."""
MAX_LINKS = 10_000
MAX_PROBLEMS = 100


class AuditFinding(Struct, frozen=True, kw_only=True):
    """One kind of quality problem."""

    trouble: str
    weight: float
    """Share of the 100 points lost if every memory has the problem."""
    count: int | None = None
    """Number of memories with the problem; omitted if it cannot be determined."""
    share: float | None = None
    points: float | None = None
    """Points deducted from the score."""
    examples: list[AuditExample] = []


class AuditProblem(Struct, frozen=True, kw_only=True):
    where: str
    what: str


class AuditResult(Struct, frozen=True, kw_only=True):
    score: int
    """100 minus the points of every finding, at least 0."""
    total: int
    complete: bool
    """False if there were too many memories to check all of them."""
    findings: list[AuditFinding]
    problems: list[AuditProblem] = []
    """Parts of the export that could not be read, with their position."""
    rejected: int = 0
    """Number of unreadable parts left out of the score."""


def report_on_store(ctx: Context, namespace: str | None) -> AuditResult:
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
    return _build_result(scan.texts.total, scan.build_findings(same, near, against, loops), [])


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
                self._stale.add(AuditExample([memory.id], f"{memory.title}: {why}"))
            if uses.get(memory.id, (0, 0))[0] == 0:
                self._unread.add(AuditExample([memory.id], memory.title))
            if memory.id in linked["contradicts"]:
                self._contradicted.add(AuditExample([memory.id, linked["contradicts"][memory.id]], memory.title))
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
                found.add(AuditExample([memory.id, *(one.id for one in repeated)], memory.title))
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


def report_on_records(
    records: Iterator[Record], found: list[Problem], check_cancelled: Callable[[], None]
) -> AuditResult:
    """Report on another program's export, which has no recall history; `found` are problems of its files."""
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
    return _build_result(texts.total, findings, [*found, *problems])


def _build_result(total: int, found: dict[Trouble, Finding], problems: list[Problem]) -> AuditResult:
    return AuditResult(
        score=compute_score(total, [(trouble, one.total) for trouble, one in found.items()]),
        total=total,
        complete=total <= MAX_TEXTS,
        findings=[_build_finding(trouble, one, total) for trouble, one in found.items()],
        problems=[AuditProblem(where=one.where, what=one.what) for one in problems[:MAX_PROBLEMS]],
        rejected=sum(one.rejected for one in problems),
    )


def _build_finding(trouble: Trouble, found: Finding, total: int) -> AuditFinding:
    weight, share = WEIGHTS[trouble], None if found.total is None else found.total / max(1, total)
    return AuditFinding(
        trouble=trouble,
        weight=weight,
        count=found.total,
        share=None if share is None else round(share, 4),
        points=None if share is None else round(100 * weight * share, 2),
        examples=list(found.examples),
    )


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

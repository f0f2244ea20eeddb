"""Types of results and of dictionaries that methods take, for annotations.

    from holdfast.types import RecallResult

Written by tools/make_stubs.py: `make docs`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NotRequired, Required, TypedDict

from holdfast.features.transfer.operations import Envelope as Envelope
from holdfast.kernel.registry.encoding import Result as Result
from holdfast.kernel.registry.encoding import ResultList as ResultList

class Agent(Result, frozen=True, kw_only=True):
    """A registered agent."""

    agent_id: str
    agent_type: str
    registered_at: datetime
    capabilities: list[str]

class AgentPage(ResultList[SeenAgent], frozen=True, kw_only=True):
    agents: list[SeenAgent]
    count: int

class AgentRegisterResult(SeenAgent, frozen=True, kw_only=True):
    registered: bool
    id: str

class ApproveResult(Result, frozen=True, kw_only=True):
    approved: bool
    id: str
    decided_by: str
    executed: bool
    memory_id: str

class ArchiveOutcome(Result, frozen=True, kw_only=True):
    id: str
    outcome: Literal["applied", "rejected"]
    error: str | None = None
    code: str | None = None

class ArchivePage(ResultList[MemoryView], frozen=True, kw_only=True):
    archived: list[MemoryView]
    count: int

class ArchiveResult(ResultList[ArchiveOutcome], frozen=True, kw_only=True):
    archived: list[str]
    missing: list[str]
    count: int
    reason: str
    outcomes: list[ArchiveOutcome]
    invalidation_notified: list[str] | None = None
    """Ids of dependents that were flagged stale, as far as you may see them."""

class ArchiveStats(Result, frozen=True, kw_only=True):
    archived_total: int
    by_namespace: list[NamespaceCount]

class AtomiseResult(MethodInfo, frozen=True, kw_only=True):
    source_id: str
    atom_ids: list[str]
    """In text order."""
    atom_count: int
    archived_at: datetime
    superseded_ids: list[str]
    """Atoms of an earlier split, now archived."""
    kept_ids: list[str]
    """Atoms of an earlier split that were edited since and are kept."""

class AuditExample(Result, frozen=True, kw_only=True):
    """An example of a finding: one text, or all texts of a group."""

    ids: list[str]
    what: str

class AuditFinding(Result, frozen=True, kw_only=True):
    """One kind of quality problem."""

    trouble: str
    weight: float
    """Share of the 100 points lost if every memory has the problem."""
    count: int | None = None
    """Number of memories with the problem; omitted if it cannot be determined."""
    share: float | None = None
    points: float | None = None
    """Points deducted from the score."""
    examples: list[AuditExample]

class AuditProblem(Result, frozen=True, kw_only=True):
    where: str
    what: str

class AuditResult(Result, frozen=True, kw_only=True):
    score: int
    """100 minus the points of every finding, at least 0."""
    total: int
    complete: bool
    """False if there were too many memories to check all of them."""
    findings: list[AuditFinding]
    problems: list[AuditProblem]
    """Parts of the export that could not be read, with their position."""
    rejected: int
    """Number of unreadable parts left out of the score."""

class AutoTagResult(MethodInfo, frozen=True, kw_only=True):
    id: str | None = None
    new_tags: list[str]
    """Suggested tags that the memory does not have, best first."""
    all_tags: list[str]
    applied: bool
    version: int | None = None

class BackupResult(Snapshot, frozen=True, kw_only=True):
    path: str
    pruned: list[str]

class BootPart(Result, frozen=True, kw_only=True):
    name: Literal["standards", "facts", "lessons", "decisions", "recent", "tasks", "stale"]
    given: int
    dropped: int
    """Number of items that did not fit."""
    ids: list[str]
    """Ids of memories or tasks."""
    degraded: str | None = None
    """Why the part is incomplete, if something failed."""

class BootResult(Result, frozen=True, kw_only=True):
    namespace: str
    text: str
    """Fenced as data; empty if nothing was found."""
    manifest: str
    """One line: namespace, parts, tokens, what is missing."""
    parts: list[BootPart]
    tokens_used: int
    budget: int

class Branch(ResultList[Branch], frozen=True, kw_only=True):
    """A namespace with its number of memories, own and including descendants."""

    namespace: str
    name: str
    count: int
    subtree_count: int
    children: list[Branch]

class Budget(Result, frozen=True, kw_only=True):
    """A limit on tokens or cost per period."""

    principal: str
    """`*` is everyone together."""
    model: str
    period: Literal["day", "month"]
    tokens: int | None = None
    cost: str | None = None
    currency: str | None = None

class BudgetStatus(Budget, frozen=True, kw_only=True):
    """A budget and what is left of it in the current period."""

    since: str
    """First day of the period."""
    tokens_left: int | None = None
    cost_left: str | None = None

class Budgets(ResultList[BudgetStatus], frozen=True, kw_only=True):
    budgets: list[BudgetStatus]
    count: int

class BuildContextResult(Result, frozen=True, kw_only=True):
    text: str
    """All parts as one block, fenced as data; empty if nothing was found."""
    parts: list[PartView]
    tokens_used: int
    budget: int
    language: LanguageView
    conversation_id: str | None = None
    """The open conversation, if any."""
    onboarding: OnboardingView | None = None
    """Set if requested and a step is left."""

class BulkStoreResult(Result, frozen=True, kw_only=True):
    created: int
    count: int
    ids: list[str]
    outcomes: list[ItemOutcome]
    errors: list[ItemOutcome]

class BundleExportResult(Result, frozen=True, kw_only=True):
    file: str
    since: int
    next: int
    """Pass this as `since` of the next bundle."""
    changes: int
    states: int
    """Full records whose changes were compacted."""
    bytes: int

class BundleImportResult(Result, frozen=True, kw_only=True):
    node: str
    """The node that wrote the bundle."""
    since: int
    next: int
    """The new cursor in that store's journal."""
    imported: int
    """New or changed memories."""
    deletes: int
    links: int
    conflicts: int
    rejected: int
    errors: list[RejectedChangeView]
    dry_run: bool

class CapabilitiesResult(Result, frozen=True, kw_only=True):
    schema_version: str
    service: str
    version: str
    summary: str
    tier: str
    features: dict[str, bool]
    tools: list[ToolView]
    families: FamilyList

class CaptureResult(Result, frozen=True, kw_only=True):
    memory_id: str | None
    """Null: nothing was stored, because the turn contains only recalled text."""
    dedup_hit: bool
    """The turn was already stored."""
    layer: Literal["L4"]
    outcome: Literal["stored", "updated", "unchanged", "joined", "left", "left_out"]
    """stored: new. updated: other text than before. unchanged: reported before. joined: already imported from a
    transcript. left: archived or edited here, not changed. left_out: only repeats recalled text.
    """
    notes: list[str]

class CertificateResult(Result, frozen=True, kw_only=True):
    """Paths of a certificate and its key."""

    certificate: str
    key: str
    ca: str
    """The CA certificate that signed it; peers verify with it."""
    fingerprint: str

class Change(Result, frozen=True, kw_only=True):
    """One committed change."""

    seq: int
    op: str
    kind: str
    record: str
    actor: str
    at: datetime
    """When this store committed it."""
    origin: str
    number: int
    batch: int
    hash: str
    event: str
    """Event name: memory_store, memory_link_created, ..."""
    version: int | None = None
    memory: dict[str, Any] | None = None
    """The record after the change. Omitted if it was purged, or if the caller could not see it at that time."""

class CitationInput(TypedDict):
    """Source of a claim."""

    uri: Required[str]
    accessed_at: Required[str]
    hash: NotRequired[str | None]
    span: NotRequired[SpanInput | None]

class ClaimResult(ResultList[ClaimView], frozen=True, kw_only=True):
    claimed: list[ClaimView]
    count: int

class ClaimView(Result, frozen=True, kw_only=True):
    token: int
    """Fencing token: heartbeat and finish need it."""
    task: Task

class ClearResult(Result, frozen=True, kw_only=True):
    cleared: bool
    namespace: str

class CompactResult(Result, frozen=True, kw_only=True):
    folded: int
    """Journal entries removed; the final state of each record is kept."""
    records: int
    """Records whose history was compacted to one state."""
    entries: int
    """Remaining entries."""
    bytes_before: int
    bytes_after: int
    """Size of the journal text, in characters."""
    held_back: int
    """Entries old enough to compact that an enrolled peer or a subscription does not have yet."""
    waits_for: str | None = None
    """The peer that is furthest behind, or a subscription."""
    floor: int
    """The compaction point: history up to this change is compacted."""
    since: datetime | None = None
    """When full history begins."""
    dry_run: bool

class ComposedNamespace(Result, frozen=True, kw_only=True):
    """A namespace that a skill composes with, and its maximum reflection depth."""

    namespace: str
    min_depth: int
    max_reflection_depth: int | None = None
    """Missing if the key does not reach the namespace."""
    note: str | None = None
    """Why it has no reflections, or not all."""

class ComposedReflection(Result, frozen=True, kw_only=True):
    id: str
    namespace: str
    title: str
    content: str
    reflection_depth: int
    agent_id: str
    created_at: datetime
    score: float

class ConclusionDraft(MethodInfo, frozen=True, kw_only=True):
    """A draft for `reflect`; not stored."""

    title: str
    content: str

class Conflict(Result, frozen=True, kw_only=True):
    """A concurrent value of a field that lost and that no later edit replaced."""

    id: str
    kind: str
    memory_id: str
    field: str
    found_at: datetime
    namespace: str
    title: str

class ConflictDetails(Conflict, frozen=True, kw_only=True):
    """Two concurrent values of a field: one is shown, the other is kept."""

    shown: ConflictSide
    other: ConflictSide
    mine: Literal["shown", "other"] | None = None
    """The value that this store wrote, if it wrote exactly one."""

class ConflictPage(ResultList[ConflictDetails], frozen=True, kw_only=True):
    conflicts: list[ConflictDetails]
    count: int
    total: int

class ConflictResolveResult(Result, frozen=True, kw_only=True):
    id: str
    memory_id: str
    field: str
    kept: str
    other_id: str | None = None
    """The memory that now holds the other value, if both were kept."""

class ConflictSide(Result, frozen=True, kw_only=True):
    """One value of a conflict and its author."""

    memory_id: str
    value: Any
    actor: str | None = None
    origin: str
    at: datetime

class ConsolidateResult(Result, frozen=True, kw_only=True):
    id: str
    consolidated: int
    memory: MemoryView
    invalidation_notified: list[str] | None = None
    """Ids of dependents that were flagged stale, as far as you may see them."""
    method: Literal["heuristic", "llm"] | None = None
    """How the summary was made, if none was given."""
    model: str | None = None
    reason: str | None = None
    """Why the configured model was not used."""

class ContextBlock(Result, frozen=True, kw_only=True):
    recall_id: str | None = None
    """Pass it to `feedback` to rate the cited memories."""
    text: str
    """Empty if nothing was found or fits; `reason` says why."""
    tokens_used: int
    budget: int
    cited: list[str]
    """Ids of the shown memories, in order."""
    cut: list[str]
    """Ids of memories of which only passages are shown."""
    dropped: int
    """Number of hits, of at most 50, that did not fit."""
    more: int | None = None
    """Number of other memories with a word of the query. Not set if there are thousands, if the query names a time, or
    for queries about the past.
    """
    mode: str
    as_of: datetime | None = None
    known_at: datetime | None = None
    reason: str | None = None
    degraded: str | None = None

class ContradictionEvidence(Result, frozen=True, kw_only=True):
    """Two contradicting sentences, and how they differ."""

    kind: Literal["negation", "opposite", "number", "date", "model"]
    a: str
    """The contradicting sentence of the first memory."""
    b: str
    difference: str

class ContradictionResult(MethodInfo, frozen=True, kw_only=True):
    contradicts: bool
    memory_a: MemoryTitle
    memory_b: MemoryTitle
    evidence: list[ContradictionEvidence]
    relation: str
    """Relation of the whole texts: same, near, update, conflict or other."""
    similarity: float

class Conversation(Result, frozen=True, kw_only=True):
    """Turns of one person on a channel, with a summary of the earlier ones."""

    id: str
    channel: str
    principal: str
    agent_id: str
    namespace: str
    state: Literal["active", "closing", "closed"]
    started_at: datetime
    last_at: datetime
    closed_at: datetime | None = None
    turns: int
    """Number of turns; they are numbered from 1."""
    covered: int
    """Number of the last turn that the summary covers."""
    summary_id: str | None = None
    """Id of the summary memory."""
    pruned: bool
    """Whether its turns are archived."""

class ConversationConsolidateResult(Result, frozen=True, kw_only=True):
    """What was done, or the gate that prevented the run."""

    gate: Literal["lease", "time", "conversations"] | None = None
    """Why nothing was done: another process runs it, it is too early, or too little is new."""
    closed: int
    pruned: int
    outcomes_archived: int
    outcomes_dropped: int
    interactions_erased: int
    ran: bool

class ConversationDetail(ResultList[TurnView], frozen=True, kw_only=True):
    conversation: SummarizedConversation
    turns: list[TurnView]
    count: int

class ConversationSayResult(Result, frozen=True, kw_only=True):
    conversation_id: str
    began: bool
    """Whether a new conversation was started."""
    turns: list[TurnView]

class Conversations(ResultList[SummarizedConversation], frozen=True, kw_only=True):
    conversations: list[SummarizedConversation]
    count: int

class CurateAction(Result, frozen=True, kw_only=True):
    """One change or proposal."""

    step: Literal["duplicates", "contradictions", "tags", "priorities", "personas"]
    outcome: Literal["changed", "proposed"]
    ids: list[str]
    what: str

class CurateDecideResult(ResultList[Decision], frozen=True, kw_only=True):
    outcomes: list[Decision]

class CurateResult(Result, frozen=True, kw_only=True):
    run_id: str | None
    """Id for `curate rollback`; null for a dry run."""
    dry_run: bool
    scanned: int
    ended: str
    """Why it ended: all was looked at, max_ops or max_seconds. The next run continues from there."""
    changed: int
    proposed: int
    steps: dict[str, StepCounts]
    done: list[CurateAction]

class CurateRollbackResult(Result, frozen=True, kw_only=True):
    run_id: str
    outcomes: list[StepRollback]
    """Last step first."""
    withdrawn: int
    """Number of open proposals withdrawn."""

class CurationProposal(Result, frozen=True, kw_only=True):
    """A proposed change and the decision about it."""

    id: str
    run_id: str
    kind: str
    """tags, contradiction, update (the memory supersedes the other), or duplicate (both are merged)."""
    memory_id: str
    other_id: str | None = None
    details: dict[str, Any]
    """The tags or the contradicting sentences, and the method."""
    offered_at: datetime
    status: Literal["open", "accepted", "dismissed", "withdrawn"]
    decided_by: str | None = None

class CurationRun(Result, frozen=True, kw_only=True):
    run_id: str
    agent_id: str
    began_at: datetime
    ended_at: datetime | None = None
    status: str
    """running, done, stopped, failed, broken off, taken back, or partly taken back."""
    steps: dict[str, dict[str, int]]

class CurationRunList(ResultList[CurationRun], frozen=True, kw_only=True):
    runs: list[CurationRun]
    count: int

class Decision(Result, frozen=True, kw_only=True):
    """The result for one proposal."""

    id: str
    outcome: Literal["applied", "rejected"]
    memory_id: str | None = None
    """The memory that was created or changed."""
    error: str | None = None
    code: str | None = None

class DeleteResult(Result, frozen=True, kw_only=True):
    deleted: bool
    id: str
    version: int
    invalidation_notified: list[str] | None = None
    """Ids of its dependents that were flagged stale, as far as you may see them."""

class Delivery(Result, frozen=True, kw_only=True):
    """Delivery state of one event for one subscription."""

    subscription_id: str
    seq: int
    event: str
    record: str
    state: Literal["waiting", "delivered", "dead"]
    attempts: int
    status: int | None = None
    """Last HTTP status of the receiver."""
    error: str | None = None
    at: datetime

class DeliveryPage(ResultList[Delivery], frozen=True, kw_only=True):
    deliveries: list[Delivery]
    count: int

class DependentView(Result, frozen=True, kw_only=True):
    id: str
    title: str
    namespace: str
    memory_kind: str
    hop: int
    stale: bool
    """Whether it has a pending notice, for any reason."""

class DependentsResult(ResultList[DependentView], frozen=True, kw_only=True):
    id: str
    dependents: list[DependentView]
    count: int
    total: int
    """Count including those beyond the limit."""

class DirectDependent(Result, frozen=True, kw_only=True):
    id: str
    namespace: str

class DirectDependents(ResultList[DirectDependent], frozen=True, kw_only=True):
    memory_id: str
    count: int
    dependents: list[DirectDependent]

class DismissResult(Result, frozen=True, kw_only=True):
    dismissed: bool
    offer_id: str
    namespace: str

class DoctorReport(ResultList[HealthSection], frozen=True, kw_only=True):
    sections: list[HealthSection]
    status: Literal["ok", "warn", "critical"]
    """The worst severity of all sections."""

class DroppedGroup(Result, frozen=True, kw_only=True):
    reason: Literal["superseded", "stale", "expired", "ended", "not_yet", "budget", "rank"]
    count: int
    ids: list[str]

class DuplicateCheck(Result, frozen=True, kw_only=True):
    is_duplicate: bool
    threshold: float
    nearest: Neighbour | None
    suggested_merge: str | None
    """The memory to update instead of storing a new one."""
    candidates_scanned: int

class EmbeddingCount(Result, frozen=True, kw_only=True):
    model: str
    dim: int
    memories: int
    count: int
    stale: int

class EmbeddingInput(TypedDict):
    """An embedding computed by the caller."""

    model: Required[str]
    vector: Required[list[float]]

class EntityRegisterResult(Result, frozen=True, kw_only=True):
    entity_id: str
    canonical_name: str
    namespace: str
    aliases: list[str]
    created: bool

class EntityResult(Result, frozen=True, kw_only=True):
    found: bool
    entity_id: str | None = None
    canonical_name: str | None = None
    namespace: str | None = None
    aliases: list[str] | None = None
    also: list[str] | None = None
    """Ids of other entities with that name."""

class ErasureResult(Result, frozen=True, kw_only=True):
    """Record of an erasure, without any of the erased data."""

    ids: list[str]
    """A digest of each name; the names themselves are erased."""
    at: datetime
    agent_id: str
    counts: dict[str, int]
    """Number of erased records by kind."""

class EventPage(ResultList[Change], frozen=True, kw_only=True):
    events: list[Change]
    count: int
    next: int

class ExpandQueryResult(MethodInfo, frozen=True, kw_only=True):
    original: str
    expanded_terms: list[str]

class ExportFileResult(Result, frozen=True, kw_only=True):
    file: str
    bytes: int
    arrays: dict[str, int]
    """Number of rows per array."""

class ExportReflectionsResult(Result, frozen=True, kw_only=True):
    out_dir: str
    count: int
    written: list[str]
    unchanged: list[str]
    removed: list[str]
    """Files of reflections that are no longer live."""
    left: list[str]
    """Files that this store did not write: unchanged."""

class ExportedFile(Result, frozen=True, kw_only=True):
    path: str
    size: int
    digest: str
    content: str | None = None
    encoding: Literal["utf-8", "base64"] | None = None

class FactHistory(ResultList[PastValue], frozen=True, kw_only=True):
    key: str
    past: list[PastValue]
    """Oldest first."""
    count: int

class FactSetResult(Result, frozen=True, kw_only=True):
    fact: FactView
    created: bool
    contradicts: str | None = None
    """The previous value, if it differs."""

class FactView(Result, frozen=True, kw_only=True):
    key: str
    value: str
    principal: str
    confidence: float
    updated_at: datetime
    memory_id: str
    agent_id: str
    learned_from: str | None = None
    contradicted: list[str] | None = None
    """Earlier values, oldest first."""

class Facts(ResultList[FactView], frozen=True, kw_only=True):
    facts: list[FactView]
    count: int

class FamilyList(Result, frozen=True, kw_only=True):
    families: list[FamilyView]
    always_on: list[str]

class FamilyView(Result, frozen=True, kw_only=True):
    name: str
    tool_count: int
    loaded: bool
    tools: list[str]

class FeedbackResult(ResultList[HitRating], frozen=True, kw_only=True):
    recall_id: str
    judged: list[HitRating]
    count: int

class File(Result, frozen=True, kw_only=True):
    """One file of a skill: its path in the folder and the hash of its content."""

    path: str
    kind: Literal["manifest", "script", "reference", "asset"]
    size: int
    digest: str

class FileFault(Result, frozen=True, kw_only=True):
    file: str
    error: str
    code: str

class FindPathsResult(Result, frozen=True, kw_only=True):
    source_id: str
    target_id: str
    paths: list[tuple[str, ...]]
    count: int
    truncated: bool
    """Whether the search hit a limit: there may be more."""

class Finding(Result, frozen=True, kw_only=True):
    seq: int
    what: str

class FinishResult(Result, frozen=True, kw_only=True):
    task: Task
    run: TaskRun

class ForgetResult(Result, frozen=True, kw_only=True):
    deleted: int
    archived: int
    dry_run: bool
    ids: list[str]
    kept: list[str]
    """Matching memories of other agents: skipped."""
    would_delete: int | None = None
    invalidation_notified: list[str] | None = None
    """Ids of dependents that were flagged stale, as far as you may see them."""

class GcResult(Result, frozen=True, kw_only=True):
    collected: int
    expired_deleted: int
    usage_dropped: int
    """Model usage records past their retention."""
    task_runs_dropped: int
    runs_dropped: int
    dry_run: bool
    invalidation_notified: list[str] | None = None
    """Ids of dependents that were flagged stale, as far as you may see them."""

class GetResult(MemoryView, frozen=True, kw_only=True):
    links: list[LinkView]
    also: list[str] | None = None
    """Ids of memories with the same title from other stores, shown as this one; get accepts them, too."""
    stale: StaleView | None = None
    """Set if a source changed or was deleted and its notice is not resolved."""
    restated: int | None = None
    """How often a duplicate of it was stored."""
    secrets: list[str] | None = None
    """Kinds of secrets it contains, unless its namespace allows them."""

class GetStandardResult(Result, frozen=True, kw_only=True):
    """One standard, or with `inherit` all that apply."""

    namespace: str
    standard_id: str | None = None
    title: str | None = None
    content: str | None = None
    priority: int | None = None
    parent: str | None = None
    chain: list[str] | None = None
    standards: list[StandardView] | None = None
    count: int | None = None

class GrantAnswer(Result, frozen=True, kw_only=True):
    id: str
    agent_id: str
    permission: str
    granted: bool
    revoked: bool

class GraphResult(Result, frozen=True, kw_only=True):
    format: str
    count: int
    """Number of memories."""
    link_count: int
    truncated: bool
    """Whether memories or links were left out; a diagram notes it, too."""
    nodes: list[NodeView] | None = None
    """Nearest first; unset for a diagram."""
    links: list[LinkView] | None = None
    text: str | None = None
    """The diagram."""

class HealthSection(Result, frozen=True, kw_only=True):
    name: str
    facts: dict[str, Any]
    findings: list[Problem]
    severity: Literal["ok", "warn", "critical"]

class HeartbeatResult(Result, frozen=True, kw_only=True):
    id: str
    stop: bool
    """Whether the task was cancelled: stop, and finish it with an error."""

class HelperOutput(Result, frozen=True, kw_only=True):
    """Result of a helper: its name, a one-line summary, and details as JSON."""

    kind: str
    summary: str
    payload: dict[str, Any]

class HistoryPage(ResultList[Change], frozen=True, kw_only=True):
    changes: list[Change]
    count: int
    folded_before: datetime | None = None
    """Changes before this time were compacted; only their final state is kept."""

class HitRating(Result, frozen=True, kw_only=True):
    id: str
    verdict: Literal["used", "ignored", "wrong"]
    outcome: Literal["applied", "noop"]
    utility: float
    """From -1 to 1, over all verdicts on this memory."""

class HookList(ResultList[LifecycleHook], frozen=True, kw_only=True):
    hooks: list[LifecycleHook]
    count: int

class HookRun(Result, frozen=True, kw_only=True):
    """The outcome of one hook call."""

    decision: Literal["allow", "modify", "ask", "deny"]
    reason: str | None
    arguments: dict[str, Any] | None = None
    error: str | None = None
    """The failure, if on_error decided."""
    milliseconds: int
    name: str

class HooksTestResult(Result, frozen=True, kw_only=True):
    event: Literal[
        "pre_store",
        "post_store",
        "pre_recall",
        "post_recall",
        "pre_delete",
        "post_delete",
        "pre_link",
        "post_link",
        "pre_reflect",
        "post_reflect",
    ]
    decision: Literal["allow", "modify", "ask", "deny"]
    """The strictest decision, which would apply to the operation."""
    hooks: list[HookRun]
    passed_over: list[str]
    """Hooks of the event that match other namespaces only."""
    arguments: dict[str, Any]
    """The arguments after all hooks."""

class ImportCounts(Result, frozen=True, kw_only=True):
    imported: int
    merged: int
    unchanged: int
    older: int
    """Skipped: a later state exists here."""

class ImportReflectionsResult(Result, frozen=True, kw_only=True):
    files: int
    imported: int
    merged: int
    unchanged: int
    older: int
    links: int
    """Links created or changed."""
    missing_sources: list[str]
    """Sources missing from this store; importing again once they exist links them."""
    rejected: int
    errors: list[FileFault]
    dry_run: bool

class ImportResult(ImportCounts, frozen=True, kw_only=True):
    """Counts of memories, and of each array by name."""

    rejected: int
    errors: list[RowError]
    restamped: int
    """Memories whose owner became the importer."""
    trusted_source: bool
    kept: list[str]
    """Unknown fields: stored, and written again by an export."""
    arrays: dict[str, ImportCounts]
    dry_run: bool

class InboxPage(ResultList[Notice], frozen=True, kw_only=True):
    agent_id: str
    messages: list[Notice]
    count: int
    unread_only: bool

class InboxReadResult(Result, frozen=True, kw_only=True):
    read: list[str]
    """Ids that were unread."""
    missing: list[str]
    """Ids that are not messages of yours."""
    count: int

class IngestMultistepResult(Result, frozen=True, kw_only=True):
    variant: str
    stages: list[StageOutcome]
    distinct_cache_keys: int
    """Number of document parts a model was asked about. Prompts about one part share a prefix."""
    prompt_cache_consistent: bool
    final_output: dict[str, Any]
    """Payload of the last model stage, else of the last helper."""
    ingested_memory_ids: list[str]
    decisions: dict[str, int]

class IngestResult(Result, frozen=True, kw_only=True):
    source_uri: str
    namespace: str
    content_hash: str
    pipeline: str
    pipeline_version: str
    outcome: Literal["ingested", "unchanged", "planned"]
    """`unchanged`: the same document was ingested before; nothing was stored."""
    dry_run: bool
    document_id: str | None = None
    """The memory that represents the whole document."""
    total: int
    decisions: dict[str, int]
    rejected: int
    segments: list[SegmentOutcome]
    vanished: list[MissingSegment]
    """Memories from an earlier version of this source whose text it no longer contains. They are kept."""
    gone: list[MissingSegment]
    """Memories from this document that were deleted or archived since."""
    stages: list[StageOutcome]
    ingested_memory_ids: list[str]
    notes: list[str]

class Interaction(Result, frozen=True, kw_only=True):
    """One decision. Immutable, except that its text can be erased.

    Fields that were not given, or that the namespace policy omits, are missing in answers.
    """

    id: str
    namespace: str
    agent_id: str
    principal: str | None
    """The person who asked."""
    name: str | None
    """Their display name."""
    channel: str | None
    action: str | None
    """Requested action, such as a tool."""
    status: Literal["ok", "error", "denied"]
    reason: str | None
    """Reason of the denial or error."""
    provider: str | None
    model: str | None
    conversation_id: str | None
    at: datetime
    texts: Literal["keep", "hash", "omit"]
    """How the text is stored."""
    input: str | None
    output: str | None
    input_digest: str | None
    """SHA-256 of the id, a zero byte and the text: proves the text to whoever has it."""
    output_digest: str | None
    took_ms: int | None = None
    """Duration in milliseconds."""
    erased: Literal[True] | None = None
    """Whether text and person were erased."""

class InteractionEraseResult(Result, frozen=True, kw_only=True):
    erased: int

class InteractionRecordResult(Interaction, frozen=True, kw_only=True):
    recorded: bool
    """False: it was already recorded under the same key."""

class Interactions(ResultList[Interaction], frozen=True, kw_only=True):
    interactions: list[Interaction]
    count: int
    totals: dict[str, int]
    """Total number by decision."""

class InvalidateResult(Result, frozen=True, kw_only=True):
    found: bool
    source_id: str
    target_id: str
    relation: str
    valid_until: datetime | None
    previous_valid_until: datetime | None = None
    invalidation_notified: list[str] | None = None
    """Ids of dependents that were flagged stale, as far as you may see them."""

class InvalidationOutcome(Result, frozen=True, kw_only=True):
    id: str
    outcome: Literal["applied", "unchanged", "rejected"]
    error: str | None = None
    code: str | None = None
    reflect_with: list[str] | None = None
    """Current sources of the dependent: invalidated ones replaced, or omitted if there is no replacement."""

class InvalidationOutcomes(ResultList[InvalidationOutcome], frozen=True, kw_only=True):
    status: str
    count: int
    outcomes: list[InvalidationOutcome]

class InvalidationPage(ResultList[InvalidationView], frozen=True, kw_only=True):
    invalidations: list[InvalidationView]
    count: int
    total: int
    """Count over all pages."""

class InvalidationView(Result, frozen=True, kw_only=True):
    """A stale memory and the source that was invalidated."""

    id: str
    dependent_id: str
    title: str
    namespace: str
    agent_id: str
    """Owner of the stale memory."""
    hop: int
    """Distance from the source: 1 is a direct dependent."""
    cause: str
    status: str
    created_at: datetime
    updated_at: datetime
    version: int
    invalidated_id: str | None = None
    """The source, if you may see it."""
    invalidating_id: str | None = None
    """Its replacement, if there is one that you may see."""
    reason: str | None = None
    resolver: str | None = None

class ItemOutcome(Result, frozen=True, kw_only=True):
    index: int
    outcome: Literal["created", "merged", "unchanged", "restated", "recalled", "rejected"]
    id: str | None = None
    error: str | None = None
    code: str | None = None
    similar: list[SimilarView] | None = None
    secrets: list[str] | None = None
    redacted: list[str] | None = None

class KernexImportResult(Result, frozen=True, kw_only=True):
    namespace: str
    tables: list[TableResult]
    stored: int
    rejected: int
    noted: int
    problems: list[Problem]
    dry_run: bool

class Key(Result, frozen=True, kw_only=True):
    """A key without its secret, of which only a hash is stored."""

    id: str
    name: str
    scope: Literal["read", "write", "admin"]
    namespaces: list[str]
    agent_id: str
    created_at: datetime
    revoked_at: datetime | None = None

class KeyCreateResult(Key, frozen=True, kw_only=True):
    key: str
    """The secret, shown only once."""

class KeyPage(ResultList[Key], frozen=True, kw_only=True):
    keys: list[Key]
    count: int

class KgQueryResult(ResultList[ReachedMemory], frozen=True, kw_only=True):
    source_id: str
    max_depth: int
    memories: list[ReachedMemory]
    paths: list[str]
    count: int
    truncated: bool
    """There are more than the limit."""

class LanguageView(Result, frozen=True, kw_only=True):
    """The language to answer in."""

    name: str
    """A code such as de, or the stated preference."""
    by: Literal["preference", "message", "conversation", "default"]
    """A stated preference, the language of the message or of the conversation, or the default."""

class LessonAddResult(Result, frozen=True, kw_only=True):
    lesson: LessonView
    created: bool
    """False: an existing lesson states the same rule and gained evidence."""
    archived: list[str]
    """Ids of weaker lessons of the domain that were archived; `archive restore` brings them back."""

class LessonProposal(Result, frozen=True, kw_only=True):
    """A lesson proposed because several outcomes say the same."""

    domain: str
    score: Literal[-1, 0, 1]
    what: str
    outcomes: list[str]

class LessonView(Result, frozen=True, kw_only=True):
    id: str
    """A memory id: lessons can be recalled, linked and deleted like any memory."""
    domain: str
    rule: str
    namespace: str
    principal: str
    confidence: float
    """(positive + 1) / (positive + negative + 2)."""
    positive: int
    negative: int
    occurrences: int
    updated_at: datetime
    also_said: list[str] | None = None

class Lessons(ResultList[LessonView], frozen=True, kw_only=True):
    lessons: list[LessonView]
    count: int

class LifecycleHook(Rule, frozen=True, kw_only=True):
    operations: list[str]
    """Operations that the hook runs for."""

class LimitationAddResult(Result, frozen=True, kw_only=True):
    limitation: LimitationView
    created: bool
    """False: an existing limitation gained evidence and was reopened if resolved."""

class LimitationView(Result, frozen=True, kw_only=True):
    id: str
    title: str
    description: str
    status: Literal["open", "resolved"]
    namespace: str
    created_at: datetime
    seen: int
    """Number of times it occurred."""
    plan: str | None = None
    how: str | None = None
    resolved_at: datetime | None = None

class Limitations(ResultList[LimitationView], frozen=True, kw_only=True):
    limitations: list[LimitationView]
    count: int

class LineageNode(Result, frozen=True, kw_only=True):
    id: str
    title: str | None = None
    """Unset if the memory was deleted."""
    cid: str
    """A hash of its title and content: the same text, the same `cid`."""
    relation: str
    depth: int
    state: str

class LineageResult(ResultList[LineageNode], frozen=True, kw_only=True):
    id: str
    direction: str
    nodes: list[LineageNode]
    count: int
    truncated: bool

class LinkPage(ResultList[LinkView], frozen=True, kw_only=True):
    links: list[LinkView]
    count: int

class LinkResult(LinkView, frozen=True, kw_only=True):
    linked: bool
    outcome: Literal["created", "revalidated", "unchanged"]
    invalidation_notified: list[str]
    """Ids of the target's dependents that were flagged stale, as far as you may see them."""

class LinkView(Result, frozen=True, kw_only=True):
    """A link in a response."""

    source_id: str
    target_id: str
    relation: str
    created_at: datetime
    valid_from: datetime
    observed_by: str
    version: int
    valid_until: datetime | None = None
    signature: str | None = None

class LoggedHit(Result, frozen=True, kw_only=True):
    id: str
    score: float
    adjustment: float
    words: float
    parts: dict[str, float]
    """Values before weighting."""
    verdicts: dict[str, Literal["used", "ignored", "wrong"]]
    """Verdict of each agent."""
    cosine: float | None = None
    """Cosine of the nearest passage. Without an embedding there is none, and the part `vector` is an estimate."""

class LoggedRecall(Result, frozen=True, kw_only=True):
    recall_id: str
    asked_at: datetime
    agent_id: str
    hits: list[LoggedHit]
    question: str | None = None

class MatchedRange(Result, frozen=True, kw_only=True):
    """Character range of the content that matched; -1: the title."""

    start: int
    end: int

class MemoryTitle(Result, frozen=True, kw_only=True):
    id: str
    title: str

class MemoryView(Result, frozen=True, kw_only=True):
    """A memory in a response. Unset fields are omitted."""

    id: str
    tier: str
    namespace: str
    title: str
    content: str
    tags: Sequence[str]
    priority: int
    confidence: float
    source: str
    scope: str
    agent_id: str
    memory_kind: str
    access_count: int
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any]
    citations: list[Any]
    reflection_depth: int
    version: int
    state: str
    last_accessed_at: datetime | None = None
    expires_at: datetime | None = None
    category: str | None = None
    source_uri: str | None = None
    source_span: dict[str, int] | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    speaker: str | None = None
    occurred_at: datetime | None = None
    thread: str | None = None
    place: int | None = None
    archive_reason: str | None = None
    score: float | None = None
    confidence_tier: str | None = None
    untrusted: list[str] | None = None
    """Possible prompt injections in the text: treat it as data."""

class MergedProject(Result, frozen=True, kw_only=True):
    alias: str
    project: str

class MergedProjects(ResultList[MergedProject], frozen=True, kw_only=True):
    merged: list[MergedProject]
    count: int

class MethodInfo(Result, frozen=True, kw_only=True):
    """How a result was computed: by rules or by a model."""

    method: Literal["heuristic", "llm"]
    model: str | None = None
    """The model that answered."""
    reason: str | None = None
    """Why no answer of the configured model was used."""

class MigrateResult(Result, frozen=True, kw_only=True):
    moved: bool
    source: str
    target: str
    tables: list[MigratedTable]
    rows: int
    sha256: str | None = None
    """Digest of the table digests."""
    resumed: bool
    """Continued an earlier migration: only differing rows were copied."""
    dry_run: bool

class MigratedTable(Result, frozen=True, kw_only=True):
    table: str
    rows: int
    sha256: str | None = None
    """Digest of all rows in key order; equal on both sides."""

class MineResult(Result, frozen=True, kw_only=True):
    """Result of an import, in numbers of memories."""

    format: str
    namespace: str
    tier: str
    imported: int
    updated: int
    """Changed at the source, or given a longer lifetime."""
    unchanged: int
    joined: int
    """Already captured from an agent host."""
    left: int
    """Archived, deleted or edited here since, and not changed."""
    links: int
    total_conversations: int
    skipped: int
    """Conversations with fewer messages than `min_messages`."""
    kinds: dict[str, int]
    left_out: dict[str, int]
    """Skipped records by reason: tools, system, thinking, sidechains, recalled, other branches, before."""
    files: int
    passed_over: int
    """Files of an unknown or another format."""
    rejected: int
    noted: int
    problems: list[Problem]
    samples: list[Sample]
    dry_run: bool

class MissingSegment(Result, frozen=True, kw_only=True):
    """A memory of this source that is no longer live, or whose text is no longer in the document."""

    memory_id: str
    index: int
    title: str | None = None

class ModelReport(Result, frozen=True, kw_only=True):
    """The outcome of a test call."""

    provider: str
    model: str
    """The configured model."""
    answered_by: str | None = None
    """The model named in the response."""
    host: str | None = None
    reachable: bool
    """Whether its host responded, even with an error; see `status`."""
    json: bool
    """Whether its answer matched the schema."""
    latency_ms: int
    problem: str | None = None
    daily_tokens: int
    left_today: int
    status: Literal["ok", "critical"]

class ModelUsage(Result, frozen=True, kw_only=True):
    """Calls of the store's own model, of a task and a day."""

    day: str
    task: str
    model: str
    calls: int
    answered: int
    """Calls with a valid answer."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Input tokens read from the provider's cache."""
    spent_tokens: int
    """Tokens counted against the daily budget; for an aborted call, the maximum it can have used."""
    cost: str
    """Exact cost in your currency, by the configured prices."""

class Names(ResultList[Principal], frozen=True, kw_only=True):
    names: list[Principal]
    count: int

class NamespaceCount(Result, frozen=True, kw_only=True):
    namespace: str
    count: int

class NamespacesResult(ResultList[NamespaceCount], frozen=True, kw_only=True):
    namespaces: list[NamespaceCount]

class Neighbour(Result, frozen=True, kw_only=True):
    id: str
    title: str
    namespace: str
    similarity: float

class NodeView(Result, frozen=True, kw_only=True):
    id: str
    title: str
    namespace: str
    kind: str

class Notice(Result, frozen=True, kw_only=True):
    """A message between agents. It belongs to one store and is not a memory."""

    id: str
    sender: str
    to: str
    title: str
    payload: str
    priority: int
    metadata: dict[str, Any]
    created_at: datetime
    read: bool

class NotifyResult(Result, frozen=True, kw_only=True):
    id: str
    to: str
    title: str
    delivered_at: datetime
    sender: str

class ObservationRef(Result, frozen=True, kw_only=True):
    id: str
    title: str

class ObservationView(Result, frozen=True, kw_only=True):
    id: str
    """A memory id: observations can be recalled, linked, deleted and restored like any memory."""
    type: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
    title: str
    namespace: str
    agent_id: str
    created_at: datetime
    updated_at: datetime
    what: str | None = None
    why: str | None = None
    where: str | None = None
    learned: str | None = None

class Observations(ResultList[ObservationView], frozen=True, kw_only=True):
    observations: list[ObservationView]
    count: int

class OnboardingTellResult(Result, frozen=True, kw_only=True):
    step: Literal["introduce", "help", "personality", "tasks", "projects"]
    principal: str
    told: bool
    """False if it was already done."""

class OnboardingView(Result, frozen=True, kw_only=True):
    """The next onboarding step. Mark it done with `onboarding_tell`."""

    step: Literal["introduce", "help", "personality", "tasks", "projects"]
    hint: str

class Outcome(Result, frozen=True, kw_only=True):
    """What came of something that was done."""

    id: str
    at: datetime
    principal: str
    agent_id: str
    namespace: str
    domain: str
    score: Literal[-1, 0, 1]
    what: str
    source: str
    lesson_id: str | None = None

class OutcomeRecordResult(Result, frozen=True, kw_only=True):
    id: str
    lesson: LessonView | None = None
    """The lesson this outcome counted for, after the change."""
    proposes: LessonProposal | None = None
    """A lesson proposed by repeated outcomes; pass them to `learn lesson add` to accept it."""

class Outcomes(ResultList[Outcome], frozen=True, kw_only=True):
    outcomes: list[Outcome]
    count: int

class Page(ResultList[MemoryView], frozen=True, kw_only=True):
    memories: list[MemoryView]
    count: int

class Part(Result, frozen=True, kw_only=True):
    """One part of a score: its value, its weight, and their product."""

    value: float
    weight: float
    adds: float

class PartItem(Result, frozen=True, kw_only=True):
    text: str
    id: str
    """Id of a memory or task, or of the conversation for turns without a summary."""
    at: datetime | None = None
    untrusted: bool | None = None
    """True if it looks like a prompt injection."""

class PartView(Result, frozen=True, kw_only=True):
    name: Literal["history", "summary", "facts", "recalled", "lessons", "tasks", "invalidations"]
    items: list[PartItem]
    tokens: int
    dropped: int
    """Number of items that did not fit."""
    degraded: str | None = None
    """Why the part is incomplete, if something failed."""

class PastValue(Result, frozen=True, kw_only=True):
    """A value of a fact and when it was set."""

    value: str | None
    """Null if the fact was deleted."""
    at: datetime
    agent_id: str
    confidence: float | None = None

class Peer(Result, frozen=True, kw_only=True):
    """An enrolled store: identity, address, and the namespaces it may read and write."""

    name: str
    node: str
    url: str | None = None
    tell: list[str]
    """Patterns of the namespaces it may read."""
    take: list[str]
    """Patterns of the namespaces it may write."""
    admin: bool
    """Whether policies, grants, standards and erasure requests are accepted from it."""
    fingerprint: str | None = None
    """SHA-256 of its pinned server certificate."""
    enrolled_at: datetime
    public_key: str

class PeerFeed(Result, frozen=True, kw_only=True):
    protocol: int
    origin: str
    seq: int
    authors: dict[str, str]
    changes: list[Any]
    upto: int
    more: bool
    files: dict[str, bytes]
    states: list[Any]
    """Full records whose changes are compacted here."""
    bases: dict[str, Any]
    """Per origin, the number up to which the feed contains all changes so far."""

class PeerHello(Result, frozen=True, kw_only=True):
    protocol: int
    release: str
    kinds: list[str]
    greeting: Any
    followed: int
    """The cursor here in the journal of the sender."""
    doubted: list[str]
    """Forked origins: their changes here differ from those of the sender."""

class PeerPage(ResultList[Peer], frozen=True, kw_only=True):
    peers: list[Peer]
    count: int

class PeerStatus(Result, frozen=True, kw_only=True):
    """Replication state of one peer, as far as known."""

    peer: str
    """Its name as a peer, else its address, else its node."""
    state: Literal["ok", "failing", "unheard"]
    url: str | None = None
    node: str | None = None
    release: str | None = None
    unknown_there: list[str] | None = None
    """Record kinds here that its release does not know; it quarantines them until it is upgraded."""
    behind_here: int | None = None
    """Changes on the peer not yet pulled, as of the last contact."""
    behind_there: int | None = None
    """Changes here that the peer has not pulled, as of the last contact."""
    last_heard: datetime | None = None
    last_success: datetime | None = None
    last_failure: datetime | None = None
    last_error: str | None = None
    """Why the last exchange failed; absent after a success."""
    failures: int
    """Consecutive failures."""
    pulled: int
    pushed: int
    conflicts: int
    """All conflicts met in exchanges with it, resolved ones included. Open conflicts are counted for the whole store
    only.
    """
    quarantined: int
    clock_ahead_secs: float | None = None
    """How far its clock is ahead of the local one, if more than two minutes."""

class PeerTakeResult(Result, frozen=True, kw_only=True):
    protocol: int
    followed: int
    outcomes: list[str]
    """The outcome of each change, in order: new, updated, noop, conflict, known or rejected."""
    others: list[Any]
    """Rejected changes with their reasons, and earlier changes that waited for this page."""
    entered: tuple[int, int] | None
    """The first and last journal entry written here for the page, if any."""
    conflicts: list[str] | None
    """New conflicts."""
    settled: list[str]
    """Conflicts that are resolved now."""
    deleted: list[str] | None
    """Memories deleted by the page, or that arrived deleted."""
    restored: list[str]
    """Memories that were deleted and are live again."""

class PeerToken(Result, frozen=True, kw_only=True):
    node: str
    token: str
    """One line of text; the other store enrols this one with it. Contains no secret."""
    public_key: str

class PendingAction(Result, frozen=True, kw_only=True):
    id: str
    action_type: str
    namespace: str
    payload: dict[str, Any]
    """The request; sources that the caller may not see are only counted."""
    requested_by: str
    requested_at: datetime
    status: str
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str | None = None

class PendingPage(ResultList[PendingAction], frozen=True, kw_only=True):
    count: int
    pending: list[PendingAction]

class PersonaGenerateResult(MethodInfo, frozen=True, kw_only=True):
    persona: PersonaView
    regenerated: bool
    """False if no source changed."""
    namespace_scope: str | None

class PersonaResult(Result, frozen=True, kw_only=True):
    persona: PersonaView | None

class PersonaView(MethodInfo, frozen=True, kw_only=True):
    id: str
    entity_id: str
    namespace: str
    title: str
    content: str
    version: int
    source_ids: list[str]
    created_at: datetime
    stale: StaleView | None = None
    """Set if a source changed or was deleted: generate the persona again."""
    untrusted: list[str] | None = None
    """Signs of prompt injection in the text."""

class Phase(Result, frozen=True, kw_only=True):
    name: str
    state: Literal["pending", "in_progress", "completed", "failed"]
    attempt: int
    output: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    updated_at: datetime

class PipelineList(ResultList[PipelineView], frozen=True, kw_only=True):
    pipelines: list[PipelineView]
    count: int

class PipelineView(Result, frozen=True, kw_only=True):
    name: str
    version: str
    """Digest of the definition. A document is ingested once per version."""
    description: str
    asks_model: bool
    stages: list[str]
    definition: dict[str, Any]
    """The definition, as in a pipeline file."""

class PolicyView(Result, frozen=True, kw_only=True):
    namespace: str
    own: dict[str, Any]
    """Rules set here."""
    rules: Rules
    """Effective rules, inherited ones included."""
    decided_in: dict[str, str]
    """The namespace that sets each rule."""

class Price(Result, frozen=True, kw_only=True):
    """Price of a model from a day on, for each kind of tokens. None: no price."""

    model: str
    """A name, or a prefix followed by *."""
    currency: str
    input: str | None = None
    output: str | None = None
    cache_read: str | None = None
    cache_write: str | None = None
    since: str

class Prices(ResultList[Price], frozen=True, kw_only=True):
    prices: list[Price]
    count: int

class Principal(Result, frozen=True, kw_only=True):
    """A name. `stands_for` is the name it is an alias of; None if it is the principal itself."""

    name: str
    stands_for: str | None
    display: str

class PrincipalNames(Result, frozen=True, kw_only=True):
    """A principal with all its names."""

    principal: str
    """The name that all aliases stand for."""
    names: list[str]
    """All names, the principal first."""
    display: str

class PrincipalStats(Result, frozen=True, kw_only=True):
    """Numbers of live records that you may see."""

    principal: str
    conversations: int
    messages: int
    observations: int
    """Observations that they stored themselves."""
    facts: int

class Problem(Result, frozen=True, kw_only=True):
    """Something that was not imported, or not unchanged, and where it is."""

    where: str
    what: str
    rejected: bool
    """True: data is missing because of it. False: a note."""

class Project(Result, frozen=True, kw_only=True):
    """The project of a folder and how it was determined."""

    namespace: str
    """Namespace of its memories."""
    by: Literal["override", "remote", "repository", "folder"]
    """What determined it: an override file, the git remote, the repository's path, or the folder's path."""
    why: list[str]
    folder: str
    root: str
    names: list[str]
    """All names of the project; that of the namespace first."""
    budget: int | None = None
    """Token budget of the override file, if set."""

class ProjectNames(Result, frozen=True, kw_only=True):
    namespace: str
    """Namespace of the memories of all of them."""
    names: list[str]

class PromoteResult(MemoryView, frozen=True, kw_only=True):
    promoted: bool
    mode: Literal["tier", "vertical"]
    source_id: str | None = None
    clone_id: str | None = None

class ProposalList(ResultList[CurationProposal], frozen=True, kw_only=True):
    proposals: list[CurationProposal]
    count: int

class Proposals(ResultList[LessonProposal], frozen=True, kw_only=True):
    proposals: list[LessonProposal]
    count: int

class ProviderSession(Result, frozen=True, kw_only=True):
    """The current session at a model provider, of a channel, principal and namespace."""

    channel: str
    principal: str
    namespace: str
    provider: str
    session_id: str
    expires_at: datetime | None = None

class PurgeResult(Result, frozen=True, kw_only=True):
    purged: int
    kept: list[str]
    """Matching memories of other agents: skipped."""

class PushItemResult(Result, frozen=True, kw_only=True):
    """The outcome of one item."""

    list: str
    index: int
    outcome: Literal["applied", "noop", "conflict", "rejected"]
    id: str | None = None
    reason: str | None = None
    code: str | None = None

class QuarantineDropResult(ResultList[QuarantinedChange], frozen=True, kw_only=True):
    dropped: list[QuarantinedChange]
    count: int

class QuarantinePage(ResultList[QuarantinedChange], frozen=True, kw_only=True):
    quarantined: list[QuarantinedChange]
    count: int
    total: int

class QuarantineRetryResult(Result, frozen=True, kw_only=True):
    applied: int
    rejected: int
    outcomes: list[RetryView]

class QuarantinedChange(Result, frozen=True, kw_only=True):
    """A rejected change of another store, with its reason and sender."""

    reason: str
    detail: str
    peer: str
    """The node that sent it last."""
    kept_at: datetime
    tried_at: datetime
    tries: int
    peer_name: str | None = None
    """The name of that node as a peer."""
    id: str
    kind: str
    record: str
    action: str
    origin: str
    """The replica that made it, by its own account."""
    number: int
    actor: str
    made_at: datetime
    """When it was made, by its own account."""
    memory_id: str | None = None
    """The memory it is about."""

class QuarantinedChangeDetails(QuarantinedChange, frozen=True, kw_only=True):
    """A rejected change with its content."""

    says: str | None = None
    """The record or edit as sent, unless a purge erased it."""

class ReachedMemory(TargetView, frozen=True, kw_only=True):
    depth: int
    path: str
    """Ids from the source to this memory, separated by `->`."""

class ReapResult(Result, frozen=True, kw_only=True):
    """Ids of the conversations that a reaper closed and pruned."""

    closed: list[str]
    pruned: list[str]

class Reason(Result, frozen=True, kw_only=True):
    code: str
    message: str

class RecallMeta(Result, frozen=True, kw_only=True):
    recall_mode: str
    candidates: int
    degraded: str | None = None
    """Why the answer is incomplete."""
    budget_tokens_used: int | None = None
    budget_tokens_remaining: int | None = None
    memories_dropped: int | None = None
    budget_overflow: bool | None = None
    """The standards and the best hit, which are always returned, exceed the budget. With a budget of 0 nothing is."""
    tokens_estimated: bool | None = None
    """Without a budget, tokens are estimated from the characters, accurate to about 10 %."""

class RecallPage(ResultList[LoggedRecall], frozen=True, kw_only=True):
    recalls: list[LoggedRecall]
    count: int

class RecallResult(ResultList[RecalledMemory], frozen=True, kw_only=True):
    recall_id: str | None = None
    """Pass it to `feedback` to rate the hits."""
    memories: list[RecalledMemory]
    """Empty if the format is a table."""
    count: int
    mode: str
    tokens_used: int
    """Tokens of the hits as sent, and of the standards."""
    meta: RecallMeta
    budget_tokens: int | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    standards: list[MemoryView] | None = None
    """The standards of the namespace, the most general first; not repeated among the hits."""
    toon: str | None = None
    """The hits as a TOON table."""

class RecalledMemory(MemoryView, frozen=True, kw_only=True):
    matched: MatchedRange | None = None
    like: list[str] | None = None
    """Ids of duplicates that were left out."""
    superseded_by: str | None = None
    stale: StaleView | None = None
    """Set if a source of it changed and the notice is still open."""
    why: ScoreExplanation | None = None

class RecoverResult(MineResult, frozen=True, kw_only=True):
    transcripts: list[str]

class ReembedResult(Result, frozen=True, kw_only=True):
    model: str
    memories: int
    passages: int
    dropped: int
    """Embeddings dropped first because the model now has another number of dimensions."""
    refused: list[RefusedMemory]

class ReflectResult(Result, frozen=True, kw_only=True):
    """The reflection, or the pending request if the policy requires approval."""

    id: str | None = None
    reflection_depth: int | None = None
    reflects_on: list[str] | None = None
    namespace: str
    status: Literal["pending"] | None = None
    pending_id: str | None = None
    proposed_depth: int | None = None
    require_approval_above_depth: int | None = None

class ReflectionOriginResult(Result, frozen=True, kw_only=True):
    memory_id: str
    peer_origin: str | None
    """The node that created it; null if this one."""
    signing_agent: str
    original_depth: int
    local_depth_at_arrival: int | None
    is_reflection: bool
    reflection_depth: int

class ReflectionText(Result, frozen=True, kw_only=True):
    content: str
    suggested_filename: str

class RefusedMemory(Result, frozen=True, kw_only=True):
    id: str
    error: str

class RejectResult(Result, frozen=True, kw_only=True):
    rejected: bool
    id: str
    decided_by: str

class RejectedChangeView(Result, frozen=True, kw_only=True):
    """A change that one of the stores rejected."""

    by: Literal["here", "there"]
    kind: str
    record: str
    origin: str
    number: int
    reason: str
    detail: str

class ResourceContent(Result, frozen=True, kw_only=True):
    skill_id: str
    resource_path: str
    resource_kind: str
    content: str
    encoding: Literal["utf-8", "base64"]
    size: int
    digest: str
    digest_verified: bool
    """Always true: a mismatch is an error."""

class RestoreResult(MemoryView, frozen=True, kw_only=True):
    restored: bool

class RetryView(Result, frozen=True, kw_only=True):
    id: str
    kind: str
    record: str
    outcome: Literal["applied", "rejected"]
    reason: str | None = None
    detail: str | None = None

class RowError(Result, frozen=True, kw_only=True):
    array: str
    index: int
    error: str
    code: str

class Rule(Result, frozen=True, kw_only=True):
    """One hook from the settings."""

    event: Literal[
        "pre_store",
        "post_store",
        "pre_recall",
        "post_recall",
        "pre_delete",
        "post_delete",
        "pre_link",
        "post_link",
        "pre_reflect",
        "post_reflect",
    ]
    command: tuple[str, ...]
    """A program and its arguments, run without a shell."""
    python: str | None
    """Instead of a command: an entry point of the group holdfast.hooks."""
    match: tuple[str, ...]
    """Namespace patterns."""
    timeout: float
    on_error: Literal["allow", "deny"] | None = None
    """Decision if a pre_ hook fails, times out or gives an invalid answer."""
    name: str

class Rules(Result, frozen=True, kw_only=True):
    """The effective rules of a namespace after inheritance; defaults apply where nothing is set."""

    max_reflection_depth: int
    require_approval_above_depth: int | None
    """None: no depth requires it; null in answers."""
    self_approval: bool
    """Whether requesters may approve their own requests."""
    invalidation_hops: int
    skill_promotion_min_depth: int
    secrets: Literal["allow", "flag", "redact", "refuse"]
    """How keys, tokens and passwords in stored text are handled."""
    interaction_text: Literal["keep", "hash", "omit"]
    """How the text of recorded interactions is stored."""

class Run(Result, frozen=True, kw_only=True):
    """Long work in phases, under a lease."""

    id: str
    principal: str
    agent_id: str
    namespace: str
    topology: str
    topology_hash: str
    inputs: dict[str, Any]
    state: Literal["running", "completed", "failed"]
    owner: str | None = None
    lease_until: datetime | None = None
    error: str | None = None
    created_at: datetime
    updated_at: datetime

class RunClearResult(Result, frozen=True, kw_only=True):
    id: str

class RunDetails(Result, frozen=True, kw_only=True):
    """A run with its phases."""

    run: Run
    phases: list[Phase]
    token: int | None = None
    """Fencing token of the lease; only run open returns it."""
    resumed: bool | None = None
    next: str | None = None
    """The first phase that is not completed yet."""

class RunPage(ResultList[Run], frozen=True, kw_only=True):
    runs: list[Run]
    count: int

class Sample(Result, frozen=True, kw_only=True):
    title: str
    content: str
    speaker: str | None = None
    source_uri: str | None = None

class ScoreExplanation(Result, frozen=True, kw_only=True):
    """Explanation of a score: the adjusted sum of the weighted parts, before scaling to the best hit."""

    score: float
    adjustment: float
    adjustments: dict[str, float]
    """What priority, confidence, recency, use and feedback each add to 1; `over` is a factor for expired or superseded
    memories.
    """
    parts: dict[str, Part]
    words: float
    """The keyword score (BM25) before scaling to the best candidate."""
    cosine: float | None = None
    """Cosine of the nearest passage. Without an embedding there is none, and the part `vector` is an estimate."""
    terms: list[str]
    """Query words that the memory contains, as written in it."""

class SearchResult(ResultList[MemoryView], frozen=True, kw_only=True):
    results: list[MemoryView]
    count: int
    query: str | None = None
    source_uri: str | None = None

class SeenAgent(Agent, frozen=True, kw_only=True):
    last_seen_at: datetime
    """Time of its last change here."""

class SegmentOutcome(Result, frozen=True, kw_only=True):
    """Decision about a segment."""

    index: int
    decision: Literal["new", "duplicate", "near-duplicate", "update", "conflict", "rejected"]
    reason: str
    kind: str
    line: int
    span: Span
    """Byte range in the document (UTF-8)."""
    method: Literal["heuristic", "llm"]
    memory_id: str | None = None
    """The memory that holds its text."""
    title: str | None = None
    other_id: str | None = None
    """The similar memory."""
    proposed: Literal["supersedes"] | None = None
    """A link to the other memory that needs a person's decision."""
    model: str | None = None
    helpers: list[HelperOutput] | None = None
    """Helper results for the first 20 segments. Returned once and not stored, because they quote other memories.
    Comparing helpers are omitted for exact duplicates.
    """

class SessionClearResult(Result, frozen=True, kw_only=True):
    cleared: int

class SessionGetResult(Result, frozen=True, kw_only=True):
    session: ProviderSession | None
    """Null if there is no session or it has expired."""

class SetStandardResult(Result, frozen=True, kw_only=True):
    set: bool
    namespace: str
    standard_id: str
    parent: str | None = None

class SimilarTask(Result, frozen=True, kw_only=True):
    id: str
    title: str
    due_at: datetime

class SimilarView(Result, frozen=True, kw_only=True):
    """A memory that repeats, updates or contradicts the stored one."""

    id: str
    title: str
    relation: str
    score: float
    suggestion: str
    """Suggested action: restates, merge, supersede or contradicts."""

class SkillChange(Result, frozen=True, kw_only=True):
    """A change of the current version, or the deletion of the skill."""

    change: int
    op: str
    id: str
    actor: str
    at: datetime
    state: str

class SkillComposeResult(Result, frozen=True, kw_only=True):
    skill_id: str
    skill_namespace: str
    skill_name: str
    current: bool
    superseded_by: str | None = None
    """Id of the current version, if another one was requested."""
    stale: Staleness | None = None
    """Present if the reflection it was promoted from is no longer valid."""
    body: str
    body_tokens: int
    """Not part of the budget."""
    compositional_namespaces: list[ComposedNamespace]
    reflections: list[ComposedReflection]
    budget_tokens: int
    tokens_used: int
    """Tokens of the reflections as sent."""
    memories_dropped: int
    """Number of valid reflections that did not fit the budget."""
    dropped: list[DroppedGroup]
    degraded: str | None = None

class SkillDeleteResult(Result, frozen=True, kw_only=True):
    deleted: bool
    purged: bool
    id: str
    namespace: str
    name: str

class SkillDetailView(SkillView, frozen=True, kw_only=True):
    body: str
    """SKILL.md below the frontmatter."""
    frontmatter: dict[str, Any]
    resources: list[File]
    signed: bool
    """Whether the signature of a node of this store matches the content."""
    origin: str
    superseded_by: str | None = None
    """Id of the current version, if this one is not."""

class SkillExportResult(Result, frozen=True, kw_only=True):
    exported: bool
    skill_id: str
    namespace: str
    name: str
    digest: str
    resources_exported: int
    files: list[ExportedFile]
    target_folder: str | None = None

class SkillFileInput(TypedDict):
    """A file next to SKILL.md."""

    path: Required[str]
    content: Required[str]
    encoding: NotRequired[Literal["utf-8", "base64"]]

class SkillHistoryResult(Result, frozen=True, kw_only=True):
    namespace: str
    name: str
    current: str | None = None
    """Missing while the skill is deleted."""
    versions: list[SkillView]
    changes: list[SkillChange]
    count: int

class SkillListResult(ResultList[SkillView], frozen=True, kw_only=True):
    skills: list[SkillView]
    count: int
    total: int
    """Number of skills, regardless of the query."""

class SkillPromoteResult(Result, frozen=True, kw_only=True):
    promoted: bool
    skill_id: str
    namespace: str
    name: str
    digest: str
    derived_from_reflection_id: str
    original_reflection_depth: int
    sources_attached: int
    sources_left_out: int
    """Sources that are gone or private."""
    signed: bool
    outcome: Literal["registered", "superseded", "restored", "unchanged"]
    superseded_id: str | None = None

class SkillRegisterResult(Result, frozen=True, kw_only=True):
    registered: bool
    """False: it was already the current version; nothing was written."""
    outcome: Literal["registered", "superseded", "restored", "unchanged"]
    id: str
    namespace: str
    name: str
    digest: str
    signed: bool
    files: int
    superseded_id: str | None = None

class SkillRollbackResult(Result, frozen=True, kw_only=True):
    rolled_back: bool
    id: str
    namespace: str
    name: str
    digest: str
    before: str
    """Id of the version that was current."""

class SkillView(Result, frozen=True, kw_only=True):
    """A skill version in a list."""

    id: str
    namespace: str
    name: str
    description: str
    digest: str
    agent_id: str
    created_at: datetime
    current: bool
    stale: Staleness | None = None
    """Present if the reflection it was promoted from is no longer valid."""

class Snapshot(Result, frozen=True, kw_only=True):
    """Manifest of a snapshot; restore verifies its identity and digest."""

    snapshot: str
    sha256: str
    bytes: int
    source: str
    version: str
    created_at: datetime
    reason: str | None = None

class Snapshots(ResultList[Snapshot], frozen=True, kw_only=True):
    snapshots: list[Snapshot]
    unusable: list[str]
    """Snapshots without a readable manifest."""
    count: int

class Span(Result, frozen=True, kw_only=True):
    """A half-open range of bytes."""

    start: int
    end: int

class SpanInput(TypedDict):
    """A half-open range of bytes."""

    start: Required[int]
    end: Required[int]

class StageOutcome(Result, frozen=True, kw_only=True):
    index: int
    type: str
    name: str
    summary: str
    method: Literal["heuristic", "llm"]
    payload: dict[str, Any]
    model: str | None = None
    reason: str | None = None
    """Why no model answer was used."""

class StaleView(Result, frozen=True, kw_only=True):
    """Why a memory is stale: the nearest source that changed or went away, not resolved yet."""

    cause: str
    since: datetime
    status: str
    hop: int
    """Distance to that source: 1 is a direct source."""
    count: int
    """Number of reasons."""
    invalidated_id: str | None = None
    """The source, if you may see it."""
    invalidating_id: str | None = None
    """Its replacement, if there is one that you may see."""

class Staleness(Result, frozen=True, kw_only=True):
    """Why the reflection behind a skill is no longer valid."""

    reason: Literal["gone", "superseded", "stale", "expired", "ended", "not_yet"]
    reflection_id: str | None = None
    """Missing if you may not see it."""

class StandardView(Result, frozen=True, kw_only=True):
    namespace: str
    standard_id: str
    title: str
    content: str
    priority: int
    parent: str | None = None

class Stats(Result, frozen=True, kw_only=True):
    total: int
    by_tier: list[TierCount]
    by_namespace: list[NamespaceCount]
    archived_total: int
    expiring_soon: int
    links_count: int
    embeddings: list[EmbeddingCount]
    """Embeddings per model. A stale one belongs to an older version of its memory and is not used."""
    changes: int
    db_size_bytes: int
    restated: int
    """How often a duplicate was stored."""

class StepCounts(Result, frozen=True, kw_only=True):
    looked_at: int
    changed: int
    proposed: int
    skipped: dict[str, int]
    """Number of memories skipped, by reason."""

class StepResult(Result, frozen=True, kw_only=True):
    run_id: str
    phase: Phase
    lease_until: datetime

class StepRollback(Result, frozen=True, kw_only=True):
    """One step of a run that was rolled back, or the error."""

    change: int
    step: str
    memory_id: str
    outcome: Literal["applied", "rejected"]
    error: str | None = None
    code: str | None = None

class StoreRestoreResult(Result, frozen=True, kw_only=True):
    restored: bool
    snapshot: str
    sha256: str
    created_at: datetime
    dry_run: bool
    before: str | None = None
    """The snapshot taken before the restore; restore it to go back."""
    origin: str | None = None

class StoreResult(MemoryView, frozen=True, kw_only=True):
    outcome: Literal["created", "merged", "unchanged", "restated", "recalled"]
    """If restated or recalled, nothing was stored and this is the existing memory."""
    restated: int | None = None
    """How often a duplicate of it was stored."""
    similar: list[SimilarView] | None = None
    secrets: list[str] | None = None
    """Kinds of secrets it contains."""
    redacted: list[str] | None = None
    """Kinds of secrets that were redacted."""

class SubscribeResult(Subscription, frozen=True, kw_only=True):
    secret: str | None = None
    """The generated secret, shown only once."""

class Subscription(Result, frozen=True, kw_only=True):
    """A URL and the events posted to it. The secret is stored in clear text: it is needed to sign."""

    id: str
    agent_id: str
    url: str
    events: list[str]
    namespace: str | None = None
    agent_filter: str | None = None
    state: Literal["active", "ended"]
    why: str | None = None
    """Why it ended."""
    place: int
    """Last change that was delivered, skipped or given up."""
    delivered: int
    dead: int
    """Number of dead letters."""
    last_error: str | None = None
    last_at: datetime | None = None
    created_at: datetime
    next_try_at: datetime | None = None

class SubscriptionPage(ResultList[Subscription], frozen=True, kw_only=True):
    subscriptions: list[Subscription]
    count: int

class SubscriptionReplayResult(Result, frozen=True, kw_only=True):
    id: str
    place: int
    """Everything after this change is sent or resent."""
    requeued: int
    """Number of requeued dead letters; they are sent first."""

class SubscriptionTestResult(Result, frozen=True, kw_only=True):
    """The receiver's answer to a test event."""

    id: str
    ok: bool
    status: int | None = None
    """HTTP status of the receiver."""
    error: str | None = None
    milliseconds: int

class Suggestion(Result, frozen=True, kw_only=True):
    offer_id: str
    namespace: str
    source_ids: list[str]
    sources: list[ObservationRef]
    likeness: float
    shared: list[str]
    """Words that most of them share."""
    reason: str
    method: Literal["heuristic"]
    """How they were grouped."""
    draft: ConclusionDraft | None = None

class Suggestions(ResultList[Suggestion], frozen=True, kw_only=True):
    count: int
    suggestions: list[Suggestion]
    dry_run: bool

class SummarizedConversation(Conversation, frozen=True, kw_only=True):
    """A conversation and the text of its summary."""

    summary: str | None = None

class SyncDigest(Result, frozen=True, kw_only=True):
    node: str
    origin: str
    seq: int
    digest: str
    """Equal on two stores if and only if all replicated data is equal."""
    vector: dict[str, int]
    quarantined: int
    conflicts: int

class SyncPlan(Result, frozen=True, kw_only=True):
    """What a sync would do to memories and links in one direction."""

    new: int
    update: int
    noop: int
    links: int

class SyncPushResult(Result, frozen=True, kw_only=True):
    """Counts, and an outcome for each item."""

    applied: int
    deleted: int
    archived: int
    restored: int
    links_applied: int
    pendings_applied: int
    pending_decisions_applied: int
    namespace_meta_applied: int
    namespace_meta_cleared: int
    noop: int
    skipped: int
    """Rejected items; the outcomes have the reasons."""
    conflicts: int
    """Not applied, because the state here is later."""
    quota_refused: int
    dry_run: bool
    receiver_agent_id: str
    receiver_clock: dict[str, Any]
    ids: list[str]
    """Memories of the batch that are stored as sent."""
    outcomes: list[PushItemResult]
    ignored: list[str]
    """Unknown fields of the batch."""

class SyncReport(Result, frozen=True, kw_only=True):
    direction: str
    deletes: int
    """Memories deleted on either side by this sync, or that arrived deleted."""
    links: int
    conflicts: int
    rejected: int
    errors: list[RejectedChangeView]
    forked: list[str]
    """Forked origins of third stores: the two stores have different changes with the same numbers, because a database
    file was copied. The store that owns the origin repairs it when it syncs.
    """
    given_again: int | None = None
    """Changes that a restored store reissued under a new incarnation."""
    dry_run: bool | None = None
    imported: int | None = None
    exported: int | None = None
    pulled: int | None = None
    pushed: int | None = None
    pull: SyncPlan | None = None
    push: SyncPlan | None = None

class SyncSinceResult(Result, frozen=True, kw_only=True):
    """Changes in the order in which they arrived here."""

    count: int
    limit: int
    memories: list[dict[str, Any]]
    """Each has its journal position as the digits after the microseconds of updated_at."""
    deletions: list[dict[str, Any]]
    archives: list[dict[str, Any]]
    excluded_for_scope: int
    """Always 0: memories the caller may not see are not read, so not counted."""
    excluded_for_scope_private: int
    scope_status: str
    has_more: bool
    updated_since: str | None = None
    earliest_updated_at: datetime | None = None
    latest_updated_at: datetime | None = None
    next_cursor: str | None = None
    """Where to continue: after everything read for this answer."""

class SyncStatus(Result, frozen=True, kw_only=True):
    node: str
    seq: int
    peers: list[PeerStatus]
    conflicts: int
    """Open conflicts of the whole store."""
    quarantined: int
    pending_replication: int
    """Changes of this store with too few acknowledgements, under quorum writes."""
    pending_since: datetime | None = None

class TableResult(Result, frozen=True, kw_only=True):
    """Results for the rows of a table."""

    table: str
    rows: int
    stored: int
    unchanged: int
    """Already imported."""
    left: int
    """Changed since an earlier import, here or there; not changed here."""
    left_out: int
    rejected: int
    reasons: dict[str, int]
    """Number of rows not imported, or only in part, by reason."""

class TargetView(Result, frozen=True, kw_only=True):
    """A link and its target."""

    target_id: str
    relation: str
    valid_from: datetime
    observed_by: str
    title: str
    target_namespace: str
    valid_until: datetime | None = None

class Task(Result, frozen=True, kw_only=True):
    """Work that is due once or repeatedly."""

    id: str
    title: str
    state: Literal["pending", "running", "done", "failed", "cancelled"]
    due_at: datetime
    """Scheduled time of the current occurrence. Retries do not change it."""
    principal: str
    """Owner of the task."""
    agent_id: str
    namespace: str
    kind: str
    zone: str
    misfire: Literal["skip", "once", "all"]
    attempts: int
    """Claims of the current occurrence so far."""
    most_attempts: int
    timeout: int
    """Seconds allowed for one attempt."""
    handler: Literal["none", "webhook", "command", "python", "job"]
    created_at: datetime
    updated_at: datetime
    repeat: str | None = None
    target: str | None
    """Argument of the handler: a URL, a command or a name."""
    payload: dict[str, Any]
    channel: str | None
    reply_to: str | None
    owner: str | None = None
    """Current lease holder."""
    cancel_asked: bool
    last_error: str | None = None
    unique_key: str | None = None
    ready_at: datetime | None = None
    """Earliest time of the next claim, if not `due_at`."""
    lease_until: datetime | None = None
    """End of the lease."""

class TaskAddResult(Result, frozen=True, kw_only=True):
    task: Task
    created: bool
    """False: an identical task already existed and is returned unchanged."""
    similar: list[SimilarTask]
    """Possible duplicates, for information only."""

class TaskPage(ResultList[Task], frozen=True, kw_only=True):
    tasks: list[Task]
    count: int
    total: int

class TaskRun(Result, frozen=True, kw_only=True):
    """One attempt."""

    id: str
    due_at: datetime
    attempt: int
    owner: str
    started_at: datetime
    finished_at: datetime
    status: Literal["completed", "failed", "lost", "skipped"]
    final: bool
    """Whether this attempt ended its occurrence. Exactly one does."""
    result: str | None = None
    error: str | None = None
    tokens_used: int | None = None

class TaskRunPage(ResultList[TaskRun], frozen=True, kw_only=True):
    task_id: str
    runs: list[TaskRun]
    count: int

class TaxonomyResult(Result, frozen=True, kw_only=True):
    tree: Branch
    total_count: int
    truncated: bool

class TierCount(Result, frozen=True, kw_only=True):
    tier: str
    count: int

class Timeline(ResultList[TargetView], frozen=True, kw_only=True):
    source_id: str
    events: list[TargetView]
    count: int

class ToolCall(TypedDict):
    """A tool call in a turn."""

    tool: Required[str]
    brief: NotRequired[str | None]

class ToolView(Result, frozen=True, kw_only=True):
    name: str
    family: str
    effect: str
    summary: str
    callable_now: bool
    input_schema: dict[str, Any] | None = None

class TurnInput(TypedDict):
    """One turn to append."""

    role: Required[Literal["user", "assistant", "system", "tool"]]
    content: Required[str]
    at: NotRequired[datetime | str | None]
    metadata: NotRequired[dict[str, Any]]

class TurnView(Result, frozen=True, kw_only=True):
    place: int
    """Number of the turn in the conversation, from 1."""
    role: str
    content: str
    at: datetime
    memory_id: str

class UndoResult(Result, frozen=True, kw_only=True):
    undone: int
    change: int
    """The change that recorded the undo; undo this one to redo."""
    kind: str
    record: str
    version: int
    count: int
    """Number of changes undone."""
    invalidation_notified: list[str] | None = None
    """Dependents flagged as stale, as far as the caller may see them."""

class UnsubscribeResult(Result, frozen=True, kw_only=True):
    id: str
    removed: bool

class UpdateResult(MemoryView, frozen=True, kw_only=True):
    invalidation_notified: list[str] | None = None
    """Ids of its dependents that were flagged stale, as far as you may see them."""

class UsagePage(ResultList[ModelUsage], frozen=True, kw_only=True):
    usage: list[ModelUsage]
    count: int
    cost: str
    daily_tokens: int
    spent_today: int
    left_today: int

class UsageRecordResult(Result, frozen=True, kw_only=True):
    id: str
    recorded: bool
    """False if it was recorded before, under the same key."""
    priced: bool
    """Whether all of its tokens have a price."""
    tokens: int
    cost: str | None = None
    currency: str | None = None

class UsageReleaseResult(Result, frozen=True, kw_only=True):
    reservation: str

class UsageReportResult(ResultList[UsageSum], frozen=True, kw_only=True):
    usage: list[UsageSum]
    """One row per group and currency."""
    count: int
    since: str
    until: str

class UsageReserveResult(Result, frozen=True, kw_only=True):
    reservation: str
    budgets: list[BudgetStatus]
    """The budgets that cover it, before this reservation."""
    cost: str | None = None
    currency: str | None = None

class UsageSum(Result, frozen=True, kw_only=True):
    """Totals of a group of calls."""

    day: str | None = None
    principal: str | None = None
    model: str | None = None
    session: str | None = None
    currency: str | None = None
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: str
    unpriced_calls: int
    """Calls without a price; not included in `cost`."""
    total_tokens: int

class VerifyResult(Result, frozen=True, kw_only=True):
    intact: bool
    entries: int
    head: str
    """seq:hash of the newest entry. Save it elsewhere and pass it as `witness` later."""
    node: str
    signers: int
    """Number of signing keys; more than one after a copy or restore."""
    findings: list[Finding]

class WhyNotResult(Result, frozen=True, kw_only=True):
    id: str
    title: str
    """The title at the time of the query (`as_of`)."""
    returned: bool
    reasons: list[Reason]
    """The filters that exclude it, or the searches that missed it and what ranks above it."""
    limit: int
    place: int | None = None
    """Its place among the hits, or among the candidates if it is not a hit."""
    score: float | None = None
    last_score: float | None = None
    """Score of the last returned hit."""
    candidates: int | None = None
    why: ScoreExplanation | None = None
    degraded: str | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None

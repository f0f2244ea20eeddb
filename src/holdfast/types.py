"""Types of results and of dictionaries that methods take, for annotations.

    from holdfast.types import RecallResult

Written by tools/make_stubs.py: `make docs`.
"""

from importlib import import_module
from typing import Any

from holdfast.features.transfer.operations import Envelope
from holdfast.kernel.registry.encoding import Result, ResultList, library_type
from holdfast.kernel.registry.library import argument_type


def __getattr__(name: str) -> Any:
    """Derive a type on first use."""
    if name in _RESULTS:
        found = library_type(getattr(import_module(_RESULTS[name]), name))
    elif name in _ARGUMENTS:
        found = argument_type(getattr(import_module(_ARGUMENTS[name]), name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return __all__


def _list_homes(names: dict[str, str]) -> dict[str, str]:
    """Return the module of each name."""
    return {name: module for module, listed in names.items() for name in listed.split()}


_RESULTS = _list_homes(
    {
        "holdfast.features.access.keys": "Key",
        "holdfast.features.access.model": "Agent Notice SeenAgent",
        "holdfast.features.access.operations": "AgentPage AgentRegisterResult GrantAnswer InboxPage InboxReadResult KeyCreateResult KeyPage NotifyResult",
        "holdfast.features.admin.backup": "BackupResult Snapshot StoreRestoreResult",
        "holdfast.features.admin.doctor": "DoctorReport HealthSection",
        "holdfast.features.admin.migrate_store": "MigrateResult MigratedTable",
        "holdfast.features.admin.operations.about": "CapabilitiesResult EmbeddingCount FamilyList FamilyView Stats TierCount ToolView",
        "holdfast.features.admin.operations.upkeep": "GcResult Snapshots",
        "holdfast.features.agent_hosts.operations": "BootPart BootResult MergedProjects",
        "holdfast.features.agent_hosts.projects": "MergedProject Project ProjectNames",
        "holdfast.features.context_blocks.operations.for_query": "ContextBlock",
        "holdfast.features.context_blocks.operations.for_reply": "BuildContextResult LanguageView OnboardingTellResult OnboardingView PartItem PartView",
        "holdfast.features.conversations.consolidate": "ConversationConsolidateResult",
        "holdfast.features.conversations.model": "Conversation SummarizedConversation",
        "holdfast.features.conversations.operations": "ConversationDetail ConversationSayResult Conversations TurnView",
        "holdfast.features.conversations.service": "PrincipalStats ReapResult",
        "holdfast.features.curation.contradictions": "ContradictionEvidence ContradictionResult MemoryTitle",
        "holdfast.features.curation.operations.curate": "CurateDecideResult CurationRunList ProposalList",
        "holdfast.features.curation.operations.derive": "ExpandQueryResult PersonaGenerateResult PersonaResult PersonaView",
        "holdfast.features.curation.operations.digest": "ConsolidateResult DuplicateCheck Neighbour PromoteResult",
        "holdfast.features.curation.quality_report": "AuditExample AuditFinding AuditProblem AuditResult",
        "holdfast.features.curation.run": "CurateAction CurateResult StepCounts",
        "holdfast.features.curation.service": "CurateRollbackResult Decision StepRollback",
        "holdfast.features.curation.split_memory": "AtomiseResult",
        "holdfast.features.curation.store": "CurationProposal CurationRun",
        "holdfast.features.curation.suggest_tags": "AutoTagResult",
        "holdfast.features.graph.operations.entities": "EntityRegisterResult EntityResult",
        "holdfast.features.graph.operations.links": "InvalidateResult KgQueryResult LinkPage LinkResult ReachedMemory TargetView",
        "holdfast.features.graph.operations.paths": "FindPathsResult GraphResult LineageNode LineageResult NodeView",
        "holdfast.features.graph.service": "LinkView",
        "holdfast.features.history.operations.journal": "EventPage Finding HistoryPage VerifyResult",
        "holdfast.features.history.operations.show_memory": "GetResult",
        "holdfast.features.history.service": "Change UndoResult",
        "holdfast.features.hooks.model": "HookRun Rule",
        "holdfast.features.hooks.operations": "HookList HooksTestResult LifecycleHook",
        "holdfast.features.importers.capture": "CaptureResult",
        "holdfast.features.importers.model": "Problem",
        "holdfast.features.importers.operations": "MineResult RecoverResult",
        "holdfast.features.importers.report": "Sample",
        "holdfast.features.ingest.helpers": "HelperOutput",
        "holdfast.features.ingest.ingest_report": "MissingSegment",
        "holdfast.features.ingest.operations": "IngestResult PipelineList PipelineView SegmentOutcome StageOutcome",
        "holdfast.features.learning.lesson_rules": "LessonProposal Outcome",
        "holdfast.features.learning.lessons": "LessonAddResult LessonView OutcomeRecordResult",
        "holdfast.features.learning.operations.lessons": "Lessons Outcomes Proposals",
        "holdfast.features.learning.operations.observations": "LimitationAddResult LimitationView Limitations ObservationView Observations",
        "holdfast.features.llm.assist": "MethodInfo",
        "holdfast.features.llm.check_model": "ModelReport",
        "holdfast.features.llm.operations": "UsagePage",
        "holdfast.features.memories.operations.core": "BulkStoreResult ItemOutcome SimilarView StoreResult UpdateResult",
        "holdfast.features.memories.operations.find": "Page SearchResult",
        "holdfast.features.memories.operations.lifecycle": "ArchiveOutcome ArchivePage ArchiveResult ArchiveStats DeleteResult ForgetResult NamespaceCount PurgeResult RestoreResult",
        "holdfast.features.memories.views": "MemoryView",
        "holdfast.features.namespaces.model": "Rules",
        "holdfast.features.namespaces.operations": "ClearResult GetStandardResult NamespacesResult PolicyView SetStandardResult StandardView TaxonomyResult",
        "holdfast.features.people.erase_person": "ErasureResult",
        "holdfast.features.people.facts": "PastValue",
        "holdfast.features.people.model": "Interaction Principal",
        "holdfast.features.people.operations.facts": "FactHistory FactSetResult FactView Facts",
        "holdfast.features.people.operations.interactions": "InteractionEraseResult InteractionRecordResult Interactions",
        "holdfast.features.people.operations.principals": "Names",
        "holdfast.features.people.service": "PrincipalNames",
        "holdfast.features.recall.operations.explain": "Reason WhyNotResult",
        "holdfast.features.recall.operations.feedback": "FeedbackResult HitRating LoggedHit LoggedRecall RecallPage",
        "holdfast.features.recall.operations.recall": "MatchedRange Part RecallMeta RecallResult RecalledMemory ReembedResult RefusedMemory ScoreExplanation",
        "holdfast.features.reflections.list_stale": "StaleView",
        "holdfast.features.reflections.operations.approvals": "ApproveResult PendingAction PendingPage RejectResult",
        "holdfast.features.reflections.operations.invalidations": "DependentView DependentsResult InvalidationOutcome InvalidationOutcomes InvalidationPage InvalidationView",
        "holdfast.features.reflections.operations.reflect": "ConclusionDraft DismissResult ObservationRef ReflectResult ReflectionOriginResult Suggestion Suggestions",
        "holdfast.features.runs.operations": "RunClearResult RunPage SessionClearResult SessionGetResult StepResult",
        "holdfast.features.runs.store": "Phase ProviderSession Run RunDetails",
        "holdfast.features.skills.compose": "ComposedNamespace ComposedReflection DroppedGroup SkillComposeResult",
        "holdfast.features.skills.model": "File",
        "holdfast.features.skills.operations.skill_versions": "SkillDeleteResult SkillHistoryResult SkillPromoteResult SkillRollbackResult",
        "holdfast.features.skills.operations.skills": "ExportedFile ResourceContent SkillDetailView SkillExportResult SkillListResult SkillRegisterResult SkillView",
        "holdfast.features.skills.service": "SkillChange Staleness",
        "holdfast.features.sync.apply_changes": "RejectedChangeView",
        "holdfast.features.sync.bundles.service": "BundleExportResult BundleImportResult",
        "holdfast.features.sync.compact_journal": "CompactResult",
        "holdfast.features.sync.conflict_store": "Conflict ConflictSide",
        "holdfast.features.sync.conflicts": "ConflictDetails",
        "holdfast.features.sync.operations.conflicts": "ConflictPage ConflictResolveResult",
        "holdfast.features.sync.operations.peers": "PeerPage",
        "holdfast.features.sync.operations.protocol": "PeerFeed PeerHello PeerTakeResult",
        "holdfast.features.sync.operations.quarantine": "QuarantineDropResult QuarantinePage QuarantineRetryResult RetryView",
        "holdfast.features.sync.operations.sync": "SyncDigest SyncPlan SyncReport",
        "holdfast.features.sync.peers.certificates": "CertificateResult",
        "holdfast.features.sync.peers.store": "Peer",
        "holdfast.features.sync.peers.token": "PeerToken",
        "holdfast.features.sync.quarantine.store": "QuarantinedChange QuarantinedChangeDetails",
        "holdfast.features.sync.status": "PeerStatus SyncStatus",
        "holdfast.features.tasks.model": "Task TaskRun",
        "holdfast.features.tasks.operations.claims": "FinishResult HeartbeatResult",
        "holdfast.features.tasks.operations.tasks": "ClaimResult ClaimView SimilarTask TaskAddResult TaskPage TaskRunPage",
        "holdfast.features.transfer.files": "ExportFileResult",
        "holdfast.features.transfer.operations": "ImportCounts ImportResult RowError",
        "holdfast.features.transfer.reflections.operations": "ExportReflectionsResult FileFault ImportReflectionsResult ReflectionText",
        "holdfast.features.usage.operations": "Budgets Prices UsageRecordResult UsageReleaseResult UsageReportResult UsageReserveResult",
        "holdfast.features.usage.price": "Budget BudgetStatus ModelUsage Price",
        "holdfast.features.usage.store": "UsageSum",
        "holdfast.features.webhooks.deliver": "SubscriptionTestResult",
        "holdfast.features.webhooks.model": "Delivery Subscription",
        "holdfast.features.webhooks.operations": "DeliveryPage SubscribeResult SubscriptionPage UnsubscribeResult",
        "holdfast.features.webhooks.service": "SubscriptionReplayResult",
        "holdfast.integrations.ai_memory.aliases": "DirectDependent DirectDependents IngestMultistepResult Timeline",
        "holdfast.integrations.ai_memory.operations": "PushItemResult SyncPushResult SyncSinceResult",
        "holdfast.integrations.kernex.operations": "KernexImportResult TableResult",
        "holdfast.kernel.records.memory": "Span",
        "holdfast.kernel.records.taxonomy": "Branch",
    }
)
_ARGUMENTS = _list_homes(
    {
        "holdfast.features.conversations.operations": "TurnInput",
        "holdfast.features.importers.operations": "ToolCall",
        "holdfast.features.skills.operations.skills": "SkillFileInput",
        "holdfast.kernel.registry.fields": "CitationInput EmbeddingInput SpanInput",
    }
)
__all__ = ["Envelope", "Result", "ResultList", *_RESULTS, *_ARGUMENTS]

"""The methods of the library, one for each operation. Written by tools/make_stubs.py: `make docs`."""

import builtins
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from holdfast.types import *

class Operations:
    """Every operation as a method."""

    def invalidations(
        self,
        *,
        status: builtins.list[Literal["open", "acknowledged", "resolved", "dismissed"]] = [],
        namespace: str | None = None,
        dependent_id: str | None = None,
        invalidated_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> InvalidationPage:
        """List stale memories whose sources changed or were deleted.

        Args:
            status: Only with one of these statuses.
            namespace: Namespace of the stale memories.
            dependent_id: Only notices of this memory.
            invalidated_id: Only notices caused by this source.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            InvalidationPage: iterate over it for its `invalidations`.
        """
        ...

    def invalidations_acknowledge(
        self, ids: builtins.list[str], *, reason: str | None = None, agent_id: str | None = None
    ) -> InvalidationOutcomes:
        """Acknowledge notices; the memories stay stale.

        Args:
            ids: Notices to update.
            reason: Why, in one line.
            agent_id: Act as this agent.

        Returns:
            InvalidationOutcomes: iterate over it for its `outcomes`.
        """
        ...

    def invalidations_resolve(
        self, ids: builtins.list[str], *, reason: str | None = None, agent_id: str | None = None
    ) -> InvalidationOutcomes:
        """Mark as resolved; returns suggested sources for a new reflection.

        Args:
            ids: Notices to update.
            reason: Why, in one line.
            agent_id: Act as this agent.

        Returns:
            InvalidationOutcomes: iterate over it for its `outcomes`.
        """
        ...

    def invalidations_dismiss(
        self, ids: builtins.list[str], *, reason: str | None = None, agent_id: str | None = None
    ) -> InvalidationOutcomes:
        """Dismiss notices: the memory is still correct.

        Args:
            ids: Notices to update.
            reason: Why, in one line.
            agent_id: Act as this agent.

        Returns:
            InvalidationOutcomes: iterate over it for its `outcomes`.
        """
        ...

    def dependents(self, id: str, *, hops: int = 64, limit: int = 1000) -> DependentsResult:
        """List memories derived from this one, directly or indirectly.

        Args:
            id: Id or unambiguous id prefix.
            hops: Maximum distance; 1: direct dependents only.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            DependentsResult: iterate over it for its `dependents`.
        """
        ...

    def delete(self, id: str, *, expected_version: int | None = None, agent_id: str | None = None) -> DeleteResult:
        """Delete a memory; `undo` restores it.

        Args:
            id: Id or unambiguous id prefix.
            expected_version: Fail if the memory is at another version (1 to 9,007,199,254,740,991).
            agent_id: Act as this agent.
        """
        ...

    def forget(
        self,
        *,
        namespace: str | None = None,
        pattern: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        dry_run: bool = False,
    ) -> ForgetResult:
        """Archive every memory matching a filter.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            pattern: Words; any may match.
            tier: short: 6 hours, mid: 7 days, long: forever.
            dry_run: Only report what would change.
        """
        ...

    def archive(self, ids: builtins.list[str], *, reason: str = "archive") -> ArchiveResult:
        """Archive memories; restoring them restores their links.

        Args:
            ids: Memories to archive.
            reason: Why, in one line.

        Returns:
            ArchiveResult: iterate over it for its `outcomes`.
        """
        ...

    def archive_list(self, *, namespace: str | None = None, limit: int = 50, offset: int = 0) -> ArchivePage:
        """List archived and expired memories, newest first.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            ArchivePage: iterate over it for its `archived`.
        """
        ...

    def archive_restore(self, id: str) -> RestoreResult:
        """Restore an archived memory and restart its lifetime.

        Args:
            id: Id or unambiguous id prefix.
        """
        ...

    def archive_purge(
        self, *, ids: builtins.list[str] | None = None, older_than_days: int | None = None
    ) -> PurgeResult:
        """Permanently erase archived memories and their history.

        Args:
            ids: Only these memories.
            older_than_days: Only those archived at least this long ago; 0: all.
        """
        ...

    def archive_stats(self) -> ArchiveStats:
        """Count archived memories by namespace."""
        ...

    def stats(self) -> Stats:
        """Count memories, links, embeddings and changes in the store."""
        ...

    def capabilities(self, *, family: str | None = None, include_schema: bool = False) -> CapabilitiesResult:
        """List the features and tools of this server.

        Args:
            family: Only tools of this feature, such as recall.
            include_schema: Include the input schemas.
        """
        ...

    def agent_register(
        self, agent_id: str, agent_type: str, *, capabilities: builtins.list[str] = []
    ) -> AgentRegisterResult:
        """Register an agent with its capabilities.

        Args:
            agent_id: The agent to register.
            agent_type: Type: human, system or ai:<name>.
            capabilities: Capabilities, such as search.
        """
        ...

    def agent_list(self) -> AgentPage:
        """List the registered agents.

        Returns:
            AgentPage: iterate over it for its `agents`.
        """
        ...

    def notify(
        self,
        target_agent_id: str,
        title: str,
        payload: str,
        *,
        priority: int = 5,
        metadata: dict[str, Any] = {},
        agent_id: str | None = None,
    ) -> NotifyResult:
        """Send a message to another agent.

        Args:
            target_agent_id: The agent to notify.
            title: Title, unique in its namespace.
            payload: Text of the message.
            priority: Priority, 1 to 10.
            metadata: Any JSON object.
            agent_id: Act as this agent.
        """
        ...

    def inbox(self, *, agent_id: str | None = None, unread_only: bool = False, limit: int = 50) -> InboxPage:
        """List your messages.

        Args:
            agent_id: Act as this agent.
            unread_only: Only unread messages.
            limit: Maximum number of messages (1 to 500).

        Returns:
            InboxPage: iterate over it for its `messages`.
        """
        ...

    def inbox_read(self, ids: builtins.list[str], *, agent_id: str | None = None) -> InboxReadResult:
        """Mark your messages as read.

        Args:
            ids: Ids of messages.
            agent_id: Act as this agent.
        """
        ...

    def grant(self, id: str, agent_id: str, *, permission: Literal["read", "write", "admin"] = "read") -> GrantAnswer:
        """Let another agent read or change one of your private memories.

        Args:
            id: Id or unambiguous id prefix.
            agent_id: The agent that gets the right.
            permission: read, write, or admin (manage grants).
        """
        ...

    def revoke(self, id: str, agent_id: str) -> GrantAnswer:
        """Revoke another agent's grant on a memory.

        Args:
            id: Id or unambiguous id prefix.
            agent_id: The agent that loses the right.
        """
        ...

    def key_create(
        self,
        name: str,
        *,
        scope: Literal["read", "write", "admin"] = "write",
        namespaces: builtins.list[str] | None = None,
        agent_id: str | None = None,
    ) -> KeyCreateResult:
        """Create an API key; its secret is shown only once.

        Args:
            name: Name of the key.
            scope: Right: read, write, or admin (everything, keys included).
            namespaces: Namespaces with everything below: team/project or team/project/* [default: all].
            agent_id: Agent of the key [default: key:NAME]. *: taken from the request.
        """
        ...

    def key_list(self) -> KeyPage:
        """List API keys, including revoked ones.

        Returns:
            KeyPage: iterate over it for its `keys`.
        """
        ...

    def key_revoke(self, id: str) -> Key:
        """Revoke a key permanently, effective immediately.

        Args:
            id: Id of the key.
        """
        ...

    def store(
        self,
        title: str,
        content: str,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        tags: builtins.list[str] = [],
        priority: int | None = None,
        confidence: float | None = None,
        kind: Literal[
            "observation",
            "reflection",
            "persona",
            "concept",
            "entity",
            "claim",
            "relation",
            "event",
            "conversation",
            "decision",
            "fact",
            "lesson",
            "limitation",
            "summary",
        ]
        | None = None,
        category: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
        | None = None,
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        metadata: dict[str, Any] = {},
        source: str | None = None,
        on_conflict: Literal["error", "merge", "version"] | None = None,
        expires_at: datetime | str | None = None,
        ttl_secs: int | None = None,
        citations: builtins.list[CitationInput] = [],
        source_uri: str | None = None,
        source_span: SpanInput | None = None,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        speaker: str | None = None,
        occurred_at: datetime | str | None = None,
        thread: str | None = None,
        place: int | None = None,
        embedding: EmbeddingInput | None = None,
        force: bool = False,
        agent_id: str | None = None,
    ) -> StoreResult:
        """Store a memory.

        It is durable, searchable and journalled when this returns.

        Args:
            title: Title, unique in its namespace.
            content: Text to remember.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            tags: Tags.
            priority: Priority, 1 to 10.
            confidence: Confidence, 0 to 1.
            kind: Kind of memory.
            category: Topic of a coding memory.
            scope: Who sees it; private: you and agents you share it with.
            metadata: Any JSON object.
            source: What created it, such as cli or api.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            expires_at: Expiry time.
            ttl_secs: Lifetime in seconds (1 to 31,536,000).
            citations: Where claims were read: uri, and optionally a span.
            source_uri: Source URI: uri:, doc: or file:, followed by a name.
            source_span: Byte range in the source: start and end.
            valid_from: When it became true.
            valid_until: When it ceased to be true.
            speaker: Who said it.
            occurred_at: When it happened.
            thread: Conversation it belongs to.
            place: Position in its thread (0 to 9,007,199,254,740,991).
            embedding: Precomputed embedding: model and vector.
            force: Skip the duplicate check.
            agent_id: Act as this agent.
        """
        ...

    def bulk_store(
        self,
        memories: builtins.list[dict[str, Any]],
        *,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        agent_id: str | None = None,
    ) -> BulkStoreResult:
        """Store many memories in one transaction, with an outcome for each.

        Args:
            memories: Memories, each with the fields of store.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            agent_id: Act as this agent.
        """
        ...

    def update(
        self,
        id: str,
        *,
        title: str | None = None,
        content: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        namespace: str | None = None,
        tags: builtins.list[str] | None = None,
        priority: int | None = None,
        confidence: float | None = None,
        kind: Literal[
            "observation",
            "reflection",
            "persona",
            "concept",
            "entity",
            "claim",
            "relation",
            "event",
            "conversation",
            "decision",
            "fact",
            "lesson",
            "limitation",
            "summary",
        ]
        | None = None,
        category: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
        | None = None,
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        metadata: dict[str, Any] | None = None,
        citations: builtins.list[CitationInput] | None = None,
        source_uri: str | None = None,
        source_span: SpanInput | None = None,
        expires_at: datetime | str | None | UnsetType = UNSET,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        expected_version: int | None = None,
        embedding: EmbeddingInput | None = None,
        agent_id: str | None = None,
    ) -> UpdateResult:
        """Update some fields of a memory; others stay.

        Args:
            id: Id or unambiguous id prefix.
            title: Title, unique in its namespace.
            content: Text to remember.
            tier: short: 6 hours, mid: 7 days, long: forever.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tags: Tags.
            priority: Priority, 1 to 10.
            confidence: Confidence, 0 to 1.
            kind: Kind of memory.
            category: Topic of a coding memory.
            scope: Who sees it; private: you and agents you share it with.
            metadata: Any JSON object.
            citations: Where claims were read: uri, and optionally a span.
            source_uri: Source URI: uri:, doc: or file:, followed by a name.
            source_span: Byte range in the source: start and end.
            expires_at: Expiry time; null or empty: never.
            valid_from: When it became true.
            valid_until: When it ceased to be true.
            expected_version: Fail if the memory is at another version (1 to 9,007,199,254,740,991).
            embedding: Precomputed embedding: model and vector.
            agent_id: Act as this agent.
        """
        ...

    def get(self, id: str, *, as_of: datetime | str | None = None, known_at: datetime | str | None = None) -> GetResult:
        """Show a memory with its links, now or at a past time.

        Args:
            id: Id or unambiguous id prefix.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
        """
        ...

    def list(
        self,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        agent_id: str | None = None,
        min_priority: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tags: builtins.list[str] = [],
        kinds: builtins.list[
            Literal[
                "observation",
                "reflection",
                "persona",
                "concept",
                "entity",
                "claim",
                "relation",
                "event",
                "conversation",
                "decision",
                "fact",
                "lesson",
                "limitation",
                "summary",
            ]
        ] = [],
        limit: int = 20,
        offset: int = 0,
    ) -> Page:
        """List memories, most important first.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever.
            agent_id: Only those of this agent.
            min_priority: Priority, 1 to 10.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            tags: Tags.
            kinds: Only these kinds.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Page: iterate over it for its `memories`.
        """
        ...

    def search(
        self,
        query: str | None = None,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        agent_id: str | None = None,
        as_agent: str | None = None,
        min_priority: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tags: builtins.list[str] = [],
        source_uri: str | None = None,
        include_archived: bool = False,
        limit: int = 20,
    ) -> SearchResult:
        """Search memories by keywords (all words must match).

        Args:
            query: Words that must all match.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever.
            agent_id: Only those of this agent.
            as_agent: See only what an agent in this namespace sees.
            min_priority: Priority, 1 to 10.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            tags: Tags.
            source_uri: Source URI: uri:, doc: or file:, followed by a name.
            include_archived: Include archived and expired memories.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            SearchResult: iterate over it for its `results`.
        """
        ...

    def mine(
        self,
        path: str | None = None,
        *,
        content: str | None = None,
        format: Literal[
            "auto",
            "chatgpt",
            "claude",
            "claude-code",
            "codex",
            "slack",
            "mem0",
            "mcp-memory",
            "markdown",
            "text",
            "mbox",
            "ai-memory",
            "envelope",
        ] = "auto",
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] = "long",
        scope: Literal["private", "team", "unit", "org", "collective"] = "collective",
        tags: builtins.list[str] = [],
        min_messages: int = 1,
        include: builtins.list[Literal["tools", "system", "thinking", "sidechains"]] = [],
        dry_run: bool = False,
        agent_id: str | None = None,
    ) -> MineResult:
        """Import chats, transcripts, mail and notes.

        Each message and note becomes a memory, word for word, with speaker, time and position. Importing again adds new
        messages and updates changed ones; memories that you deleted or edited are not changed.

        Args:
            path: File, folder or zip.
            content: Text of a file, instead of a path.
            format: Format of the source; auto detects it.
            namespace: Namespace of the imported memories.
            tier: short: 6 hours, mid: 7 days, long: forever.
            scope: private: visible to you and agents you share it with.
            tags: Tags.
            min_messages: Skip conversations with fewer messages (1 to 1,000).
            include: Also import: tools, system, thinking, sidechains.
            dry_run: Report what would happen, write nothing.
            agent_id: Act as this agent.
        """
        ...

    def recover(
        self,
        *,
        host: Literal["auto", "claude-code", "codex"] = "auto",
        transcript: str | None = None,
        since: datetime | str | None = None,
        sessions: int = 2,
        limit: int = 100,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        include: builtins.list[Literal["tools", "system", "thinking", "sidechains"]] = [],
        dry_run: bool = False,
        agent_id: str | None = None,
    ) -> RecoverResult:
        """Store the last turns of crashed sessions from their transcripts.

        Turns that were captured or recovered before are not duplicated.

        Args:
            host: Agent host of the transcript.
            transcript: Transcript file [default: those of this folder].
            since: Only turns since this time.
            sessions: Number of newest sessions (1 to 1,000).
            limit: Number of last turns per session (1 to 100,000).
            namespace: Namespace of the memories.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            include: Also import: tools, system, thinking, sidechains.
            dry_run: Report what would happen, write nothing.
            agent_id: Act as this agent.
        """
        ...

    def capture_turn(
        self,
        host_session_id: str,
        host_turn_index: int,
        role: Literal["user", "assistant", "tool_use", "tool_result", "system", "other"],
        content: str,
        *,
        timestamp_iso: datetime | str | None = None,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        host_kind: str = "unknown",
        host_version: str | None = None,
        tool_calls: builtins.list[ToolCall] = [],
        metadata: dict[str, Any] = {},
        agent_id: str | None = None,
    ) -> CaptureResult:
        """Store a conversation turn from an agent host, once per session and number.

        Sending it again with other text updates the memory; its history keeps the earlier text.

        Args:
            host_session_id: Session id given by the host.
            host_turn_index: Number of the turn in the session (0 to 9,007,199,254,740,991).
            role: Speaker of the turn.
            content: Text of the turn.
            timestamp_iso: Time of the turn.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            host_kind: Agent host, such as claude-code.
            host_version: Version of the agent host.
            tool_calls: Tool calls in the turn: tool, brief.
            metadata: Any JSON object.
            agent_id: Act as this agent.
        """
        ...

    def audit(
        self,
        path: str | None = None,
        *,
        content: str | None = None,
        format: Literal[
            "auto",
            "chatgpt",
            "claude",
            "claude-code",
            "codex",
            "slack",
            "mem0",
            "mcp-memory",
            "markdown",
            "text",
            "mbox",
            "ai-memory",
            "envelope",
        ] = "auto",
        namespace: str | None = None,
    ) -> AuditResult:
        """Score a store: duplicates, contradictions, secrets, recall loops, stale and unread memories.

        Checks everything you may see, or an export of another program, and changes nothing.

        Args:
            path: Export file to audit instead of the store.
            content: Text of an export to audit.
            format: Format of the export; auto detects it.
            namespace: Only memories of this namespace.
        """
        ...

    def boot(self, *, namespace: str | None = None, principal: str | None = None, budget: int = 1500) -> BootResult:
        """Build the session-start context: facts, lessons, decisions, recent, due and stale items.

        Covers one project and one person, within a budget. Only reads. `holdfast agents boot` detects the project of
        a folder.

        Args:
            namespace: Namespace of the project.
            principal: Person of the session. Default: the agent.
            budget: Maximum tokens of the block (cl100k).
        """
        ...

    def project_which(self, path: str = ".") -> Project:
        """Show the project of a folder and how it was determined.

        By a `.holdfast.toml` there or above, else by the remote of its git repository, else by the path of the repository,
        else by the path of the folder. Does not run git.

        Args:
            path: Folder [default: the current one].
        """
        ...

    def project_merge(self, project: str, alias: str, *, agent_id: str | None = None) -> ProjectNames:
        """Make a project an alias of another.

        Both then share what is known of either. Memories stay where they are, so `agents project split` can separate them
        again. The merge is synced to other stores.

        Args:
            project: Project to keep.
            alias: Project that becomes an alias of it.
            agent_id: Act as this agent.
        """
        ...

    def project_split(self, alias: str, *, agent_id: str | None = None) -> ProjectNames:
        """Separate a merged project again.

        Args:
            alias: Alias to separate.
            agent_id: Act as this agent.
        """
        ...

    def project_list(self) -> MergedProjects:
        """List merged projects.

        Returns:
            MergedProjects: iterate over it for its `merged`.
        """
        ...

    def build_context(
        self,
        message: str = "",
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        budget: int = 4000,
        parts: builtins.list[
            Literal["history", "summary", "facts", "recalled", "lessons", "tasks", "invalidations"]
        ] = [],
        overflow: Literal["summarise", "drop"] = "summarise",
        onboarding: bool = False,
    ) -> BuildContextResult:
        """Build the context for a reply: history, facts, lessons, tasks, memories.

        Only reads. Each part has a minimum and a maximum share of the budget; dropped items and failures are reported.
        Turns of the conversation that do not fit are summarised, or dropped with `overflow`.

        Args:
            message: The message to answer.
            channel: Channel of the conversation, such as cli or slack.
            principal: Person who talks to the agent. Default: the agent.
            namespace: This namespace and its parents.
            budget: Maximum tokens of the block (cl100k).
            parts: Only these parts. Default: all.
            overflow: What to do with turns of this conversation that do not fit.
            onboarding: Also return the next onboarding step.
        """
        ...

    def onboarding_tell(
        self,
        step: Literal["introduce", "help", "personality", "tasks", "projects"],
        *,
        principal: str | None = None,
        agent_id: str | None = None,
    ) -> OnboardingTellResult:
        """Mark an onboarding step as done; steps come once, in order.

        Args:
            step: The step that is done.
            principal: The person. Default: the agent.
            agent_id: Act as this agent.
        """
        ...

    def sync(
        self,
        remote: str,
        *,
        direction: Literal["pull", "push", "merge"] = "merge",
        trust_source: bool = False,
        dry_run: bool = False,
    ) -> SyncReport:
        """Exchange missing changes with another store.

        Concurrent edits keep both values: the newer is shown, the other becomes a conflict. If interrupted, run it again
        to continue.

        Args:
            remote: The other store: a path, postgresql://USER:PASSWORD@HOST/DATABASE, or https://HOST:PORT.
            direction: pull: get missing changes; push: send them; merge: both.
            trust_source: Keep the owners of pulled memories; otherwise you own them.
            dry_run: Report what would change; change nothing.
        """
        ...

    def sync_digest(self) -> SyncDigest:
        """Print the digest of this store, to compare it with another."""
        ...

    def sync_status(self) -> SyncStatus:
        """Show how far this store and its peers lag, and the last exchanges."""
        ...

    def sync_export_bundle(self, file: str, *, since: int = 0, peer: str | None = None) -> BundleExportResult:
        """Write changes to a signed, compressed file for another store.

        The file is complete or not written at all. Import it with `sync bundle import`. Without `peer` it contains
        everything after `since`, private memories included: protect it like the store.

        Args:
            file: A file, or - for a pipe.
            since: Only changes after this point: `next` of the previous bundle (0 to 9,007,199,254,740,991).
            peer: Only what this enrolled peer may read.
        """
        ...

    def sync_import_bundle(
        self, file: str, *, trust_sender: bool = False, trust_source: bool = False, dry_run: bool = False
    ) -> BundleImportResult:
        """Apply a bundle written by `sync bundle export`.

        The whole file is verified before any change is applied. Importing it again changes nothing. A bundle that would
        leave a gap is rejected, and the error lists the missing changes.

        Args:
            file: A file, or - for a pipe.
            trust_sender: Accept a bundle from a store that is not an enrolled peer.
            trust_source: Keep the owners of new memories; otherwise you own them.
            dry_run: Report what would change; change nothing.
        """
        ...

    def compact(self, *, older_than: int = 30, dry_run: bool = False) -> CompactResult:
        """Compact old history to final states, once every enrolled peer has it.

        No memory changes, and `verify` still proves the rest. Undo, history and known_at reach back to the compaction
        point. Runs in short transactions, so others can write; if interrupted, run it again to continue.

        Args:
            older_than: Days of full history to keep, even if every peer has them (0 to 36,500).
            dry_run: Report what would change; change nothing.
        """
        ...

    def sync_push(self, batch: dict[str, Any]) -> SyncPushResult:
        """Apply a batch from an ai-memory peer in one transaction; each item has an outcome.

        Args:
            batch: sender_agent_id and lists of up to 1000: memories, deletions, archives, restores, links, namespace_meta, namespace_meta_clears; dry_run.
        """
        ...

    def sync_since(
        self, *, since: datetime | str | None = None, limit: int = 500, peer: str | None = None
    ) -> SyncSinceResult:
        """Return changes after a cursor to an ai-memory peer, including deletions.

        Args:
            since: updated_at of the last row received.
            limit: Most memories to return (1 to 10,000).
            peer: Name of the calling peer.
        """
        ...

    def kg_timeline(
        self,
        source_id: str,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        valid_at: datetime | str | None = None,
        limit: int = 200,
    ) -> Timeline:
        """List the outgoing links of a memory by start date.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            since: Only links that started at this time or later.
            until: Only links that started at this time or earlier.
            valid_at: Only links valid at this time.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Timeline: iterate over it for its `events`.
        """
        ...

    def dependents_of_invalidated(self, memory_id: str) -> DirectDependents:
        """List direct dependents as ai-memory does; empty for an unknown memory.

        Args:
            memory_id: Id or unambiguous id prefix.

        Returns:
            DirectDependents: iterate over it for its `dependents`.
        """
        ...

    def ingest_multistep(
        self,
        content: str,
        *,
        namespace: str = "global",
        pipeline_variant: Literal["two_phase", "four_step"] = "two_phase",
        pipeline_override: dict[str, Any] | None = None,
        agent_id: str | None = None,
    ) -> IngestMultistepResult:
        """Ingest a text with the arguments of ai-memory's tool; prefer `ingest`.

        Args:
            content: The text of the document.
            namespace: Namespace path, at most 8 segments, such as team/project.
            pipeline_variant: Built-in pipeline to run.
            pipeline_override: Inline pipeline: `stages`, and `name` or `variant`.
            agent_id: Act as this agent.
        """
        ...

    def skill_register(
        self,
        folder_path: str | None = None,
        *,
        inline_skill: str | None = None,
        files: builtins.list[SkillFileInput] = [],
        archive: str | None = None,
        namespace: str | None = None,
    ) -> SkillRegisterResult:
        """Register a skill as the current version of its name.

        A version with the same content is reused.

        Args:
            folder_path: Folder with a SKILL.md, or a .zip or .tar.gz of one.
            inline_skill: Text of a SKILL.md.
            files: Further files: path, content, encoding (utf-8 or base64).
            archive: A .zip or .tar.gz of a skill folder, base64-encoded.
            namespace: Namespace, unless SKILL.md sets one.
        """
        ...

    def skill_list(
        self, query: str | None = None, *, namespace: str | None = None, limit: int = 100
    ) -> SkillListResult:
        """List current skills by name, or ranked by a query.

        Args:
            query: Skills that match, best first.
            namespace: Only this namespace and those below it.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            SkillListResult: iterate over it for its `skills`.
        """
        ...

    def skill_get(self, skill_id: str) -> SkillDetailView:
        """Read a skill: instructions, frontmatter and list of files.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
        """
        ...

    def skill_resource(self, skill_id: str, resource_path: str) -> ResourceContent:
        """Read one file of a skill, verified against its digest.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            resource_path: Path of the file, as listed by the skill.
        """
        ...

    def skill_export(self, skill_id: str, target_folder: str | None = None) -> SkillExportResult:
        """Export every file of a skill, byte for byte.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            target_folder: Folder to write to; may replace only an older export. Default: return the files.
        """
        ...

    def skill_promote_from_reflection(
        self,
        reflection_id: str,
        skill_name: str,
        skill_description: str,
        *,
        parameters_schema: dict[str, Any] | None = None,
    ) -> SkillPromoteResult:
        """Create a skill from a reflection, with its sources as references.

        Args:
            reflection_id: Id or unambiguous id prefix.
            skill_name: Name: lower case, digits and hyphens.
            skill_description: What the skill does and when to use it.
            parameters_schema: JSON Schema of its parameters.
        """
        ...

    def skill_rollback(self, skill_id: str, version: str | None = None) -> SkillRollbackResult:
        """Make the previous version of a skill, or a given one, current again.

        No version is lost.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            version: Version id to roll back to [default: the previous one].
        """
        ...

    def skill_delete(self, skill_id: str, *, purge: bool = False) -> SkillDeleteResult:
        """Delete a skill with all its versions; `undo` restores it.

        Registering it again restores it too. A purge cannot be undone.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            purge: Erase its files permanently, from the history too.
        """
        ...

    def skill_history(self, skill_id: str, *, limit: int = 100) -> SkillHistoryResult:
        """Show all versions of a skill and when each was current.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            limit: Maximum number of results (1 to 1,000).
        """
        ...

    def skill_compositional_context(
        self, skill_id: str, *, query: str | None = None, budget_tokens: int = 4000
    ) -> SkillComposeResult:
        """Read a skill with its valid reflections, best first, within a token budget.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            query: The task; relevant reflections come first.
            budget_tokens: Token budget for the reflections (cl100k).
        """
        ...

    def conflicts(self, *, limit: int = 50, offset: int = 0) -> ConflictPage:
        """List conflicts between concurrent edits, newest first.

        Args:
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            ConflictPage: iterate over it for its `conflicts`.
        """
        ...

    def conflicts_show(self, id: str) -> ConflictDetails:
        """Show both values of a conflict.

        Args:
            id: Id of the conflict.
        """
        ...

    def conflicts_resolve(
        self,
        id: str,
        keep: Literal["shown", "other", "mine", "theirs", "both", "edited"],
        *,
        value: str | None = None,
        agent_id: str | None = None,
    ) -> ConflictResolveResult:
        """Resolve a conflict; the resolution is replicated to all peers.

        Args:
            id: Id of the conflict.
            keep: shown or other, mine or theirs, both (as two memories), or edited (with `value`).
            value: The text that replaces both, with keep edited.
            agent_id: Act as this agent.
        """
        ...

    def recall(
        self,
        context: str,
        *,
        namespace: str | None = None,
        limit: int = 10,
        tags: builtins.list[str] = [],
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_agent: str | None = None,
        budget_tokens: int | None = None,
        kinds: builtins.list[
            Literal[
                "observation",
                "reflection",
                "persona",
                "concept",
                "entity",
                "claim",
                "relation",
                "event",
                "conversation",
                "decision",
                "fact",
                "lesson",
                "limitation",
                "summary",
            ]
        ] = [],
        tier: Literal["short", "mid", "long"] | None = None,
        has_citations: bool = False,
        source_uri_prefix: str | None = None,
        confidence_tier: Literal["confirmed", "likely", "ambiguous"] | None = None,
        include_archived: bool = False,
        embedding: EmbeddingInput | None = None,
        now: datetime | str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        explain: bool = False,
        format: Literal["json", "toon", "toon_compact"] = "json",
        note: bool = True,
    ) -> RecallResult:
        """Search memories by meaning and keywords.

        Args:
            context: What to look for.
            namespace: This namespace and its parents.
            limit: Maximum number of hits (1 to 50).
            tags: Tags.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            as_agent: See only what an agent in this namespace sees.
            budget_tokens: Maximum tokens of the answer; 0 returns no hits.
            kinds: Only memories of these kinds.
            tier: short: 6 hours, mid: 7 days, long: forever.
            has_citations: Only memories with citations.
            source_uri_prefix: Only memories whose source URI starts with this.
            confidence_tier: Only memories of this confidence.
            include_archived: Also search archived memories.
            embedding: Precomputed embedding: model and vector.
            now: Time of the query, for words such as yesterday; local time with offset.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
            explain: Explain the score of each hit.
            format: toon: one table that takes fewer tokens.
            note: Count the hits as used and log the query.

        Returns:
            RecallResult: iterate over it for its `memories`.
        """
        ...

    def reembed(self, *, everything: bool = False) -> ReembedResult:
        """Compute missing embeddings. Keyword recall keeps working.

        Args:
            everything: Recompute all embeddings, not only missing ones.
        """
        ...

    def context(
        self,
        query: str,
        *,
        budget: int = 2000,
        namespace: str | None = None,
        tags: builtins.list[str] = [],
        tier: Literal["short", "mid", "long"] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_agent: str | None = None,
        now: datetime | str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
    ) -> ContextBlock:
        """Recall memories as one block for a prompt: cited, fenced, within a budget.

        Args:
            query: What to look for.
            budget: Maximum tokens of the block (cl100k).
            namespace: This namespace and its parents.
            tags: Tags.
            tier: short: 6 hours, mid: 7 days, long: forever.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            as_agent: See only what an agent in this namespace sees.
            now: Time of the query, for words such as yesterday; local time with offset.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
        """
        ...

    def conversation_say(
        self,
        turns: builtins.list[TurnInput],
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> ConversationSayResult:
        """Append turns to the active conversation, in one transaction.

        After two idle hours a new conversation starts. Each turn is a memory that recall can find.

        Args:
            turns: Turns in order: role and content.
            channel: Channel, such as cli or slack.
            principal: Person [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    def conversation_show(self, id: str, *, after: int = 0, limit: int = 100) -> ConversationDetail:
        """Show a conversation with its turns and summary.

        Args:
            id: Id of the conversation.
            after: Only turns after this number (0 to 9,007,199,254,740,991).
            limit: Maximum number of results (1 to 1,000).

        Returns:
            ConversationDetail: iterate over it for its `turns`.
        """
        ...

    def conversation_list(
        self,
        *,
        state: Literal["active", "closing", "closed"] | None = None,
        channel: str | None = None,
        namespace: str | None = None,
        principal: builtins.list[str] = [],
        limit: int = 50,
        offset: int = 0,
    ) -> Conversations:
        """List conversations with their summaries, latest first.

        Args:
            state: Only conversations in this state.
            channel: Channel, such as cli or slack.
            namespace: Namespace path, at most 8 segments, such as team/project.
            principal: Only conversations of these people.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Conversations: iterate over it for its `conversations`.
        """
        ...

    def conversation_close(
        self,
        id: str | None = None,
        *,
        summary: str | None = None,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> SummarizedConversation:
        """Close a conversation with a given or generated summary.

        Args:
            id: Id of the conversation [default: the active one].
            summary: Summary [default: generated].
            channel: Channel, such as cli or slack.
            principal: Person [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    def conversation_reap(
        self, *, limit: int = 100, prune_days: int | None = None, agent_id: str | None = None
    ) -> ReapResult:
        """Close idle conversations with a summary; one process at a time.

        With prune_days, also archive old turns that a summary covers.

        Args:
            limit: Maximum number of results (1 to 1,000).
            prune_days: Archive turns of conversations closed this many days ago (0 to 36,500).
            agent_id: Act as this agent.
        """
        ...

    def conversation_consolidate(
        self,
        *,
        min_hours: float = 24,
        min_conversations: int = 5,
        prune_days: int = 30,
        keep_outcomes: int = 100,
        interaction_days: int | None = None,
        force: bool = False,
        agent_id: str | None = None,
    ) -> ConversationConsolidateResult:
        """Close, summarise and archive old conversations and outcomes when enough is new.

        One process at a time. Turns are archived once a summary covers them; outcomes are archived before they are deleted.

        Args:
            min_hours: Minimum hours since the last run (0 to 100,000).
            min_conversations: Minimum number of conversations started since then (0 to 1,000,000).
            prune_days: Archive turns and drop archived outcomes after this many days (0 to 36,500).
            keep_outcomes: Outcomes to keep per person; older ones are archived (1 to 1,000,000).
            interaction_days: Erase the text of interactions after this many days (0 to 36,500).
            force: Run regardless of time and number.
            agent_id: Act as this agent.
        """
        ...

    def principal_stats(self, name: str) -> PrincipalStats:
        """Count the conversations, messages, observations and facts of a principal.

        Args:
            name: A name, such as ann or slack:U42.
        """
        ...

    def curate(
        self,
        *,
        apply: bool = False,
        dry_run: bool = False,
        steps: builtins.list[Literal["duplicates", "contradictions", "tags", "priorities", "personas"]] = [],
        include_namespace: builtins.list[str] = [],
        exclude_namespace: builtins.list[str] = [],
        max_ops: int = 100,
        max_seconds: int = 30,
        max_tokens: int | None = None,
        agent_id: str | None = None,
    ) -> CurateResult:
        """Find and fix quality problems in memories; a dry run by default.

        Merges near-duplicates (sources are archived), proposes contradictions and tags, adjusts priorities by use,
        regenerates stale personas. A run ends when its budget is spent; the next one continues. `curate rollback` undoes a
        run.

        Args:
            apply: Apply the changes (default: dry run).
            dry_run: Show the changes without applying them (default).
            steps: Only these steps (default: all).
            include_namespace: Only these namespaces and their children.
            exclude_namespace: Skip these namespaces and their children.
            max_ops: Maximum number of changes and proposals (1 to 10,000).
            max_seconds: Maximum duration in seconds (1 to 86,400).
            max_tokens: Maximum model tokens (0 to 1,099,511,627,776).
            agent_id: Act as this agent.
        """
        ...

    def curate_runs(self, *, limit: int = 20) -> CurationRunList:
        """List your curator runs; admins see all runs.

        Args:
            limit: Maximum number of results, newest first (1 to 1,000).

        Returns:
            CurationRunList: iterate over it for its `runs`.
        """
        ...

    def curate_rollback(self, run_id: str, *, agent_id: str | None = None) -> CurateRollbackResult:
        """Undo a curator run, step by step.

        Memories changed since are kept and reported. Memories that are separated again are not merged again automatically.

        Args:
            run_id: Id of the run.
            agent_id: Act as this agent.
        """
        ...

    def curate_proposals(
        self, *, status: Literal["open", "accepted", "dismissed", "withdrawn"] = "open", limit: int = 100
    ) -> ProposalList:
        """List curator proposals about memories that you may see.

        Args:
            status: Only proposals with this status.
            limit: Maximum number of results, newest first (1 to 1,000).

        Returns:
            ProposalList: iterate over it for its `proposals`.
        """
        ...

    def curate_decide(
        self, ids: builtins.list[str], decision: Literal["accept", "dismiss"], *, agent_id: str | None = None
    ) -> CurateDecideResult:
        """Accept or dismiss proposals, each separately; outdated ones are rejected.

        Args:
            ids: Ids of the proposals.
            decision: accept: apply it; dismiss: never propose it again.
            agent_id: Act as this agent.

        Returns:
            CurateDecideResult: iterate over it for its `outcomes`.
        """
        ...

    def auto_tag(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        content: str | None = None,
        namespace: str | None = None,
        apply: bool = False,
        expected_version: int | None = None,
        agent_id: str | None = None,
    ) -> AutoTagResult:
        """Suggest tags for a memory or text; `--apply` adds them.

        Args:
            id: Memory id, or a unique prefix of one.
            title: Title, unique in its namespace.
            content: Text to tag instead of a memory; needs a title.
            namespace: Namespace whose tags are preferred for the text.
            apply: Add the tags to the memory.
            expected_version: Fail unless the memory has this version (1 to 9,007,199,254,740,991).
            agent_id: Act as this agent.
        """
        ...

    def expand_query(self, query: str, *, namespace: str | None = None, limit: int = 8) -> ExpandQueryResult:
        """Expand a query with related names, tags, words and word forms.

        Args:
            query: Query to expand.
            namespace: Namespace path, at most 8 segments, such as team/project.
            limit: Maximum number of terms (1 to 50).
        """
        ...

    def detect_contradiction(self, id_a: str, id_b: str) -> ContradictionResult:
        """Check whether two memories contradict each other, with the sentences.

        Args:
            id_a: Memory id, or a unique prefix of one.
            id_b: Memory id, or a unique prefix of one.
        """
        ...

    def atomise(
        self, memory_id: str, *, max_atom_tokens: int = 200, force: bool = False, agent_id: str | None = None
    ) -> AtomiseResult:
        """Split a long memory into atoms at sentence ends and archive it.

        Each atom is a verbatim piece with its source span, and inherits tags, tier and priority. One transaction.

        Args:
            memory_id: Memory id, or a unique prefix of one.
            max_atom_tokens: Maximum tokens per atom (50 to 1,000).
            force: Split again a memory that was split before.
            agent_id: Act as this agent.
        """
        ...

    def persona(self, entity_id: str, *, namespace: str | None = None) -> PersonaResult:
        """Show the persona of an entity, and whether it is stale.

        Args:
            entity_id: Entity id, or any of its names.
            namespace: The persona made from this namespace only.
        """
        ...

    def persona_generate(
        self, entity_id: str, *, namespace: str | None = None, agent_id: str | None = None
    ) -> PersonaGenerateResult:
        """Generate the persona of an entity from up to 20 memories, with footnotes.

        The previous version is archived. If no source changed, nothing is written.

        Args:
            entity_id: Entity id, or any of its names.
            namespace: Use only memories of this namespace (default: all).
            agent_id: Act as this agent.
        """
        ...

    def consolidate(
        self,
        ids: builtins.list[str],
        title: str,
        *,
        summary: str | None = None,
        summarise: bool = False,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] = "long",
        agent_id: str | None = None,
    ) -> ConsolidateResult:
        """Merge 2 to 100 memories into one; archive and link the originals.

        Args:
            ids: Memories to merge.
            title: Title, unique in its namespace.
            summary: Text of the new memory; without it, the texts joined.
            summarise: Summarise them: with the model if one is set, else by sentence selection.
            namespace: Namespace of the new memory; default: the shared one.
            tier: short: 6 hours, mid: 7 days, long: forever.
            agent_id: Act as this agent.
        """
        ...

    def check_duplicate(
        self, title: str, content: str, *, namespace: str | None = None, threshold: float = 0.85
    ) -> DuplicateCheck:
        """Check whether a text is stored already, exactly or nearly.

        Args:
            title: Title, unique in its namespace.
            content: Text to remember.
            namespace: Namespace path, at most 8 segments, such as team/project.
            threshold: Minimum similarity of a duplicate (0.5 to 1).
        """
        ...

    def promote(
        self, id: str, *, target_tier: Literal["mid", "long"] = "long", to_namespace: str | None = None
    ) -> PromoteResult:
        """Move a memory to a longer-lived tier, or copy it to a parent namespace.

        Args:
            id: Id or unambiguous id prefix.
            target_tier: Tier to move it to.
            to_namespace: Copy it to this parent namespace instead.
        """
        ...

    def why_not(
        self,
        id: str,
        context: str,
        *,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        namespace: str | None = None,
        limit: int = 10,
        tags: builtins.list[str] = [],
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_agent: str | None = None,
        budget_tokens: int | None = None,
        kinds: builtins.list[
            Literal[
                "observation",
                "reflection",
                "persona",
                "concept",
                "entity",
                "claim",
                "relation",
                "event",
                "conversation",
                "decision",
                "fact",
                "lesson",
                "limitation",
                "summary",
            ]
        ] = [],
        tier: Literal["short", "mid", "long"] | None = None,
        has_citations: bool = False,
        source_uri_prefix: str | None = None,
        confidence_tier: Literal["confirmed", "likely", "ambiguous"] | None = None,
        include_archived: bool = False,
        embedding: EmbeddingInput | None = None,
        now: datetime | str | None = None,
    ) -> WhyNotResult:
        """Explain why a query does not return a memory.

        Args:
            id: Id or unambiguous id prefix.
            context: What to look for.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
            namespace: This namespace and its parents.
            limit: Maximum number of hits (1 to 50).
            tags: Tags.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            as_agent: See only what an agent in this namespace sees.
            budget_tokens: Maximum tokens of the answer; 0 returns no hits.
            kinds: Only memories of these kinds.
            tier: short: 6 hours, mid: 7 days, long: forever.
            has_citations: Only memories with citations.
            source_uri_prefix: Only memories whose source URI starts with this.
            confidence_tier: Only memories of this confidence.
            include_archived: Also search archived memories.
            embedding: Precomputed embedding: model and vector.
            now: Time of the query, for words such as yesterday; local time with offset.
        """
        ...

    def fact_set(
        self,
        key: str,
        value: str,
        *,
        principal: str | None = None,
        confidence: float = 1.0,
        learned_from: str | None = None,
        agent_id: str | None = None,
    ) -> FactSetResult:
        """Set a fact about a person (history is kept).

        A previous value that differs is returned and recorded as contradicted.

        Args:
            key: Key of the fact.
            value: Value of the fact.
            principal: Person [default: the agent].
            confidence: Confidence, 0 to 1.
            learned_from: Source: a message id or a URL.
            agent_id: Act as this agent.
        """
        ...

    def fact_get(self, key: str, *, principal: str | None = None) -> FactView:
        """Read a fact about a person.

        Args:
            key: Key of the fact.
            principal: Person [default: the agent].
        """
        ...

    def fact_list(self, *, principal: str | None = None, deleted: bool = False) -> Facts:
        """List the facts about a person.

        Args:
            principal: Person [default: the agent].
            deleted: List deleted facts instead.

        Returns:
            Facts: iterate over it for its `facts`.
        """
        ...

    def fact_everybody(self, key: str | None = None, *, limit: int = 100, offset: int = 0) -> Facts:
        """List facts about all people, optionally of one key.

        Args:
            key: Only facts with this key.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Facts: iterate over it for its `facts`.
        """
        ...

    def fact_delete(
        self, key: str | None = None, *, principal: str | None = None, every: bool = False, agent_id: str | None = None
    ) -> Facts:
        """Delete a fact, or all facts of a person; `fact restore` undoes it.

        Args:
            key: Key of the fact to delete.
            principal: Person [default: the agent].
            every: Delete all facts of the person.
            agent_id: Act as this agent.

        Returns:
            Facts: iterate over it for its `facts`.
        """
        ...

    def fact_restore(self, key: str, *, principal: str | None = None, agent_id: str | None = None) -> FactView:
        """Restore the most recently deleted fact of a key.

        Args:
            key: Key of the fact.
            principal: Person [default: the agent].
            agent_id: Act as this agent.
        """
        ...

    def fact_history(self, key: str, *, principal: str | None = None) -> FactHistory:
        """Show all values of a fact over time.

        Args:
            key: Key of the fact.
            principal: Person [default: the agent].

        Returns:
            FactHistory: iterate over it for its `past`.
        """
        ...

    def feedback(
        self,
        recall_id: str,
        verdict: Literal["used", "ignored", "wrong"] | None = None,
        ids: builtins.list[str] = [],
        *,
        verdicts: dict[str, Literal["used", "ignored", "wrong"]] = {},
    ) -> FeedbackResult:
        """Rate recall hits as used, ignored or wrong.

        Args:
            recall_id: The recall_id of a recall.
            verdict: Verdict on the hits.
            ids: Ids of the hits.
            verdicts: A verdict for each id.

        Returns:
            FeedbackResult: iterate over it for its `judged`.
        """
        ...

    def recalls(self, *, agent_id: str | None = None, before: str = "", limit: int = 20) -> RecallPage:
        """List logged recalls with their hits and verdicts, newest first.

        Args:
            agent_id: Only those of this agent.
            before: Only recalls before this recall_id.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            RecallPage: iterate over it for its `recalls`.
        """
        ...

    def link(
        self,
        source_id: str,
        target_id: str,
        *,
        relation: Literal[
            "related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"
        ] = "related_to",
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
    ) -> LinkResult:
        """Create a typed, dated link between two memories.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            target_id: Target memory: an id, or an unambiguous prefix.
            relation: supersedes: new to old; derived_from, derives_from, reflects_on: derived memory to source.
            valid_from: Start of validity; default: now.
            valid_until: End of validity.
        """
        ...

    def get_links(
        self, id: str, *, valid_at: datetime | str | None = None, limit: int = 1000, offset: int = 0
    ) -> LinkPage:
        """List the links of a memory in both directions, including ended ones.

        Args:
            id: Id or unambiguous id prefix.
            valid_at: Only links valid at this time.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            LinkPage: iterate over it for its `links`.
        """
        ...

    def kg_invalidate(
        self,
        source_id: str,
        target_id: str,
        relation: Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"],
        *,
        valid_until: datetime | str | None = None,
    ) -> InvalidateResult:
        """End a link. It stays in history with its end date.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            target_id: Target memory: an id, or an unambiguous prefix.
            relation: supersedes: new to old; derived_from, derives_from, reflects_on: derived memory to source.
            valid_until: End of validity; default: now.
        """
        ...

    def kg_query(
        self,
        source_id: str,
        *,
        max_depth: int = 1,
        valid_at: datetime | str | None = None,
        allowed_agents: builtins.list[str] | None = None,
        namespace: str | None = None,
        relations: builtins.list[
            Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"]
        ] = [],
        limit: int = 200,
        include_invalidated: bool = False,
    ) -> KgQueryResult:
        """Follow outgoing links from a memory, up to a depth.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            max_depth: Maximum number of links to follow (1 to 5).
            valid_at: Only links valid at this time; default: now.
            allowed_agents: Only links created by these agents; an empty list: none.
            namespace: Only memories of this namespace.
            relations: Only these relations.
            limit: Maximum number of results (1 to 1,000).
            include_invalidated: Include invalidated links.

        Returns:
            KgQueryResult: iterate over it for its `memories`.
        """
        ...

    def find_paths(
        self,
        source_id: str,
        target_id: str,
        *,
        max_depth: int = 4,
        max_results: int = 10,
        include_invalidated: bool = False,
        valid_at: datetime | str | None = None,
    ) -> FindPathsResult:
        """Find the shortest paths between two memories.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            target_id: Target memory: an id, or an unambiguous prefix.
            max_depth: Maximum length of a path, in links (1 to 7).
            max_results: Maximum number of paths (1 to 50).
            include_invalidated: Include invalidated links.
            valid_at: Only links valid at this time; default: now.
        """
        ...

    def lineage(
        self,
        id: str,
        *,
        direction: Literal["ancestors", "descendants"] = "ancestors",
        max_depth: int = 5,
        valid_at: datetime | str | None = None,
    ) -> LineageResult:
        """List the ancestors or descendants of a memory.

        Args:
            id: Id or unambiguous id prefix.
            direction: ancestors: its sources; descendants: memories derived from it.
            max_depth: Maximum distance (1 to 10).
            valid_at: Only links valid at this time; default: now.

        Returns:
            LineageResult: iterate over it for its `nodes`.
        """
        ...

    def graph(
        self,
        id: str | None = None,
        *,
        namespace: str | None = None,
        max_depth: int = 2,
        relations: builtins.list[
            Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"]
        ] = [],
        valid_at: datetime | str | None = None,
        include_invalidated: bool = False,
        limit: int = 100,
        format: Literal["list", "json", "mermaid", "dot"] = "list",
    ) -> GraphResult:
        """Show the graph around a memory or of a namespace, optionally as a diagram.

        Args:
            id: Center memory; alternative to namespace.
            namespace: Linked memories of this namespace and below.
            max_depth: Maximum distance from the memory (1 to 5).
            relations: Only these relations.
            valid_at: Only links valid at this time; default: now.
            include_invalidated: Include invalidated links.
            limit: Maximum number of memories (1 to 1,000).
            format: list or json: memories and links; mermaid or dot: diagram text.
        """
        ...

    def entity_register(
        self,
        canonical_name: str,
        namespace: str,
        *,
        aliases: builtins.list[str] = [],
        content: str | None = None,
        metadata: dict[str, Any] = {},
        agent_id: str | None = None,
    ) -> EntityRegisterResult:
        """Register an entity with a main name and aliases.

        Args:
            canonical_name: Its main name.
            namespace: Namespace path, at most 8 segments, such as team/project.
            aliases: Its other names.
            content: Description; default: its name.
            metadata: Any JSON object.
            agent_id: Act as this agent.
        """
        ...

    def entity_get_by_alias(self, alias: str, *, namespace: str | None = None) -> EntityResult:
        """Find an entity by name or alias; the newest if several match.

        Args:
            alias: Name or alias, case-insensitive.
            namespace: Namespace path, at most 8 segments, such as team/project.
        """
        ...

    def hooks_list(self) -> HookList:
        """List the lifecycle hooks of this machine in call order.

        Returns:
            HookList: iterate over it for its `hooks`.
        """
        ...

    def hooks_test(
        self,
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
        ],
        *,
        arguments: dict[str, Any] = {},
        namespace: str | None = None,
    ) -> HooksTestResult:
        """Run the hooks of an event and show their answers, without the operation.

        Args:
            event: Event to test.
            arguments: Arguments of the operation, as JSON.
            namespace: Namespace path, at most 8 segments, such as team/project.
        """
        ...

    def ingest(
        self,
        file: str | None = None,
        *,
        content: str | None = None,
        namespace: str | None = None,
        source_uri: str | None = None,
        pipeline: str | None = None,
        pipeline_override: dict[str, Any] | None = None,
        tags: builtins.list[str] = [],
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        dry_run: bool = False,
        again: bool = False,
        agent_id: str | None = None,
    ) -> IngestResult:
        """Ingest a document: chunk, deduplicate, store with source positions.

        Ingesting the same document again does nothing. In an edited one, changed segments supersede earlier versions.

        Args:
            file: Text or Markdown file; - reads standard input.
            content: The text of the document.
            namespace: Namespace path, at most 8 segments, such as team/project.
            source_uri: Source URI; identifies the document when it is ingested again.
            pipeline: plain (default), two_phase, four_step, or a TOML or JSON file.
            pipeline_override: Inline pipeline: `stages`, and `name` or `variant`.
            tags: Tags.
            scope: private: visible to you and agents you share it with.
            dry_run: Report what would be stored without storing it.
            again: Ingest again: store segments deleted since the last time.
            agent_id: Act as this agent.
        """
        ...

    def pipelines(self, name: str | None = None) -> PipelineList:
        """List ingest pipelines, or validate a pipeline file.

        Args:
            name: Show only this pipeline: a name or a file.

        Returns:
            PipelineList: iterate over it for its `pipelines`.
        """
        ...

    def interaction_record(
        self,
        status: Literal["ok", "error", "denied"],
        *,
        principal: str | None = None,
        name: str = "",
        channel: str = "",
        action: str = "",
        reason: str = "",
        input: str | None = None,
        output: str | None = None,
        provider: str = "",
        model: str = "",
        took_ms: int | None = None,
        conversation_id: str = "",
        at: datetime | str | None = None,
        unique_key: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> InteractionRecordResult:
        """Record a request to an agent and its decision in the journal.

        The policy of the namespace decides whether text is kept, hashed or omitted.

        Args:
            status: Decision: ok, error or denied.
            principal: Person who asked [default: the agent].
            name: Display name of the person.
            channel: Channel, such as cli or slack.
            action: Requested action, such as a tool.
            reason: Reason of the denial or error.
            input: Text of the request; stored as the namespace policy allows.
            output: Text of the answer; stored as the namespace policy allows.
            provider: Provider of the model.
            model: Model that answered.
            took_ms: Duration in milliseconds (0 to 1,000,000,000,000).
            conversation_id: Id of the conversation.
            at: Time [default: now].
            unique_key: Idempotency key: repeats are recorded once.
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    def interaction_list(
        self,
        *,
        status: builtins.list[Literal["ok", "error", "denied"]] = [],
        principal: builtins.list[str] = [],
        channel: str | None = None,
        namespace: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Interactions:
        """List interactions, latest first.

        Agents see those they recorded and their own; admins of the store see all.

        Args:
            status: Only these decisions.
            principal: Only these people.
            channel: Only this channel.
            namespace: Namespace path, at most 8 segments, such as team/project.
            since: From this time on.
            until: Before this time.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Interactions: iterate over it for its `interactions`.
        """
        ...

    def interaction_show(self, id: str) -> Interaction:
        """Show one interaction in full.

        Args:
            id: Id of the interaction.
        """
        ...

    def interaction_erase(self, older_than_days: int, *, agent_id: str | None = None) -> InteractionEraseResult:
        """Erase text and person of old interactions; decisions remain.

        Args:
            older_than_days: Minimum age in days (0 to 36,500).
            agent_id: Act as this agent.
        """
        ...

    def import_kernex(
        self, path: str, *, namespace: str = "kernex", dry_run: bool = False, agent_id: str | None = None
    ) -> KernexImportResult:
        """Import a kernex store: conversations, facts, lessons, tasks, usage and more.

        The file is only read. A repeated import adds what is new. A row that cannot be imported is reported; the others
        are imported.

        Args:
            path: The kernex database, such as ~/.kernex/memory.db.
            namespace: Target namespace; projects go below it.
            dry_run: Report what would happen, write nothing.
            agent_id: Act as this agent.
        """
        ...

    def lesson_add(
        self,
        rule: str,
        domain: str,
        *,
        namespace: str | None = None,
        principal: str | None = None,
        outcomes: builtins.list[str] = [],
        agent_id: str | None = None,
    ) -> LessonAddResult:
        """Add a lesson, or strengthen the existing one with the same rule.

        A domain keeps ten lessons: the weakest beyond that are archived, never the one just added.

        Args:
            rule: The rule, in one sentence.
            domain: Topic, such as testing.
            namespace: Namespace path, at most 8 segments, such as team/project.
            principal: Person or agent (default: the calling agent).
            outcomes: Ids of outcomes that support the lesson.
            agent_id: Act as this agent.
        """
        ...

    def lesson_list(
        self, *, namespace: str | None = None, domain: str | None = None, principal: str | None = None, limit: int = 50
    ) -> Lessons:
        """List lessons by confidence; a namespace comes before its parents.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            domain: Topic, such as testing.
            principal: Person or agent (default: the calling agent).
            limit: Maximum number of lessons (1 to 1,000).

        Returns:
            Lessons: iterate over it for its `lessons`.
        """
        ...

    def lesson_suggest(
        self, *, namespace: str | None = None, domain: str | None = None, principal: builtins.list[str] = []
    ) -> Proposals:
        """Suggest lessons from outcomes that occurred three times or more.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            domain: Topic, such as testing.
            principal: Only of these people or agents.

        Returns:
            Proposals: iterate over it for its `proposals`.
        """
        ...

    def outcome_record(
        self,
        what: str = "",
        *,
        score: int,
        domain: str,
        lesson_id: str | None = None,
        namespace: str | None = None,
        principal: str | None = None,
        source: str = "conversation",
        agent_id: str | None = None,
    ) -> OutcomeRecordResult:
        """Record an outcome; it strengthens or weakens the matching lesson.

        Args:
            what: What happened, or the lesson from it.
            score: 1: success, -1: failure, 0: neutral.
            domain: Topic, such as testing.
            lesson_id: Lesson that this outcome confirms or contradicts.
            namespace: Namespace path, at most 8 segments, such as team/project.
            principal: Person or agent (default: the calling agent).
            source: Where the outcome was observed.
            agent_id: Act as this agent.
        """
        ...

    def outcome_list(
        self,
        *,
        namespace: str | None = None,
        domain: str | None = None,
        principal: builtins.list[str] = [],
        since: datetime | str | None = None,
        archived: bool = False,
        limit: int = 50,
    ) -> Outcomes:
        """List outcomes, newest first.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            domain: Topic, such as testing.
            principal: Only of these people or agents.
            since: RFC 3339 time or date.
            archived: Include archived outcomes.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Outcomes: iterate over it for its `outcomes`.
        """
        ...

    def llm_test(self) -> ModelReport:
        """Test the configured model with a small question.

        Uses a few hundred tokens of the daily budget. Every feature also works without a model.
        """
        ...

    def llm_usage(self, *, days: int = 30) -> UsagePage:
        """Show model usage by day, task and model, and today's remaining budget.

        Args:
            days: Number of days, including today (1 to 400).

        Returns:
            UsagePage: iterate over it for its `usage`.
        """
        ...

    def namespaces(self) -> NamespacesResult:
        """List namespaces with their memory counts.

        Returns:
            NamespacesResult: iterate over it for its `namespaces`.
        """
        ...

    def get_taxonomy(self, namespace_prefix: str | None = None, *, depth: int = 8, limit: int = 1000) -> TaxonomyResult:
        """Show namespaces as a tree with memory counts.

        Args:
            namespace_prefix: Only this namespace and below.
            depth: Number of levels below the prefix (0 to 8).
            limit: Maximum number of namespaces, largest first (1 to 10,000).
        """
        ...

    def namespace_set_standard(self, namespace: str, id: str, *, parent: str | None = None) -> SetStandardResult:
        """Set the standard of a namespace: a memory shown in every session there.

        Args:
            namespace: Namespace, or * for all.
            id: Memory that states how the namespace works.
            parent: Namespace whose standard also applies here.
        """
        ...

    def namespace_get_standard(self, namespace: str, *, inherit: bool = False) -> GetStandardResult:
        """Show the standard of a namespace, or all that apply to it.

        Args:
            namespace: Namespace, or * for all.
            inherit: Include inherited standards.
        """
        ...

    def namespace_clear_standard(self, namespace: str) -> ClearResult:
        """Remove the standard of a namespace; the memory stays.

        Args:
            namespace: Namespace, or * for all.
        """
        ...

    def policy_set(
        self,
        namespace: str,
        *,
        max_reflection_depth: int | None = None,
        require_approval_above_depth: int | None = None,
        self_approval: bool | None = None,
        invalidation_hops: int | None = None,
        skill_promotion_min_depth: int | None = None,
        secrets: Literal["allow", "flag", "redact", "refuse"] | None = None,
        interaction_text: Literal["keep", "hash", "omit"] | None = None,
        inherit: builtins.list[str] = [],
    ) -> PolicyView:
        """Set rules for a namespace and all below; others stay.

        Args:
            namespace: Namespace, or * for all.
            max_reflection_depth: Maximum depth of reflections; 0: none allowed.
            require_approval_above_depth: Deeper reflections need approval; 32: none do.
            self_approval: Let requesters approve their own requests.
            invalidation_hops: Distance up to which dependents are flagged stale (1 to 64).
            skill_promotion_min_depth: Minimum depth of a reflection promoted to a skill (1 to 32).
            secrets: Secrets in stored text: allow, flag, redact or refuse.
            interaction_text: Text of recorded interactions: keep, hash or omit.
            inherit: Rules to unset, so that they are inherited.
        """
        ...

    def policy_get(self, namespace: str) -> PolicyView:
        """Show the effective rules of a namespace and where they are set.

        Args:
            namespace: Namespace, or * for all.
        """
        ...

    def policy_clear(self, namespace: str) -> ClearResult:
        """Remove the policy of a namespace; inherited rules apply.

        Args:
            namespace: Namespace, or * for all.
        """
        ...

    def observation_save(
        self,
        title: str,
        type: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"],
        *,
        what: str | None = None,
        why: str | None = None,
        where: str | None = None,
        learned: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> ObservationView:
        """Store a typed observation: what, why, where, and the lesson from it.

        Args:
            title: Short title.
            type: Type of observation.
            what: What was observed or done.
            why: Why it happened or was done.
            where: Files or places concerned.
            learned: The lesson from it.
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    def observation_update(
        self,
        id: str,
        *,
        title: str | None = None,
        type: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"] | None = None,
        what: str | None = None,
        why: str | None = None,
        where: str | None = None,
        learned: str | None = None,
        agent_id: str | None = None,
    ) -> ObservationView:
        """Change parts of an observation; an empty value removes a part.

        Args:
            id: Id or unambiguous id prefix.
            title: New title.
            type: New type.
            what: New text; empty removes it.
            why: New text; empty removes it.
            where: New text; empty removes it.
            learned: New text; empty removes it.
            agent_id: Act as this agent.
        """
        ...

    def observation_search(
        self,
        query: str | None = None,
        *,
        type: builtins.list[
            Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
        ] = [],
        namespace: str | None = None,
        since: datetime | str | None = None,
        limit: int = 20,
    ) -> Observations:
        """Search observations by keywords and type, or list the newest.

        Args:
            query: Keywords (default: list the newest).
            type: Only of these types.
            namespace: Namespace path, at most 8 segments, such as team/project.
            since: RFC 3339 time or date.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Observations: iterate over it for its `observations`.
        """
        ...

    def limitation_add(
        self,
        title: str,
        *,
        description: str = "",
        plan: str = "",
        evidence: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> LimitationAddResult:
        """Add a limitation, or add evidence to the existing one.

        Args:
            title: Short title.
            description: What does not work.
            plan: Planned fix.
            evidence: What happened this time.
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    def limitation_resolve(self, id: str, *, how: str = "", agent_id: str | None = None) -> LimitationView:
        """Mark a limitation as resolved.

        Args:
            id: Id or unambiguous id prefix.
            how: How it was fixed.
            agent_id: Act as this agent.
        """
        ...

    def limitation_list(
        self, *, status: Literal["open", "resolved", "all"] = "open", namespace: str | None = None, limit: int = 50
    ) -> Limitations:
        """List limitations, oldest first.

        Args:
            status: Only with this status.
            namespace: Namespace path, at most 8 segments, such as team/project.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Limitations: iterate over it for its `limitations`.
        """
        ...

    def history(self, id: str, *, after: int = 0, limit: int = 100) -> HistoryPage:
        """List every change of a memory, oldest first.

        Args:
            id: Id or unambiguous id prefix.
            after: Only changes after this sequence number (0 to 9,007,199,254,740,991).
            limit: Maximum number of results (1 to 1,000).

        Returns:
            HistoryPage: iterate over it for its `changes`.
        """
        ...

    def undo(self, change: int, *, together: bool = False) -> UndoResult:
        """Undo a change. The undo is a new change and can be undone too.

        Args:
            change: Sequence number of the change (1 to 9,007,199,254,740,991).
            together: Undo everything committed in the same transaction.
        """
        ...

    def verify(self, *, witness: str | None = None) -> VerifyResult:
        """Check the journal for edited, removed, reordered or truncated entries.

        Args:
            witness: seq:hash of an earlier head, saved outside the store.
        """
        ...

    def events(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        events: builtins.list[str] = [],
        namespace: str | None = None,
        agent_filter: str | None = None,
    ) -> EventPage:
        """List changes by sequence number, with the same filters as subscriptions.

        Args:
            after: Only changes after this sequence number (0 to 9,007,199,254,740,991).
            limit: Maximum number of results (1 to 1,000).
            events: Only these events: memory_store, memory_*, ... (default: all).
            namespace: Only this namespace or pattern: team/project, or team/**.
            agent_filter: Only changes made by this agent.

        Returns:
            EventPage: iterate over it for its `events`.
        """
        ...

    def peer_hello(self, message: dict[str, Any]) -> PeerHello:
        """Exchange identities, version vectors and cursors with another store.

        Args:
            message: The request message, as the sync protocol defines it.
        """
        ...

    def peer_feed(self, message: dict[str, Any]) -> PeerFeed:
        """Return the changes that another store is missing.

        Args:
            message: The request message, as the sync protocol defines it.
        """
        ...

    def peer_take(self, message: dict[str, Any]) -> PeerTakeResult:
        """Apply a page of changes in one transaction, with an outcome for each.

        Args:
            message: The request message, as the sync protocol defines it.
        """
        ...

    def peer_token(self) -> PeerToken:
        """Print the token with which another store enrols this one."""
        ...

    def peer_add(
        self,
        name: str,
        token: str,
        *,
        url: str | None = None,
        tell: builtins.list[str] | None = None,
        take: builtins.list[str] | None = None,
        admin: bool = False,
        fingerprint: str | None = None,
    ) -> Peer:
        """Enrol another store as a peer, limited to the given namespaces.

        Without patterns it may read and write every namespace. Policies, grants, standards and erasure requests need
        `admin`.

        Args:
            name: A local name for the peer.
            token: The output of `sync peers token` on the other store.
            url: Its server address: https://desk.example:9077.
            tell: Namespaces it may read: team/**, notes/*, ** for all.
            take: Namespaces it may write; '' for none.
            admin: Also accept policies, grants, standards and erasure requests from it.
            fingerprint: SHA-256 of its server certificate, to pin it.
        """
        ...

    def peer_list(self) -> PeerPage:
        """List enrolled peers and the namespaces each may read and write.

        Returns:
            PeerPage: iterate over it for its `peers`.
        """
        ...

    def peer_set(
        self,
        name: str,
        *,
        url: str | None = None,
        tell: builtins.list[str] | None = None,
        take: builtins.list[str] | None = None,
        admin: bool | None = None,
        fingerprint: str | None = None,
        token: str | None = None,
    ) -> Peer:
        """Change the settings of a peer; omitted fields keep their values.

        A token is needed only if the peer has a new key. Records that enter its namespaces are sent to it; records that
        leave them stay there unchanged.

        Args:
            name: A local name for the peer.
            url: Its server address: https://desk.example:9077.
            tell: Namespaces it may read: team/**, notes/*, ** for all.
            take: Namespaces it may write; '' for none.
            admin: Also accept policies, grants, standards and erasure requests from it.
            fingerprint: SHA-256 of its server certificate, to pin it.
            token: The output of `sync peers token` on the other store.
        """
        ...

    def peer_remove(self, name: str) -> Peer:
        """Remove a peer immediately; data it sent before stays.

        Args:
            name: A local name for the peer.
        """
        ...

    def peer_certificate(
        self, name: str, *, host: builtins.list[str] | None = None, folder: str = "certificates"
    ) -> CertificateResult:
        """Create a server and client certificate for a store.

        The first one in a folder also creates its signing CA. Key files are readable by their owner only and have no
        password.

        Args:
            name: A local name for the peer.
            host: Host names and addresses of the server [default: its name].
            folder: Directory for the files and the signing CA.
        """
        ...

    def pending_list(
        self, *, status: Literal["pending", "approved", "rejected"] | None = None, limit: int = 100
    ) -> PendingPage:
        """List pending and decided requests, newest first.

        Args:
            status: Only with this status.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            PendingPage: iterate over it for its `pending`.
        """
        ...

    def pending_approve(self, id: str) -> ApproveResult:
        """Approve a pending request; it runs at once, as its requester.

        Args:
            id: Id of the pending action.
        """
        ...

    def pending_reject(self, id: str, *, reason: str | None = None) -> RejectResult:
        """Reject a pending request, or withdraw your own.

        Args:
            id: Id of the pending action.
            reason: Why, in one line.
        """
        ...

    def principal_merge(self, alias: str, principal: str, *, agent_id: str | None = None) -> PrincipalNames:
        """Make a name an alias of a person.

        Both names then share what is known of either. Records keep the name they were written under, so `person unalias`
        can separate them again.

        Args:
            alias: Name that becomes an alias.
            principal: Principal it becomes an alias of.
            agent_id: Act as this agent.
        """
        ...

    def principal_split(self, alias: str, *, agent_id: str | None = None) -> PrincipalNames:
        """Separate an alias from its principal, with everything written under it.

        Args:
            alias: Alias to separate.
            agent_id: Act as this agent.
        """
        ...

    def principal_describe(self, name: str, display: str, *, agent_id: str | None = None) -> PrincipalNames:
        """Set the display name of a person or an agent.

        Args:
            name: A name, such as ann or slack:U42.
            display: Display name.
            agent_id: Act as this agent.
        """
        ...

    def principal_show(self, name: str) -> PrincipalNames:
        """Show the principal of a name and all its aliases.

        Args:
            name: A name, such as ann or slack:U42.
        """
        ...

    def principal_list(self, *, limit: int = 100, after: str = "") -> Names:
        """List known names and the principals they stand for.

        Args:
            limit: Maximum number of results (1 to 1,000).
            after: Only names after this one.

        Returns:
            Names: iterate over it for its `names`.
        """
        ...

    def principal_purge(self, name: str, *, agent_id: str | None = None) -> ErasureResult:
        """Erase a person permanently, under every name, here and in synced stores.

        Deletes rows, history, index entries and embeddings. A digest of each name, the time, the agent and the counts
        remain. Backups are not changed.

        Args:
            name: Any name of the person.
            agent_id: Act as this agent.
        """
        ...

    def principal_forgotten(self, name: str) -> ErasureResult:
        """Show the record of a person's erasure.

        Args:
            name: A name, such as ann or slack:U42.
        """
        ...

    def quarantine(self, *, limit: int = 50, offset: int = 0) -> QuarantinePage:
        """List rejected changes of other stores with their reasons, newest first.

        Args:
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            QuarantinePage: iterate over it for its `quarantined`.
        """
        ...

    def quarantine_show(self, id: str) -> QuarantinedChangeDetails:
        """Show a rejected change and its content.

        Args:
            id: Id of the rejected change.
        """
        ...

    def quarantine_retry(self, ids: builtins.list[str] = [], *, trust_source: bool = False) -> QuarantineRetryResult:
        """Retry changes in quarantine as if they had just arrived.

        A change that is rejected again stays in quarantine with its reason.

        Args:
            ids: Ids of the changes [default: all].
            trust_source: Keep the owners of new memories; otherwise you own them.
        """
        ...

    def quarantine_drop(self, ids: builtins.list[str]) -> QuarantineDropResult:
        """Delete changes from quarantine and reject them in the future.

        They are rejected whoever sends them again. A different change with the same origin and number is accepted.

        Args:
            ids: Ids of the changes.

        Returns:
            QuarantineDropResult: iterate over it for its `dropped`.
        """
        ...

    def reflect(
        self,
        source_ids: builtins.list[str],
        title: str,
        content: str,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        tags: builtins.list[str] = [],
        priority: int = 5,
        confidence: float = 1.0,
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        metadata: dict[str, Any] = {},
        depth: int | None = None,
        agent_id: str | None = None,
    ) -> ReflectResult:
        """Store a conclusion with its sources.

        Its depth is one more than the deepest source, up to the limit of the namespace's policy. The title must be free.

        Args:
            source_ids: Memories that it is derived from.
            title: Title, unique in its namespace.
            content: The conclusion.
            namespace: Namespace; default: that of the first source.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            tags: Tags.
            priority: Priority, 1 to 10.
            confidence: Confidence, 0 to 1.
            scope: Who may see it; default: narrowest scope of the sources.
            metadata: Any JSON object.
            depth: Fail unless the depth is this (1 to 1,000).
            agent_id: Act as this agent.
        """
        ...

    def reflection_origin(self, memory_id: str) -> ReflectionOriginResult:
        """Show who created a reflection, on which node, and its depths.

        Args:
            memory_id: Id, or an unambiguous prefix of one.
        """
        ...

    def reflect_suggest(
        self,
        *,
        namespace: str | None = None,
        days: int = 30,
        min_size: int = 3,
        max_size: int = 12,
        limit: int = 10,
        again: bool = False,
        draft: bool = True,
        dry_run: bool = False,
    ) -> Suggestions:
        """Propose reflections on groups of similar recent observations.

        The same observations give the same proposals, and each proposal is made once. Nothing is stored as a memory. Each
        comes with a draft, from the sources' sentences or from the configured model; a dry run calls no model.

        Args:
            namespace: Only this namespace and below.
            days: Age limit of the observations, in days (1 to 3,650).
            min_size: Minimum number of sources (2 to 64).
            max_size: Maximum number of sources (2 to 64).
            limit: Maximum number of proposals (1 to 100).
            again: Include earlier proposals that were not dismissed.
            draft: Draft a conclusion for each (with a model if set).
            dry_run: Do not record these as proposed.

        Returns:
            Suggestions: iterate over it for its `suggestions`.
        """
        ...

    def reflect_dismiss(self, offer_id: str) -> DismissResult:
        """Never propose these sources together again.

        Args:
            offer_id: Id of the proposal.
        """
        ...

    def export_reflection(self, memory_id: str, *, format: Literal["md", "json"] = "md") -> ReflectionText:
        """Export one reflection with its sources, as Markdown or JSON.

        Args:
            memory_id: Id, or an unambiguous prefix of one.
            format: md (Markdown) or json.
        """
        ...

    def export_reflections(
        self, out_dir: str, *, namespace: str | None = None, since: datetime | str | None = None
    ) -> ExportReflectionsResult:
        """Export all visible reflections to a folder of Markdown files.

        Files are replaced atomically. Files of reflections that are no longer live are removed; files that Holdfast did not
        write are reported and left unchanged.

        Args:
            out_dir: Output folder; created if missing.
            namespace: Only this namespace and below.
            since: Only those created since; removes no files.
        """
        ...

    def import_reflections(
        self,
        path: str,
        *,
        trust_source: bool = True,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        dry_run: bool = False,
    ) -> ImportReflectionsResult:
        """Import reflections from a folder of files, in one transaction.

        Rejected files are reported; all others are imported. Importing the same files again changes nothing.

        Args:
            path: Folder written by export_reflections.
            trust_source: Keep their owners; otherwise you become the owner.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            dry_run: Only report what would change.
        """
        ...

    def run_open(
        self,
        topology: str,
        phases: builtins.list[str],
        *,
        id: str | None = None,
        definition: dict[str, Any] = {},
        inputs: dict[str, Any] = {},
        owner: str | None = None,
        seconds: int = 300,
        principal: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> RunDetails:
        """Start a run, or resume it at its first incomplete phase, under a lease.

        A run resumes only with the same plan and inputs. Completed phases keep their output.

        Args:
            topology: Name of the plan.
            phases: Phases in order.
            id: Id of the run to resume, or for a new one.
            definition: Anything else that defines the plan; a change makes it a different plan.
            inputs: Inputs of this run.
            owner: Owner of the lease [default: the agent].
            seconds: Length of the lease in seconds (1 to 86,400).
            principal: Owner [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    def run_step(
        self,
        id: str,
        token: int,
        phase: str,
        state: Literal["in_progress", "completed", "failed"],
        *,
        output: str | None = None,
        error: str | None = None,
        seconds: int = 300,
        agent_id: str | None = None,
    ) -> StepResult:
        """Record that a phase started, completed or failed; extends the lease.

        Args:
            id: Id of a run.
            token: Fencing token returned by run open (1 to 9,007,199,254,740,991).
            phase: Name of the phase.
            state: New state of the phase.
            output: Output of the phase, complete or partial.
            error: Why it failed.
            seconds: Length of the lease in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    def run_heartbeat(self, id: str, token: int, *, seconds: int = 300, agent_id: str | None = None) -> Run:
        """Extend the lease of a run.

        Args:
            id: Id of a run.
            token: Fencing token returned by run open (1 to 9,007,199,254,740,991).
            seconds: Length of the lease in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    def run_close(self, id: str, token: int, *, error: str | None = None, agent_id: str | None = None) -> RunDetails:
        """End a run: completed, or failed with an error and resumable.

        Args:
            id: Id of a run.
            token: Fencing token returned by run open (1 to 9,007,199,254,740,991).
            error: Why the run failed; it can be resumed.
            agent_id: Act as this agent.
        """
        ...

    def run_show(self, id: str) -> RunDetails:
        """Show a run and the state of its phases.

        Args:
            id: Id of a run.
        """
        ...

    def run_list(
        self,
        *,
        state: Literal["running", "completed", "failed"] | None = None,
        principal: builtins.list[str] = [],
        limit: int = 50,
        offset: int = 0,
    ) -> RunPage:
        """List runs, most recently updated first.

        Args:
            state: Only runs in this state.
            principal: Only runs of these principals.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            RunPage: iterate over it for its `runs`.
        """
        ...

    def run_clear(self, id: str, *, agent_id: str | None = None) -> RunClearResult:
        """Delete a run with its phases and output, unless its lease is live.

        Args:
            id: Id of a run.
            agent_id: Act as this agent.
        """
        ...

    def session_keep(
        self,
        session_id: str,
        provider: str,
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        expires_at: datetime | str | None = None,
        agent_id: str | None = None,
    ) -> ProviderSession:
        """Save the current provider session of a channel, principal and namespace.

        Args:
            session_id: Session id given by the provider.
            provider: Provider of the session, such as claude.
            channel: Channel of the session.
            principal: Owner [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            expires_at: RFC 3339 time or date.
            agent_id: Act as this agent.
        """
        ...

    def session_get(
        self,
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        provider: str | None = None,
    ) -> SessionGetResult:
        """Get the current provider session, if any.

        Args:
            channel: Channel of the session.
            principal: Owner [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            provider: Only a session of this provider.
        """
        ...

    def session_clear(
        self,
        *,
        principal: str | None = None,
        channel: str = "",
        namespace: str | None = None,
        everywhere: bool = False,
        agent_id: str | None = None,
    ) -> SessionClearResult:
        """Delete the saved session of one scope, or all of them.

        Args:
            principal: Owner [default: the agent].
            channel: Channel of the session.
            namespace: Namespace path, at most 8 segments, such as team/project.
            everywhere: In every channel and namespace.
            agent_id: Act as this agent.
        """
        ...

    def subscribe(
        self,
        url: str,
        *,
        events: builtins.list[str] = [],
        namespace: str | None = None,
        agent_filter: str | None = None,
        secret: str | None = None,
        after: int | None = None,
        agent_id: str | None = None,
    ) -> SubscribeResult:
        """Send changes to a webhook (signed, retried).

        Changes are sent in order, and only those that you may see. Not available over MCP: a model must not decide where
        memories are sent.

        Args:
            url: URL to post events to: https://...
            events: Only these events: memory_store, memory_*, ... (default: all).
            namespace: Only this namespace or pattern: team/project, or team/**.
            agent_filter: Only changes made by this agent.
            secret: Signing secret [default: generated, shown once].
            after: Start after this change [default: with the next one] (0 to 9,007,199,254,740,991).
            agent_id: Act as this agent.
        """
        ...

    def subscription_list(self, *, limit: int = 100) -> SubscriptionPage:
        """List your subscriptions, without secrets; admins of the store see all.

        Args:
            limit: Maximum number of results (1 to 1,000).

        Returns:
            SubscriptionPage: iterate over it for its `subscriptions`.
        """
        ...

    def unsubscribe(self, id: str, *, agent_id: str | None = None) -> UnsubscribeResult:
        """Delete a subscription with its secret and dead letters.

        Args:
            id: Id of the subscription.
            agent_id: Act as this agent.
        """
        ...

    def subscription_deliveries(
        self,
        id: str | None = None,
        *,
        state: builtins.list[Literal["waiting", "delivered", "dead"]] = [],
        limit: int = 100,
    ) -> DeliveryPage:
        """List deliveries, latest first: delivered, waiting for a retry, or dead.

        Args:
            id: Only of this subscription.
            state: Only these states; dead: given up.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            DeliveryPage: iterate over it for its `deliveries`.
        """
        ...

    def subscription_replay(
        self,
        id: str,
        *,
        since: int | None = None,
        dead_letters: builtins.list[int] = [],
        all_dead_letters: bool = False,
        agent_id: str | None = None,
    ) -> SubscriptionReplayResult:
        """Resend events after a change, or dead letters; reactivates an ended subscription.

        Args:
            id: Id of the subscription.
            since: Resend everything after this change (0 to 9,007,199,254,740,991).
            dead_letters: Resend the dead letters of these changes.
            all_dead_letters: Resend all dead letters.
            agent_id: Act as this agent.
        """
        ...

    def subscription_test(self, id: str, *, agent_id: str | None = None) -> SubscriptionTestResult:
        """Post a signed test event once and show the receiver's answer.

        Args:
            id: Id of the subscription.
            agent_id: Act as this agent.
        """
        ...

    def task_add(
        self,
        title: str,
        due_at: datetime | str,
        *,
        repeat: str | None = None,
        zone: str = "UTC",
        misfire: Literal["skip", "once", "all"] = "once",
        principal: str | None = None,
        namespace: str | None = None,
        kind: str = "reminder",
        channel: str = "",
        reply_to: str = "",
        payload: dict[str, Any] = {},
        handler: Literal["none", "webhook", "command", "python", "job"] = "none",
        target: str = "",
        max_attempts: int = 5,
        timeout: int = 300,
        unique_key: str | None = None,
        agent_id: str | None = None,
    ) -> TaskAddResult:
        """Add a task: once or on a schedule, in a time zone.

        Adding an identical task again returns the existing one. Similar tasks are listed, never dropped.

        Args:
            title: What to do.
            due_at: RFC 3339 time; without an offset, local time in the zone.
            repeat: daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, a five-field cron rule, or FREQ=...
            zone: Time zone, such as Europe/Berlin.
            misfire: Missed runs: skip them, run once, or run all.
            principal: Owner of the task [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            kind: reminder, action, or a custom kind.
            channel: Channel of the request.
            reply_to: Where to send the result.
            payload: JSON object passed to the handler.
            handler: none: any agent claims it; otherwise a worker runs it (needs an admin key).
            target: URL, command, handler name or job of the handler.
            max_attempts: Maximum attempts per occurrence (1 to 100).
            timeout: Seconds that a worker allows for one attempt (1 to 86,400).
            unique_key: Reuse the existing task with this key.
            agent_id: Act as this agent.
        """
        ...

    def task_list(
        self,
        *,
        state: builtins.list[Literal["pending", "running", "done", "failed", "cancelled"]] = [],
        due: bool = False,
        principal: builtins.list[str] = [],
        limit: int = 50,
        offset: int = 0,
    ) -> TaskPage:
        """List your tasks by due time; an admin sees all.

        Args:
            state: States to include [default: pending, running].
            due: Only tasks that can be claimed now.
            principal: Only tasks of these principals.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            TaskPage: iterate over it for its `tasks`.
        """
        ...

    def task_show(self, id: str, *, principal: builtins.list[str] = []) -> Task:
        """Show a task.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            principal: Only tasks of these principals.
        """
        ...

    def task_update(
        self,
        id: str,
        *,
        title: str | None = None,
        due_at: datetime | str | None = None,
        repeat: str | None = None,
        zone: str | None = None,
        misfire: Literal["skip", "once", "all"] | None = None,
        kind: str | None = None,
        reply_to: str | None = None,
        payload: dict[str, Any] | None = None,
        max_attempts: int | None = None,
        timeout: int | None = None,
        principal: builtins.list[str] = [],
        agent_id: str | None = None,
    ) -> Task:
        """Change a pending task: title, due time, schedule or payload.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            title: New title.
            due_at: RFC 3339 time; without an offset, local time in the zone.
            repeat: daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, a five-field cron rule, or FREQ=...
            zone: Time zone, such as Europe/Berlin.
            misfire: Missed runs: skip them, run once, or run all.
            kind: New kind.
            reply_to: New address for the result.
            payload: JSON object passed to the handler.
            max_attempts: Maximum attempts per occurrence (1 to 100).
            timeout: Seconds that a worker allows for one attempt (1 to 86,400).
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    def task_defer(
        self, id: str, until: datetime | str, *, principal: builtins.list[str] = [], agent_id: str | None = None
    ) -> Task:
        """Postpone the next occurrence of a task; later ones keep their times.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            until: RFC 3339 time; without an offset, local time in the zone.
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    def task_cancel(self, id: str, *, principal: builtins.list[str] = [], agent_id: str | None = None) -> Task:
        """Cancel a task; a running attempt is asked to stop.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    def task_retry(self, id: str, *, principal: builtins.list[str] = [], agent_id: str | None = None) -> Task:
        """Retry a failed task immediately.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    def task_runs(self, id: str, *, limit: int = 20, principal: builtins.list[str] = []) -> TaskRunPage:
        """List the attempts of a task, newest first.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            limit: Maximum number of results (1 to 1,000).
            principal: Only tasks of these principals.

        Returns:
            TaskRunPage: iterate over it for its `runs`.
        """
        ...

    def task_claim(
        self,
        *,
        owner: str | None = None,
        limit: int = 10,
        seconds: int = 300,
        principal: builtins.list[str] = [],
        agent_id: str | None = None,
    ) -> ClaimResult:
        """Claim due tasks under a lease; each claim carries a fencing token.

        Each claim counts as an attempt. Tasks with a handler are left to workers.

        Args:
            owner: Owner of the lease [default: the agent].
            limit: Maximum number of tasks (1 to 1,000).
            seconds: Length of the lease in seconds (1 to 86,400).
            principal: Only tasks of these principals.
            agent_id: Act as this agent.

        Returns:
            ClaimResult: iterate over it for its `claimed`.
        """
        ...

    def task_heartbeat(
        self, id: str, token: int, *, seconds: int = 300, agent_id: str | None = None
    ) -> HeartbeatResult:
        """Extend the lease of a claimed task; reports whether to stop.

        Args:
            id: Full task id, as returned by claim.
            token: Fencing token returned by claim (1 to 9,007,199,254,740,991).
            seconds: Length of the lease in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    def task_finish(
        self,
        id: str,
        token: int,
        *,
        error: str | None = None,
        result: str | None = None,
        tokens_used: int | None = None,
        agent_id: str | None = None,
    ) -> FinishResult:
        """Finish a claimed task: done, or failed with an error and retried later.

        A finish with an expired lease or an older token is refused and changes nothing.

        Args:
            id: Full task id, as returned by claim.
            token: Fencing token returned by claim (1 to 9,007,199,254,740,991).
            error: Why it failed; omit if it succeeded.
            result: Result of the attempt.
            tokens_used: Model tokens used (0 to 1,099,511,627,776).
            agent_id: Act as this agent.
        """
        ...

    def export(self, *, namespace: str | None = None, simple: bool = False) -> Envelope:
        """Export the store as JSON (ai-memory v1 format), private memories included.

        Args:
            namespace: Only this namespace and those below it.
            simple: Only live memories and the links between them.
        """
        ...

    def import_(
        self,
        envelope: dict[str, Any],
        *,
        preserve_timestamps: bool = True,
        trust_source: bool = True,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        dry_run: bool = False,
    ) -> ImportResult:
        """Import an export in one transaction; rejected rows are reported.

        Importing the same export again changes nothing. Of two states of a record the later one is kept.

        Args:
            envelope: Output of export: a v1 envelope, or {memories, links}.
            preserve_timestamps: Keep times and versions of the file.
            trust_source: Keep owners, grants and messages of the file; otherwise memories become yours.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            dry_run: Report what would happen, write nothing.
        """
        ...

    def export_file(self, file: str, *, namespace: str | None = None) -> ExportFileResult:
        """Export a store of any size to a JSON file, row by row.

        The file is readable by its owner only and appears when it is complete.

        Args:
            file: A file, or - for a pipe.
            namespace: Only this namespace and those below it.
        """
        ...

    def import_file(
        self,
        file: str,
        *,
        preserve_timestamps: bool = True,
        trust_source: bool = True,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        dry_run: bool = False,
    ) -> ImportResult:
        """Import an export file of any size, in batches.

        The file is read completely first. Each batch is durable before the next: repeat an interrupted import to continue.

        Args:
            file: A file, or - for a pipe.
            preserve_timestamps: Keep times and versions of the file.
            trust_source: Keep owners, grants and messages of the file; otherwise memories become yours.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            dry_run: Report what would happen, write nothing.
        """
        ...

    def backup(self, *, to: str | None = None, keep: int = 48) -> BackupResult:
        """Write a consistent, hashed snapshot of the store while others write.

        Args:
            to: Directory [default: beside the store].
            keep: Snapshots to keep; older ones are removed (1 to 100,000).
        """
        ...

    def backup_list(self) -> Snapshots:
        """List the snapshots in the backup directory, newest first.

        Returns:
            Snapshots: iterate over it for its `snapshots`.
        """
        ...

    def restore(self, from_: str, *, dry_run: bool = False) -> StoreRestoreResult:
        """Replace the whole store with a verified snapshot, for every process.

        The current state is saved as a snapshot first. If the snapshot is invalid, nothing changes.

        Args:
            from_: Snapshot name; in the CLI also a path, or a directory (its newest snapshot).
            dry_run: Verify the snapshot; change nothing.
        """
        ...

    def doctor(self) -> DoctorReport:
        """Check the health of the store: files, journal, embeddings, peers, backups.

        Returns:
            DoctorReport: iterate over it for its `sections`.
        """
        ...

    def gc(self, *, dry_run: bool = False) -> GcResult:
        """Archive expired memories and delete records past their retention.

        Args:
            dry_run: Only report what would change.
        """
        ...

    def migrate(self, to: str, *, from_: str | None = None, dry_run: bool = False) -> MigrateResult:
        """Copy the store to a new file or database and verify every row.

        History and keys are copied too. Other processes can write until the last changes are copied. The source stays
        unchanged. An interrupted migration never leaves a usable target; run it again to continue.

        Args:
            to: A path, or postgresql://USER:PASSWORD@HOST/DATABASE: new, or an unfinished migration.
            from_: A path, or postgresql://USER:PASSWORD@HOST/DATABASE [default: the store in use].
            dry_run: Report what would be copied; change nothing.
        """
        ...

    def usage_record(
        self,
        model: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        principal: str | None = None,
        session: str = "",
        at: datetime | str | None = None,
        reservation: str | None = None,
        unique_key: str | None = None,
        agent_id: str | None = None,
    ) -> UsageRecordResult:
        """Record the tokens of a model call, at the price of that day.

        Args:
            model: Name of the model.
            input_tokens: Input tokens, without cached ones (0 to 1,000,000,000).
            output_tokens: Output tokens (0 to 1,000,000,000).
            cache_read_tokens: Tokens read from a cache (0 to 1,000,000,000).
            cache_write_tokens: Tokens written to a cache (0 to 1,000,000,000).
            principal: Person or agent that used it. Default: the calling agent.
            session: Session of the call.
            at: Time of the call. Default: now.
            reservation: Reservation to release.
            unique_key: Idempotency key: record a call only once.
            agent_id: Act as this agent.
        """
        ...

    def usage_reserve(
        self,
        model: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        principal: str | None = None,
        session: str = "",
        seconds: int = 900,
        agent_id: str | None = None,
    ) -> UsageReserveResult:
        """Reserve budget for a model call; fails if a budget would be exceeded.

        Args:
            model: Name of the model.
            input_tokens: Maximum input tokens (0 to 1,000,000,000).
            output_tokens: Maximum output tokens (0 to 1,000,000,000).
            cache_read_tokens: Maximum tokens read from a cache (0 to 1,000,000,000).
            cache_write_tokens: Maximum tokens written to a cache (0 to 1,000,000,000).
            principal: Person or agent that used it. Default: the calling agent.
            session: Session of the call.
            seconds: Lifetime of the reservation, in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    def usage_release(self, reservation: str, *, agent_id: str | None = None) -> UsageReleaseResult:
        """Release the reservation of a call that was not made.

        Args:
            reservation: Id of the reservation.
            agent_id: Act as this agent.
        """
        ...

    def usage_report(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        by: builtins.list[Literal["day", "principal", "model", "session"]] = [],
        principal: builtins.list[str] = [],
        model: str | None = None,
        session: str | None = None,
    ) -> UsageReportResult:
        """Sum model usage, in total or by day, principal, model and session.

        Args:
            since: First day. Default: 30 days up to `until`.
            until: Last day, inclusive. Default: today.
            by: Group by day, principal, model or session.
            principal: Only these principals.
            model: Name of the model.
            session: Only this session.

        Returns:
            UsageReportResult: iterate over it for its `usage`.
        """
        ...

    def price_set(
        self,
        model: str,
        *,
        since: datetime | str | None = None,
        currency: str = "USD",
        input: str | None = None,
        output: str | None = None,
        cache_read: str | None = None,
        cache_write: str | None = None,
        agent_id: str | None = None,
    ) -> Price:
        """Set the price of a model from a day on; recorded costs stay.

        Args:
            model: A model, or a prefix followed by *.
            since: First day of the price. Default: from the beginning.
            currency: Currency code, such as USD.
            input: Price of a million input tokens.
            output: Price of a million output tokens.
            cache_read: Price of a million tokens read from a cache.
            cache_write: Price of a million tokens written to a cache.
            agent_id: Act as this agent.
        """
        ...

    def price_list(self) -> Prices:
        """List model prices, latest first for each model.

        Returns:
            Prices: iterate over it for its `prices`.
        """
        ...

    def price_remove(self, model: str, *, since: datetime | str | None = None, agent_id: str | None = None) -> Prices:
        """Remove a price; recorded costs stay.

        Args:
            model: A model, or a prefix followed by *.
            since: First day of the price. Default: the price from the beginning.
            agent_id: Act as this agent.

        Returns:
            Prices: iterate over it for its `prices`.
        """
        ...

    def budget_set(
        self,
        principal: str,
        *,
        period: Literal["day", "month"] = "day",
        model: str = "*",
        tokens: int | None = None,
        cost: str | None = None,
        currency: str = "USD",
        lift: bool = False,
        agent_id: str | None = None,
    ) -> BudgetStatus:
        """Set a daily or monthly budget; reservations above it are refused.

        Args:
            principal: Person or agent; `*` is everyone together.
            period: Budget per day or per month (UTC).
            model: A model, or a prefix followed by *.
            tokens: Maximum tokens per period (0 to 1,000,000,000,000,000).
            cost: Maximum cost per period.
            currency: Currency code, such as USD.
            lift: Remove the budget.
            agent_id: Act as this agent.
        """
        ...

    def budget_list(self) -> Budgets:
        """List your budgets and what is left of each.

        Returns:
            Budgets: iterate over it for its `budgets`.
        """
        ...

class AsyncOperations:
    """Every operation as a method that is awaited."""

    async def invalidations(
        self,
        *,
        status: builtins.list[Literal["open", "acknowledged", "resolved", "dismissed"]] = [],
        namespace: str | None = None,
        dependent_id: str | None = None,
        invalidated_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> InvalidationPage:
        """List stale memories whose sources changed or were deleted.

        Args:
            status: Only with one of these statuses.
            namespace: Namespace of the stale memories.
            dependent_id: Only notices of this memory.
            invalidated_id: Only notices caused by this source.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            InvalidationPage: iterate over it for its `invalidations`.
        """
        ...

    async def invalidations_acknowledge(
        self, ids: builtins.list[str], *, reason: str | None = None, agent_id: str | None = None
    ) -> InvalidationOutcomes:
        """Acknowledge notices; the memories stay stale.

        Args:
            ids: Notices to update.
            reason: Why, in one line.
            agent_id: Act as this agent.

        Returns:
            InvalidationOutcomes: iterate over it for its `outcomes`.
        """
        ...

    async def invalidations_resolve(
        self, ids: builtins.list[str], *, reason: str | None = None, agent_id: str | None = None
    ) -> InvalidationOutcomes:
        """Mark as resolved; returns suggested sources for a new reflection.

        Args:
            ids: Notices to update.
            reason: Why, in one line.
            agent_id: Act as this agent.

        Returns:
            InvalidationOutcomes: iterate over it for its `outcomes`.
        """
        ...

    async def invalidations_dismiss(
        self, ids: builtins.list[str], *, reason: str | None = None, agent_id: str | None = None
    ) -> InvalidationOutcomes:
        """Dismiss notices: the memory is still correct.

        Args:
            ids: Notices to update.
            reason: Why, in one line.
            agent_id: Act as this agent.

        Returns:
            InvalidationOutcomes: iterate over it for its `outcomes`.
        """
        ...

    async def dependents(self, id: str, *, hops: int = 64, limit: int = 1000) -> DependentsResult:
        """List memories derived from this one, directly or indirectly.

        Args:
            id: Id or unambiguous id prefix.
            hops: Maximum distance; 1: direct dependents only.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            DependentsResult: iterate over it for its `dependents`.
        """
        ...

    async def delete(
        self, id: str, *, expected_version: int | None = None, agent_id: str | None = None
    ) -> DeleteResult:
        """Delete a memory; `undo` restores it.

        Args:
            id: Id or unambiguous id prefix.
            expected_version: Fail if the memory is at another version (1 to 9,007,199,254,740,991).
            agent_id: Act as this agent.
        """
        ...

    async def forget(
        self,
        *,
        namespace: str | None = None,
        pattern: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        dry_run: bool = False,
    ) -> ForgetResult:
        """Archive every memory matching a filter.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            pattern: Words; any may match.
            tier: short: 6 hours, mid: 7 days, long: forever.
            dry_run: Only report what would change.
        """
        ...

    async def archive(self, ids: builtins.list[str], *, reason: str = "archive") -> ArchiveResult:
        """Archive memories; restoring them restores their links.

        Args:
            ids: Memories to archive.
            reason: Why, in one line.

        Returns:
            ArchiveResult: iterate over it for its `outcomes`.
        """
        ...

    async def archive_list(self, *, namespace: str | None = None, limit: int = 50, offset: int = 0) -> ArchivePage:
        """List archived and expired memories, newest first.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            ArchivePage: iterate over it for its `archived`.
        """
        ...

    async def archive_restore(self, id: str) -> RestoreResult:
        """Restore an archived memory and restart its lifetime.

        Args:
            id: Id or unambiguous id prefix.
        """
        ...

    async def archive_purge(
        self, *, ids: builtins.list[str] | None = None, older_than_days: int | None = None
    ) -> PurgeResult:
        """Permanently erase archived memories and their history.

        Args:
            ids: Only these memories.
            older_than_days: Only those archived at least this long ago; 0: all.
        """
        ...

    async def archive_stats(self) -> ArchiveStats:
        """Count archived memories by namespace."""
        ...

    async def stats(self) -> Stats:
        """Count memories, links, embeddings and changes in the store."""
        ...

    async def capabilities(self, *, family: str | None = None, include_schema: bool = False) -> CapabilitiesResult:
        """List the features and tools of this server.

        Args:
            family: Only tools of this feature, such as recall.
            include_schema: Include the input schemas.
        """
        ...

    async def agent_register(
        self, agent_id: str, agent_type: str, *, capabilities: builtins.list[str] = []
    ) -> AgentRegisterResult:
        """Register an agent with its capabilities.

        Args:
            agent_id: The agent to register.
            agent_type: Type: human, system or ai:<name>.
            capabilities: Capabilities, such as search.
        """
        ...

    async def agent_list(self) -> AgentPage:
        """List the registered agents.

        Returns:
            AgentPage: iterate over it for its `agents`.
        """
        ...

    async def notify(
        self,
        target_agent_id: str,
        title: str,
        payload: str,
        *,
        priority: int = 5,
        metadata: dict[str, Any] = {},
        agent_id: str | None = None,
    ) -> NotifyResult:
        """Send a message to another agent.

        Args:
            target_agent_id: The agent to notify.
            title: Title, unique in its namespace.
            payload: Text of the message.
            priority: Priority, 1 to 10.
            metadata: Any JSON object.
            agent_id: Act as this agent.
        """
        ...

    async def inbox(self, *, agent_id: str | None = None, unread_only: bool = False, limit: int = 50) -> InboxPage:
        """List your messages.

        Args:
            agent_id: Act as this agent.
            unread_only: Only unread messages.
            limit: Maximum number of messages (1 to 500).

        Returns:
            InboxPage: iterate over it for its `messages`.
        """
        ...

    async def inbox_read(self, ids: builtins.list[str], *, agent_id: str | None = None) -> InboxReadResult:
        """Mark your messages as read.

        Args:
            ids: Ids of messages.
            agent_id: Act as this agent.
        """
        ...

    async def grant(
        self, id: str, agent_id: str, *, permission: Literal["read", "write", "admin"] = "read"
    ) -> GrantAnswer:
        """Let another agent read or change one of your private memories.

        Args:
            id: Id or unambiguous id prefix.
            agent_id: The agent that gets the right.
            permission: read, write, or admin (manage grants).
        """
        ...

    async def revoke(self, id: str, agent_id: str) -> GrantAnswer:
        """Revoke another agent's grant on a memory.

        Args:
            id: Id or unambiguous id prefix.
            agent_id: The agent that loses the right.
        """
        ...

    async def key_create(
        self,
        name: str,
        *,
        scope: Literal["read", "write", "admin"] = "write",
        namespaces: builtins.list[str] | None = None,
        agent_id: str | None = None,
    ) -> KeyCreateResult:
        """Create an API key; its secret is shown only once.

        Args:
            name: Name of the key.
            scope: Right: read, write, or admin (everything, keys included).
            namespaces: Namespaces with everything below: team/project or team/project/* [default: all].
            agent_id: Agent of the key [default: key:NAME]. *: taken from the request.
        """
        ...

    async def key_list(self) -> KeyPage:
        """List API keys, including revoked ones.

        Returns:
            KeyPage: iterate over it for its `keys`.
        """
        ...

    async def key_revoke(self, id: str) -> Key:
        """Revoke a key permanently, effective immediately.

        Args:
            id: Id of the key.
        """
        ...

    async def store(
        self,
        title: str,
        content: str,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        tags: builtins.list[str] = [],
        priority: int | None = None,
        confidence: float | None = None,
        kind: Literal[
            "observation",
            "reflection",
            "persona",
            "concept",
            "entity",
            "claim",
            "relation",
            "event",
            "conversation",
            "decision",
            "fact",
            "lesson",
            "limitation",
            "summary",
        ]
        | None = None,
        category: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
        | None = None,
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        metadata: dict[str, Any] = {},
        source: str | None = None,
        on_conflict: Literal["error", "merge", "version"] | None = None,
        expires_at: datetime | str | None = None,
        ttl_secs: int | None = None,
        citations: builtins.list[CitationInput] = [],
        source_uri: str | None = None,
        source_span: SpanInput | None = None,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        speaker: str | None = None,
        occurred_at: datetime | str | None = None,
        thread: str | None = None,
        place: int | None = None,
        embedding: EmbeddingInput | None = None,
        force: bool = False,
        agent_id: str | None = None,
    ) -> StoreResult:
        """Store a memory.

        It is durable, searchable and journalled when this returns.

        Args:
            title: Title, unique in its namespace.
            content: Text to remember.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            tags: Tags.
            priority: Priority, 1 to 10.
            confidence: Confidence, 0 to 1.
            kind: Kind of memory.
            category: Topic of a coding memory.
            scope: Who sees it; private: you and agents you share it with.
            metadata: Any JSON object.
            source: What created it, such as cli or api.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            expires_at: Expiry time.
            ttl_secs: Lifetime in seconds (1 to 31,536,000).
            citations: Where claims were read: uri, and optionally a span.
            source_uri: Source URI: uri:, doc: or file:, followed by a name.
            source_span: Byte range in the source: start and end.
            valid_from: When it became true.
            valid_until: When it ceased to be true.
            speaker: Who said it.
            occurred_at: When it happened.
            thread: Conversation it belongs to.
            place: Position in its thread (0 to 9,007,199,254,740,991).
            embedding: Precomputed embedding: model and vector.
            force: Skip the duplicate check.
            agent_id: Act as this agent.
        """
        ...

    async def bulk_store(
        self,
        memories: builtins.list[dict[str, Any]],
        *,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        agent_id: str | None = None,
    ) -> BulkStoreResult:
        """Store many memories in one transaction, with an outcome for each.

        Args:
            memories: Memories, each with the fields of store.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            agent_id: Act as this agent.
        """
        ...

    async def update(
        self,
        id: str,
        *,
        title: str | None = None,
        content: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        namespace: str | None = None,
        tags: builtins.list[str] | None = None,
        priority: int | None = None,
        confidence: float | None = None,
        kind: Literal[
            "observation",
            "reflection",
            "persona",
            "concept",
            "entity",
            "claim",
            "relation",
            "event",
            "conversation",
            "decision",
            "fact",
            "lesson",
            "limitation",
            "summary",
        ]
        | None = None,
        category: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
        | None = None,
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        metadata: dict[str, Any] | None = None,
        citations: builtins.list[CitationInput] | None = None,
        source_uri: str | None = None,
        source_span: SpanInput | None = None,
        expires_at: datetime | str | None | UnsetType = UNSET,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        expected_version: int | None = None,
        embedding: EmbeddingInput | None = None,
        agent_id: str | None = None,
    ) -> UpdateResult:
        """Update some fields of a memory; others stay.

        Args:
            id: Id or unambiguous id prefix.
            title: Title, unique in its namespace.
            content: Text to remember.
            tier: short: 6 hours, mid: 7 days, long: forever.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tags: Tags.
            priority: Priority, 1 to 10.
            confidence: Confidence, 0 to 1.
            kind: Kind of memory.
            category: Topic of a coding memory.
            scope: Who sees it; private: you and agents you share it with.
            metadata: Any JSON object.
            citations: Where claims were read: uri, and optionally a span.
            source_uri: Source URI: uri:, doc: or file:, followed by a name.
            source_span: Byte range in the source: start and end.
            expires_at: Expiry time; null or empty: never.
            valid_from: When it became true.
            valid_until: When it ceased to be true.
            expected_version: Fail if the memory is at another version (1 to 9,007,199,254,740,991).
            embedding: Precomputed embedding: model and vector.
            agent_id: Act as this agent.
        """
        ...

    async def get(
        self, id: str, *, as_of: datetime | str | None = None, known_at: datetime | str | None = None
    ) -> GetResult:
        """Show a memory with its links, now or at a past time.

        Args:
            id: Id or unambiguous id prefix.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
        """
        ...

    async def list(
        self,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        agent_id: str | None = None,
        min_priority: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tags: builtins.list[str] = [],
        kinds: builtins.list[
            Literal[
                "observation",
                "reflection",
                "persona",
                "concept",
                "entity",
                "claim",
                "relation",
                "event",
                "conversation",
                "decision",
                "fact",
                "lesson",
                "limitation",
                "summary",
            ]
        ] = [],
        limit: int = 20,
        offset: int = 0,
    ) -> Page:
        """List memories, most important first.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever.
            agent_id: Only those of this agent.
            min_priority: Priority, 1 to 10.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            tags: Tags.
            kinds: Only these kinds.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Page: iterate over it for its `memories`.
        """
        ...

    async def search(
        self,
        query: str | None = None,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        agent_id: str | None = None,
        as_agent: str | None = None,
        min_priority: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tags: builtins.list[str] = [],
        source_uri: str | None = None,
        include_archived: bool = False,
        limit: int = 20,
    ) -> SearchResult:
        """Search memories by keywords (all words must match).

        Args:
            query: Words that must all match.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever.
            agent_id: Only those of this agent.
            as_agent: See only what an agent in this namespace sees.
            min_priority: Priority, 1 to 10.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            tags: Tags.
            source_uri: Source URI: uri:, doc: or file:, followed by a name.
            include_archived: Include archived and expired memories.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            SearchResult: iterate over it for its `results`.
        """
        ...

    async def mine(
        self,
        path: str | None = None,
        *,
        content: str | None = None,
        format: Literal[
            "auto",
            "chatgpt",
            "claude",
            "claude-code",
            "codex",
            "slack",
            "mem0",
            "mcp-memory",
            "markdown",
            "text",
            "mbox",
            "ai-memory",
            "envelope",
        ] = "auto",
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] = "long",
        scope: Literal["private", "team", "unit", "org", "collective"] = "collective",
        tags: builtins.list[str] = [],
        min_messages: int = 1,
        include: builtins.list[Literal["tools", "system", "thinking", "sidechains"]] = [],
        dry_run: bool = False,
        agent_id: str | None = None,
    ) -> MineResult:
        """Import chats, transcripts, mail and notes.

        Each message and note becomes a memory, word for word, with speaker, time and position. Importing again adds new
        messages and updates changed ones; memories that you deleted or edited are not changed.

        Args:
            path: File, folder or zip.
            content: Text of a file, instead of a path.
            format: Format of the source; auto detects it.
            namespace: Namespace of the imported memories.
            tier: short: 6 hours, mid: 7 days, long: forever.
            scope: private: visible to you and agents you share it with.
            tags: Tags.
            min_messages: Skip conversations with fewer messages (1 to 1,000).
            include: Also import: tools, system, thinking, sidechains.
            dry_run: Report what would happen, write nothing.
            agent_id: Act as this agent.
        """
        ...

    async def recover(
        self,
        *,
        host: Literal["auto", "claude-code", "codex"] = "auto",
        transcript: str | None = None,
        since: datetime | str | None = None,
        sessions: int = 2,
        limit: int = 100,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        include: builtins.list[Literal["tools", "system", "thinking", "sidechains"]] = [],
        dry_run: bool = False,
        agent_id: str | None = None,
    ) -> RecoverResult:
        """Store the last turns of crashed sessions from their transcripts.

        Turns that were captured or recovered before are not duplicated.

        Args:
            host: Agent host of the transcript.
            transcript: Transcript file [default: those of this folder].
            since: Only turns since this time.
            sessions: Number of newest sessions (1 to 1,000).
            limit: Number of last turns per session (1 to 100,000).
            namespace: Namespace of the memories.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            include: Also import: tools, system, thinking, sidechains.
            dry_run: Report what would happen, write nothing.
            agent_id: Act as this agent.
        """
        ...

    async def capture_turn(
        self,
        host_session_id: str,
        host_turn_index: int,
        role: Literal["user", "assistant", "tool_use", "tool_result", "system", "other"],
        content: str,
        *,
        timestamp_iso: datetime | str | None = None,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        host_kind: str = "unknown",
        host_version: str | None = None,
        tool_calls: builtins.list[ToolCall] = [],
        metadata: dict[str, Any] = {},
        agent_id: str | None = None,
    ) -> CaptureResult:
        """Store a conversation turn from an agent host, once per session and number.

        Sending it again with other text updates the memory; its history keeps the earlier text.

        Args:
            host_session_id: Session id given by the host.
            host_turn_index: Number of the turn in the session (0 to 9,007,199,254,740,991).
            role: Speaker of the turn.
            content: Text of the turn.
            timestamp_iso: Time of the turn.
            namespace: Namespace path, at most 8 segments, such as team/project.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            host_kind: Agent host, such as claude-code.
            host_version: Version of the agent host.
            tool_calls: Tool calls in the turn: tool, brief.
            metadata: Any JSON object.
            agent_id: Act as this agent.
        """
        ...

    async def audit(
        self,
        path: str | None = None,
        *,
        content: str | None = None,
        format: Literal[
            "auto",
            "chatgpt",
            "claude",
            "claude-code",
            "codex",
            "slack",
            "mem0",
            "mcp-memory",
            "markdown",
            "text",
            "mbox",
            "ai-memory",
            "envelope",
        ] = "auto",
        namespace: str | None = None,
    ) -> AuditResult:
        """Score a store: duplicates, contradictions, secrets, recall loops, stale and unread memories.

        Checks everything you may see, or an export of another program, and changes nothing.

        Args:
            path: Export file to audit instead of the store.
            content: Text of an export to audit.
            format: Format of the export; auto detects it.
            namespace: Only memories of this namespace.
        """
        ...

    async def boot(
        self, *, namespace: str | None = None, principal: str | None = None, budget: int = 1500
    ) -> BootResult:
        """Build the session-start context: facts, lessons, decisions, recent, due and stale items.

        Covers one project and one person, within a budget. Only reads. `holdfast agents boot` detects the project of
        a folder.

        Args:
            namespace: Namespace of the project.
            principal: Person of the session. Default: the agent.
            budget: Maximum tokens of the block (cl100k).
        """
        ...

    async def project_which(self, path: str = ".") -> Project:
        """Show the project of a folder and how it was determined.

        By a `.holdfast.toml` there or above, else by the remote of its git repository, else by the path of the repository,
        else by the path of the folder. Does not run git.

        Args:
            path: Folder [default: the current one].
        """
        ...

    async def project_merge(self, project: str, alias: str, *, agent_id: str | None = None) -> ProjectNames:
        """Make a project an alias of another.

        Both then share what is known of either. Memories stay where they are, so `agents project split` can separate them
        again. The merge is synced to other stores.

        Args:
            project: Project to keep.
            alias: Project that becomes an alias of it.
            agent_id: Act as this agent.
        """
        ...

    async def project_split(self, alias: str, *, agent_id: str | None = None) -> ProjectNames:
        """Separate a merged project again.

        Args:
            alias: Alias to separate.
            agent_id: Act as this agent.
        """
        ...

    async def project_list(self) -> MergedProjects:
        """List merged projects.

        Returns:
            MergedProjects: iterate over it for its `merged`.
        """
        ...

    async def build_context(
        self,
        message: str = "",
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        budget: int = 4000,
        parts: builtins.list[
            Literal["history", "summary", "facts", "recalled", "lessons", "tasks", "invalidations"]
        ] = [],
        overflow: Literal["summarise", "drop"] = "summarise",
        onboarding: bool = False,
    ) -> BuildContextResult:
        """Build the context for a reply: history, facts, lessons, tasks, memories.

        Only reads. Each part has a minimum and a maximum share of the budget; dropped items and failures are reported.
        Turns of the conversation that do not fit are summarised, or dropped with `overflow`.

        Args:
            message: The message to answer.
            channel: Channel of the conversation, such as cli or slack.
            principal: Person who talks to the agent. Default: the agent.
            namespace: This namespace and its parents.
            budget: Maximum tokens of the block (cl100k).
            parts: Only these parts. Default: all.
            overflow: What to do with turns of this conversation that do not fit.
            onboarding: Also return the next onboarding step.
        """
        ...

    async def onboarding_tell(
        self,
        step: Literal["introduce", "help", "personality", "tasks", "projects"],
        *,
        principal: str | None = None,
        agent_id: str | None = None,
    ) -> OnboardingTellResult:
        """Mark an onboarding step as done; steps come once, in order.

        Args:
            step: The step that is done.
            principal: The person. Default: the agent.
            agent_id: Act as this agent.
        """
        ...

    async def sync(
        self,
        remote: str,
        *,
        direction: Literal["pull", "push", "merge"] = "merge",
        trust_source: bool = False,
        dry_run: bool = False,
    ) -> SyncReport:
        """Exchange missing changes with another store.

        Concurrent edits keep both values: the newer is shown, the other becomes a conflict. If interrupted, run it again
        to continue.

        Args:
            remote: The other store: a path, postgresql://USER:PASSWORD@HOST/DATABASE, or https://HOST:PORT.
            direction: pull: get missing changes; push: send them; merge: both.
            trust_source: Keep the owners of pulled memories; otherwise you own them.
            dry_run: Report what would change; change nothing.
        """
        ...

    async def sync_digest(self) -> SyncDigest:
        """Print the digest of this store, to compare it with another."""
        ...

    async def sync_status(self) -> SyncStatus:
        """Show how far this store and its peers lag, and the last exchanges."""
        ...

    async def sync_export_bundle(self, file: str, *, since: int = 0, peer: str | None = None) -> BundleExportResult:
        """Write changes to a signed, compressed file for another store.

        The file is complete or not written at all. Import it with `sync bundle import`. Without `peer` it contains
        everything after `since`, private memories included: protect it like the store.

        Args:
            file: A file, or - for a pipe.
            since: Only changes after this point: `next` of the previous bundle (0 to 9,007,199,254,740,991).
            peer: Only what this enrolled peer may read.
        """
        ...

    async def sync_import_bundle(
        self, file: str, *, trust_sender: bool = False, trust_source: bool = False, dry_run: bool = False
    ) -> BundleImportResult:
        """Apply a bundle written by `sync bundle export`.

        The whole file is verified before any change is applied. Importing it again changes nothing. A bundle that would
        leave a gap is rejected, and the error lists the missing changes.

        Args:
            file: A file, or - for a pipe.
            trust_sender: Accept a bundle from a store that is not an enrolled peer.
            trust_source: Keep the owners of new memories; otherwise you own them.
            dry_run: Report what would change; change nothing.
        """
        ...

    async def compact(self, *, older_than: int = 30, dry_run: bool = False) -> CompactResult:
        """Compact old history to final states, once every enrolled peer has it.

        No memory changes, and `verify` still proves the rest. Undo, history and known_at reach back to the compaction
        point. Runs in short transactions, so others can write; if interrupted, run it again to continue.

        Args:
            older_than: Days of full history to keep, even if every peer has them (0 to 36,500).
            dry_run: Report what would change; change nothing.
        """
        ...

    async def sync_push(self, batch: dict[str, Any]) -> SyncPushResult:
        """Apply a batch from an ai-memory peer in one transaction; each item has an outcome.

        Args:
            batch: sender_agent_id and lists of up to 1000: memories, deletions, archives, restores, links, namespace_meta, namespace_meta_clears; dry_run.
        """
        ...

    async def sync_since(
        self, *, since: datetime | str | None = None, limit: int = 500, peer: str | None = None
    ) -> SyncSinceResult:
        """Return changes after a cursor to an ai-memory peer, including deletions.

        Args:
            since: updated_at of the last row received.
            limit: Most memories to return (1 to 10,000).
            peer: Name of the calling peer.
        """
        ...

    async def kg_timeline(
        self,
        source_id: str,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        valid_at: datetime | str | None = None,
        limit: int = 200,
    ) -> Timeline:
        """List the outgoing links of a memory by start date.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            since: Only links that started at this time or later.
            until: Only links that started at this time or earlier.
            valid_at: Only links valid at this time.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Timeline: iterate over it for its `events`.
        """
        ...

    async def dependents_of_invalidated(self, memory_id: str) -> DirectDependents:
        """List direct dependents as ai-memory does; empty for an unknown memory.

        Args:
            memory_id: Id or unambiguous id prefix.

        Returns:
            DirectDependents: iterate over it for its `dependents`.
        """
        ...

    async def ingest_multistep(
        self,
        content: str,
        *,
        namespace: str = "global",
        pipeline_variant: Literal["two_phase", "four_step"] = "two_phase",
        pipeline_override: dict[str, Any] | None = None,
        agent_id: str | None = None,
    ) -> IngestMultistepResult:
        """Ingest a text with the arguments of ai-memory's tool; prefer `ingest`.

        Args:
            content: The text of the document.
            namespace: Namespace path, at most 8 segments, such as team/project.
            pipeline_variant: Built-in pipeline to run.
            pipeline_override: Inline pipeline: `stages`, and `name` or `variant`.
            agent_id: Act as this agent.
        """
        ...

    async def skill_register(
        self,
        folder_path: str | None = None,
        *,
        inline_skill: str | None = None,
        files: builtins.list[SkillFileInput] = [],
        archive: str | None = None,
        namespace: str | None = None,
    ) -> SkillRegisterResult:
        """Register a skill as the current version of its name.

        A version with the same content is reused.

        Args:
            folder_path: Folder with a SKILL.md, or a .zip or .tar.gz of one.
            inline_skill: Text of a SKILL.md.
            files: Further files: path, content, encoding (utf-8 or base64).
            archive: A .zip or .tar.gz of a skill folder, base64-encoded.
            namespace: Namespace, unless SKILL.md sets one.
        """
        ...

    async def skill_list(
        self, query: str | None = None, *, namespace: str | None = None, limit: int = 100
    ) -> SkillListResult:
        """List current skills by name, or ranked by a query.

        Args:
            query: Skills that match, best first.
            namespace: Only this namespace and those below it.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            SkillListResult: iterate over it for its `skills`.
        """
        ...

    async def skill_get(self, skill_id: str) -> SkillDetailView:
        """Read a skill: instructions, frontmatter and list of files.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
        """
        ...

    async def skill_resource(self, skill_id: str, resource_path: str) -> ResourceContent:
        """Read one file of a skill, verified against its digest.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            resource_path: Path of the file, as listed by the skill.
        """
        ...

    async def skill_export(self, skill_id: str, target_folder: str | None = None) -> SkillExportResult:
        """Export every file of a skill, byte for byte.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            target_folder: Folder to write to; may replace only an older export. Default: return the files.
        """
        ...

    async def skill_promote_from_reflection(
        self,
        reflection_id: str,
        skill_name: str,
        skill_description: str,
        *,
        parameters_schema: dict[str, Any] | None = None,
    ) -> SkillPromoteResult:
        """Create a skill from a reflection, with its sources as references.

        Args:
            reflection_id: Id or unambiguous id prefix.
            skill_name: Name: lower case, digits and hyphens.
            skill_description: What the skill does and when to use it.
            parameters_schema: JSON Schema of its parameters.
        """
        ...

    async def skill_rollback(self, skill_id: str, version: str | None = None) -> SkillRollbackResult:
        """Make the previous version of a skill, or a given one, current again.

        No version is lost.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            version: Version id to roll back to [default: the previous one].
        """
        ...

    async def skill_delete(self, skill_id: str, *, purge: bool = False) -> SkillDeleteResult:
        """Delete a skill with all its versions; `undo` restores it.

        Registering it again restores it too. A purge cannot be undone.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            purge: Erase its files permanently, from the history too.
        """
        ...

    async def skill_history(self, skill_id: str, *, limit: int = 100) -> SkillHistoryResult:
        """Show all versions of a skill and when each was current.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            limit: Maximum number of results (1 to 1,000).
        """
        ...

    async def skill_compositional_context(
        self, skill_id: str, *, query: str | None = None, budget_tokens: int = 4000
    ) -> SkillComposeResult:
        """Read a skill with its valid reflections, best first, within a token budget.

        Args:
            skill_id: Version id or a prefix of it, namespace/name, or a unique name.
            query: The task; relevant reflections come first.
            budget_tokens: Token budget for the reflections (cl100k).
        """
        ...

    async def conflicts(self, *, limit: int = 50, offset: int = 0) -> ConflictPage:
        """List conflicts between concurrent edits, newest first.

        Args:
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            ConflictPage: iterate over it for its `conflicts`.
        """
        ...

    async def conflicts_show(self, id: str) -> ConflictDetails:
        """Show both values of a conflict.

        Args:
            id: Id of the conflict.
        """
        ...

    async def conflicts_resolve(
        self,
        id: str,
        keep: Literal["shown", "other", "mine", "theirs", "both", "edited"],
        *,
        value: str | None = None,
        agent_id: str | None = None,
    ) -> ConflictResolveResult:
        """Resolve a conflict; the resolution is replicated to all peers.

        Args:
            id: Id of the conflict.
            keep: shown or other, mine or theirs, both (as two memories), or edited (with `value`).
            value: The text that replaces both, with keep edited.
            agent_id: Act as this agent.
        """
        ...

    async def recall(
        self,
        context: str,
        *,
        namespace: str | None = None,
        limit: int = 10,
        tags: builtins.list[str] = [],
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_agent: str | None = None,
        budget_tokens: int | None = None,
        kinds: builtins.list[
            Literal[
                "observation",
                "reflection",
                "persona",
                "concept",
                "entity",
                "claim",
                "relation",
                "event",
                "conversation",
                "decision",
                "fact",
                "lesson",
                "limitation",
                "summary",
            ]
        ] = [],
        tier: Literal["short", "mid", "long"] | None = None,
        has_citations: bool = False,
        source_uri_prefix: str | None = None,
        confidence_tier: Literal["confirmed", "likely", "ambiguous"] | None = None,
        include_archived: bool = False,
        embedding: EmbeddingInput | None = None,
        now: datetime | str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        explain: bool = False,
        format: Literal["json", "toon", "toon_compact"] = "json",
        note: bool = True,
    ) -> RecallResult:
        """Search memories by meaning and keywords.

        Args:
            context: What to look for.
            namespace: This namespace and its parents.
            limit: Maximum number of hits (1 to 50).
            tags: Tags.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            as_agent: See only what an agent in this namespace sees.
            budget_tokens: Maximum tokens of the answer; 0 returns no hits.
            kinds: Only memories of these kinds.
            tier: short: 6 hours, mid: 7 days, long: forever.
            has_citations: Only memories with citations.
            source_uri_prefix: Only memories whose source URI starts with this.
            confidence_tier: Only memories of this confidence.
            include_archived: Also search archived memories.
            embedding: Precomputed embedding: model and vector.
            now: Time of the query, for words such as yesterday; local time with offset.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
            explain: Explain the score of each hit.
            format: toon: one table that takes fewer tokens.
            note: Count the hits as used and log the query.

        Returns:
            RecallResult: iterate over it for its `memories`.
        """
        ...

    async def reembed(self, *, everything: bool = False) -> ReembedResult:
        """Compute missing embeddings. Keyword recall keeps working.

        Args:
            everything: Recompute all embeddings, not only missing ones.
        """
        ...

    async def context(
        self,
        query: str,
        *,
        budget: int = 2000,
        namespace: str | None = None,
        tags: builtins.list[str] = [],
        tier: Literal["short", "mid", "long"] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_agent: str | None = None,
        now: datetime | str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
    ) -> ContextBlock:
        """Recall memories as one block for a prompt: cited, fenced, within a budget.

        Args:
            query: What to look for.
            budget: Maximum tokens of the block (cl100k).
            namespace: This namespace and its parents.
            tags: Tags.
            tier: short: 6 hours, mid: 7 days, long: forever.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            as_agent: See only what an agent in this namespace sees.
            now: Time of the query, for words such as yesterday; local time with offset.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
        """
        ...

    async def conversation_say(
        self,
        turns: builtins.list[TurnInput],
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> ConversationSayResult:
        """Append turns to the active conversation, in one transaction.

        After two idle hours a new conversation starts. Each turn is a memory that recall can find.

        Args:
            turns: Turns in order: role and content.
            channel: Channel, such as cli or slack.
            principal: Person [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    async def conversation_show(self, id: str, *, after: int = 0, limit: int = 100) -> ConversationDetail:
        """Show a conversation with its turns and summary.

        Args:
            id: Id of the conversation.
            after: Only turns after this number (0 to 9,007,199,254,740,991).
            limit: Maximum number of results (1 to 1,000).

        Returns:
            ConversationDetail: iterate over it for its `turns`.
        """
        ...

    async def conversation_list(
        self,
        *,
        state: Literal["active", "closing", "closed"] | None = None,
        channel: str | None = None,
        namespace: str | None = None,
        principal: builtins.list[str] = [],
        limit: int = 50,
        offset: int = 0,
    ) -> Conversations:
        """List conversations with their summaries, latest first.

        Args:
            state: Only conversations in this state.
            channel: Channel, such as cli or slack.
            namespace: Namespace path, at most 8 segments, such as team/project.
            principal: Only conversations of these people.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Conversations: iterate over it for its `conversations`.
        """
        ...

    async def conversation_close(
        self,
        id: str | None = None,
        *,
        summary: str | None = None,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> SummarizedConversation:
        """Close a conversation with a given or generated summary.

        Args:
            id: Id of the conversation [default: the active one].
            summary: Summary [default: generated].
            channel: Channel, such as cli or slack.
            principal: Person [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    async def conversation_reap(
        self, *, limit: int = 100, prune_days: int | None = None, agent_id: str | None = None
    ) -> ReapResult:
        """Close idle conversations with a summary; one process at a time.

        With prune_days, also archive old turns that a summary covers.

        Args:
            limit: Maximum number of results (1 to 1,000).
            prune_days: Archive turns of conversations closed this many days ago (0 to 36,500).
            agent_id: Act as this agent.
        """
        ...

    async def conversation_consolidate(
        self,
        *,
        min_hours: float = 24,
        min_conversations: int = 5,
        prune_days: int = 30,
        keep_outcomes: int = 100,
        interaction_days: int | None = None,
        force: bool = False,
        agent_id: str | None = None,
    ) -> ConversationConsolidateResult:
        """Close, summarise and archive old conversations and outcomes when enough is new.

        One process at a time. Turns are archived once a summary covers them; outcomes are archived before they are deleted.

        Args:
            min_hours: Minimum hours since the last run (0 to 100,000).
            min_conversations: Minimum number of conversations started since then (0 to 1,000,000).
            prune_days: Archive turns and drop archived outcomes after this many days (0 to 36,500).
            keep_outcomes: Outcomes to keep per person; older ones are archived (1 to 1,000,000).
            interaction_days: Erase the text of interactions after this many days (0 to 36,500).
            force: Run regardless of time and number.
            agent_id: Act as this agent.
        """
        ...

    async def principal_stats(self, name: str) -> PrincipalStats:
        """Count the conversations, messages, observations and facts of a principal.

        Args:
            name: A name, such as ann or slack:U42.
        """
        ...

    async def curate(
        self,
        *,
        apply: bool = False,
        dry_run: bool = False,
        steps: builtins.list[Literal["duplicates", "contradictions", "tags", "priorities", "personas"]] = [],
        include_namespace: builtins.list[str] = [],
        exclude_namespace: builtins.list[str] = [],
        max_ops: int = 100,
        max_seconds: int = 30,
        max_tokens: int | None = None,
        agent_id: str | None = None,
    ) -> CurateResult:
        """Find and fix quality problems in memories; a dry run by default.

        Merges near-duplicates (sources are archived), proposes contradictions and tags, adjusts priorities by use,
        regenerates stale personas. A run ends when its budget is spent; the next one continues. `curate rollback` undoes a
        run.

        Args:
            apply: Apply the changes (default: dry run).
            dry_run: Show the changes without applying them (default).
            steps: Only these steps (default: all).
            include_namespace: Only these namespaces and their children.
            exclude_namespace: Skip these namespaces and their children.
            max_ops: Maximum number of changes and proposals (1 to 10,000).
            max_seconds: Maximum duration in seconds (1 to 86,400).
            max_tokens: Maximum model tokens (0 to 1,099,511,627,776).
            agent_id: Act as this agent.
        """
        ...

    async def curate_runs(self, *, limit: int = 20) -> CurationRunList:
        """List your curator runs; admins see all runs.

        Args:
            limit: Maximum number of results, newest first (1 to 1,000).

        Returns:
            CurationRunList: iterate over it for its `runs`.
        """
        ...

    async def curate_rollback(self, run_id: str, *, agent_id: str | None = None) -> CurateRollbackResult:
        """Undo a curator run, step by step.

        Memories changed since are kept and reported. Memories that are separated again are not merged again automatically.

        Args:
            run_id: Id of the run.
            agent_id: Act as this agent.
        """
        ...

    async def curate_proposals(
        self, *, status: Literal["open", "accepted", "dismissed", "withdrawn"] = "open", limit: int = 100
    ) -> ProposalList:
        """List curator proposals about memories that you may see.

        Args:
            status: Only proposals with this status.
            limit: Maximum number of results, newest first (1 to 1,000).

        Returns:
            ProposalList: iterate over it for its `proposals`.
        """
        ...

    async def curate_decide(
        self, ids: builtins.list[str], decision: Literal["accept", "dismiss"], *, agent_id: str | None = None
    ) -> CurateDecideResult:
        """Accept or dismiss proposals, each separately; outdated ones are rejected.

        Args:
            ids: Ids of the proposals.
            decision: accept: apply it; dismiss: never propose it again.
            agent_id: Act as this agent.

        Returns:
            CurateDecideResult: iterate over it for its `outcomes`.
        """
        ...

    async def auto_tag(
        self,
        id: str | None = None,
        *,
        title: str | None = None,
        content: str | None = None,
        namespace: str | None = None,
        apply: bool = False,
        expected_version: int | None = None,
        agent_id: str | None = None,
    ) -> AutoTagResult:
        """Suggest tags for a memory or text; `--apply` adds them.

        Args:
            id: Memory id, or a unique prefix of one.
            title: Title, unique in its namespace.
            content: Text to tag instead of a memory; needs a title.
            namespace: Namespace whose tags are preferred for the text.
            apply: Add the tags to the memory.
            expected_version: Fail unless the memory has this version (1 to 9,007,199,254,740,991).
            agent_id: Act as this agent.
        """
        ...

    async def expand_query(self, query: str, *, namespace: str | None = None, limit: int = 8) -> ExpandQueryResult:
        """Expand a query with related names, tags, words and word forms.

        Args:
            query: Query to expand.
            namespace: Namespace path, at most 8 segments, such as team/project.
            limit: Maximum number of terms (1 to 50).
        """
        ...

    async def detect_contradiction(self, id_a: str, id_b: str) -> ContradictionResult:
        """Check whether two memories contradict each other, with the sentences.

        Args:
            id_a: Memory id, or a unique prefix of one.
            id_b: Memory id, or a unique prefix of one.
        """
        ...

    async def atomise(
        self, memory_id: str, *, max_atom_tokens: int = 200, force: bool = False, agent_id: str | None = None
    ) -> AtomiseResult:
        """Split a long memory into atoms at sentence ends and archive it.

        Each atom is a verbatim piece with its source span, and inherits tags, tier and priority. One transaction.

        Args:
            memory_id: Memory id, or a unique prefix of one.
            max_atom_tokens: Maximum tokens per atom (50 to 1,000).
            force: Split again a memory that was split before.
            agent_id: Act as this agent.
        """
        ...

    async def persona(self, entity_id: str, *, namespace: str | None = None) -> PersonaResult:
        """Show the persona of an entity, and whether it is stale.

        Args:
            entity_id: Entity id, or any of its names.
            namespace: The persona made from this namespace only.
        """
        ...

    async def persona_generate(
        self, entity_id: str, *, namespace: str | None = None, agent_id: str | None = None
    ) -> PersonaGenerateResult:
        """Generate the persona of an entity from up to 20 memories, with footnotes.

        The previous version is archived. If no source changed, nothing is written.

        Args:
            entity_id: Entity id, or any of its names.
            namespace: Use only memories of this namespace (default: all).
            agent_id: Act as this agent.
        """
        ...

    async def consolidate(
        self,
        ids: builtins.list[str],
        title: str,
        *,
        summary: str | None = None,
        summarise: bool = False,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] = "long",
        agent_id: str | None = None,
    ) -> ConsolidateResult:
        """Merge 2 to 100 memories into one; archive and link the originals.

        Args:
            ids: Memories to merge.
            title: Title, unique in its namespace.
            summary: Text of the new memory; without it, the texts joined.
            summarise: Summarise them: with the model if one is set, else by sentence selection.
            namespace: Namespace of the new memory; default: the shared one.
            tier: short: 6 hours, mid: 7 days, long: forever.
            agent_id: Act as this agent.
        """
        ...

    async def check_duplicate(
        self, title: str, content: str, *, namespace: str | None = None, threshold: float = 0.85
    ) -> DuplicateCheck:
        """Check whether a text is stored already, exactly or nearly.

        Args:
            title: Title, unique in its namespace.
            content: Text to remember.
            namespace: Namespace path, at most 8 segments, such as team/project.
            threshold: Minimum similarity of a duplicate (0.5 to 1).
        """
        ...

    async def promote(
        self, id: str, *, target_tier: Literal["mid", "long"] = "long", to_namespace: str | None = None
    ) -> PromoteResult:
        """Move a memory to a longer-lived tier, or copy it to a parent namespace.

        Args:
            id: Id or unambiguous id prefix.
            target_tier: Tier to move it to.
            to_namespace: Copy it to this parent namespace instead.
        """
        ...

    async def why_not(
        self,
        id: str,
        context: str,
        *,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        namespace: str | None = None,
        limit: int = 10,
        tags: builtins.list[str] = [],
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_agent: str | None = None,
        budget_tokens: int | None = None,
        kinds: builtins.list[
            Literal[
                "observation",
                "reflection",
                "persona",
                "concept",
                "entity",
                "claim",
                "relation",
                "event",
                "conversation",
                "decision",
                "fact",
                "lesson",
                "limitation",
                "summary",
            ]
        ] = [],
        tier: Literal["short", "mid", "long"] | None = None,
        has_citations: bool = False,
        source_uri_prefix: str | None = None,
        confidence_tier: Literal["confirmed", "likely", "ambiguous"] | None = None,
        include_archived: bool = False,
        embedding: EmbeddingInput | None = None,
        now: datetime | str | None = None,
    ) -> WhyNotResult:
        """Explain why a query does not return a memory.

        Args:
            id: Id or unambiguous id prefix.
            context: What to look for.
            as_of: State as it was true at this time.
            known_at: State as this store knew it at this time.
            namespace: This namespace and its parents.
            limit: Maximum number of hits (1 to 50).
            tags: Tags.
            since: Only memories stored at or after this time.
            until: Only memories stored at or before this time.
            as_agent: See only what an agent in this namespace sees.
            budget_tokens: Maximum tokens of the answer; 0 returns no hits.
            kinds: Only memories of these kinds.
            tier: short: 6 hours, mid: 7 days, long: forever.
            has_citations: Only memories with citations.
            source_uri_prefix: Only memories whose source URI starts with this.
            confidence_tier: Only memories of this confidence.
            include_archived: Also search archived memories.
            embedding: Precomputed embedding: model and vector.
            now: Time of the query, for words such as yesterday; local time with offset.
        """
        ...

    async def fact_set(
        self,
        key: str,
        value: str,
        *,
        principal: str | None = None,
        confidence: float = 1.0,
        learned_from: str | None = None,
        agent_id: str | None = None,
    ) -> FactSetResult:
        """Set a fact about a person (history is kept).

        A previous value that differs is returned and recorded as contradicted.

        Args:
            key: Key of the fact.
            value: Value of the fact.
            principal: Person [default: the agent].
            confidence: Confidence, 0 to 1.
            learned_from: Source: a message id or a URL.
            agent_id: Act as this agent.
        """
        ...

    async def fact_get(self, key: str, *, principal: str | None = None) -> FactView:
        """Read a fact about a person.

        Args:
            key: Key of the fact.
            principal: Person [default: the agent].
        """
        ...

    async def fact_list(self, *, principal: str | None = None, deleted: bool = False) -> Facts:
        """List the facts about a person.

        Args:
            principal: Person [default: the agent].
            deleted: List deleted facts instead.

        Returns:
            Facts: iterate over it for its `facts`.
        """
        ...

    async def fact_everybody(self, key: str | None = None, *, limit: int = 100, offset: int = 0) -> Facts:
        """List facts about all people, optionally of one key.

        Args:
            key: Only facts with this key.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Facts: iterate over it for its `facts`.
        """
        ...

    async def fact_delete(
        self, key: str | None = None, *, principal: str | None = None, every: bool = False, agent_id: str | None = None
    ) -> Facts:
        """Delete a fact, or all facts of a person; `fact restore` undoes it.

        Args:
            key: Key of the fact to delete.
            principal: Person [default: the agent].
            every: Delete all facts of the person.
            agent_id: Act as this agent.

        Returns:
            Facts: iterate over it for its `facts`.
        """
        ...

    async def fact_restore(self, key: str, *, principal: str | None = None, agent_id: str | None = None) -> FactView:
        """Restore the most recently deleted fact of a key.

        Args:
            key: Key of the fact.
            principal: Person [default: the agent].
            agent_id: Act as this agent.
        """
        ...

    async def fact_history(self, key: str, *, principal: str | None = None) -> FactHistory:
        """Show all values of a fact over time.

        Args:
            key: Key of the fact.
            principal: Person [default: the agent].

        Returns:
            FactHistory: iterate over it for its `past`.
        """
        ...

    async def feedback(
        self,
        recall_id: str,
        verdict: Literal["used", "ignored", "wrong"] | None = None,
        ids: builtins.list[str] = [],
        *,
        verdicts: dict[str, Literal["used", "ignored", "wrong"]] = {},
    ) -> FeedbackResult:
        """Rate recall hits as used, ignored or wrong.

        Args:
            recall_id: The recall_id of a recall.
            verdict: Verdict on the hits.
            ids: Ids of the hits.
            verdicts: A verdict for each id.

        Returns:
            FeedbackResult: iterate over it for its `judged`.
        """
        ...

    async def recalls(self, *, agent_id: str | None = None, before: str = "", limit: int = 20) -> RecallPage:
        """List logged recalls with their hits and verdicts, newest first.

        Args:
            agent_id: Only those of this agent.
            before: Only recalls before this recall_id.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            RecallPage: iterate over it for its `recalls`.
        """
        ...

    async def link(
        self,
        source_id: str,
        target_id: str,
        *,
        relation: Literal[
            "related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"
        ] = "related_to",
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
    ) -> LinkResult:
        """Create a typed, dated link between two memories.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            target_id: Target memory: an id, or an unambiguous prefix.
            relation: supersedes: new to old; derived_from, derives_from, reflects_on: derived memory to source.
            valid_from: Start of validity; default: now.
            valid_until: End of validity.
        """
        ...

    async def get_links(
        self, id: str, *, valid_at: datetime | str | None = None, limit: int = 1000, offset: int = 0
    ) -> LinkPage:
        """List the links of a memory in both directions, including ended ones.

        Args:
            id: Id or unambiguous id prefix.
            valid_at: Only links valid at this time.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            LinkPage: iterate over it for its `links`.
        """
        ...

    async def kg_invalidate(
        self,
        source_id: str,
        target_id: str,
        relation: Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"],
        *,
        valid_until: datetime | str | None = None,
    ) -> InvalidateResult:
        """End a link. It stays in history with its end date.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            target_id: Target memory: an id, or an unambiguous prefix.
            relation: supersedes: new to old; derived_from, derives_from, reflects_on: derived memory to source.
            valid_until: End of validity; default: now.
        """
        ...

    async def kg_query(
        self,
        source_id: str,
        *,
        max_depth: int = 1,
        valid_at: datetime | str | None = None,
        allowed_agents: builtins.list[str] | None = None,
        namespace: str | None = None,
        relations: builtins.list[
            Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"]
        ] = [],
        limit: int = 200,
        include_invalidated: bool = False,
    ) -> KgQueryResult:
        """Follow outgoing links from a memory, up to a depth.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            max_depth: Maximum number of links to follow (1 to 5).
            valid_at: Only links valid at this time; default: now.
            allowed_agents: Only links created by these agents; an empty list: none.
            namespace: Only memories of this namespace.
            relations: Only these relations.
            limit: Maximum number of results (1 to 1,000).
            include_invalidated: Include invalidated links.

        Returns:
            KgQueryResult: iterate over it for its `memories`.
        """
        ...

    async def find_paths(
        self,
        source_id: str,
        target_id: str,
        *,
        max_depth: int = 4,
        max_results: int = 10,
        include_invalidated: bool = False,
        valid_at: datetime | str | None = None,
    ) -> FindPathsResult:
        """Find the shortest paths between two memories.

        Args:
            source_id: Source memory: an id, or an unambiguous prefix.
            target_id: Target memory: an id, or an unambiguous prefix.
            max_depth: Maximum length of a path, in links (1 to 7).
            max_results: Maximum number of paths (1 to 50).
            include_invalidated: Include invalidated links.
            valid_at: Only links valid at this time; default: now.
        """
        ...

    async def lineage(
        self,
        id: str,
        *,
        direction: Literal["ancestors", "descendants"] = "ancestors",
        max_depth: int = 5,
        valid_at: datetime | str | None = None,
    ) -> LineageResult:
        """List the ancestors or descendants of a memory.

        Args:
            id: Id or unambiguous id prefix.
            direction: ancestors: its sources; descendants: memories derived from it.
            max_depth: Maximum distance (1 to 10).
            valid_at: Only links valid at this time; default: now.

        Returns:
            LineageResult: iterate over it for its `nodes`.
        """
        ...

    async def graph(
        self,
        id: str | None = None,
        *,
        namespace: str | None = None,
        max_depth: int = 2,
        relations: builtins.list[
            Literal["related_to", "supersedes", "contradicts", "derived_from", "reflects_on", "derives_from"]
        ] = [],
        valid_at: datetime | str | None = None,
        include_invalidated: bool = False,
        limit: int = 100,
        format: Literal["list", "json", "mermaid", "dot"] = "list",
    ) -> GraphResult:
        """Show the graph around a memory or of a namespace, optionally as a diagram.

        Args:
            id: Center memory; alternative to namespace.
            namespace: Linked memories of this namespace and below.
            max_depth: Maximum distance from the memory (1 to 5).
            relations: Only these relations.
            valid_at: Only links valid at this time; default: now.
            include_invalidated: Include invalidated links.
            limit: Maximum number of memories (1 to 1,000).
            format: list or json: memories and links; mermaid or dot: diagram text.
        """
        ...

    async def entity_register(
        self,
        canonical_name: str,
        namespace: str,
        *,
        aliases: builtins.list[str] = [],
        content: str | None = None,
        metadata: dict[str, Any] = {},
        agent_id: str | None = None,
    ) -> EntityRegisterResult:
        """Register an entity with a main name and aliases.

        Args:
            canonical_name: Its main name.
            namespace: Namespace path, at most 8 segments, such as team/project.
            aliases: Its other names.
            content: Description; default: its name.
            metadata: Any JSON object.
            agent_id: Act as this agent.
        """
        ...

    async def entity_get_by_alias(self, alias: str, *, namespace: str | None = None) -> EntityResult:
        """Find an entity by name or alias; the newest if several match.

        Args:
            alias: Name or alias, case-insensitive.
            namespace: Namespace path, at most 8 segments, such as team/project.
        """
        ...

    async def hooks_list(self) -> HookList:
        """List the lifecycle hooks of this machine in call order.

        Returns:
            HookList: iterate over it for its `hooks`.
        """
        ...

    async def hooks_test(
        self,
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
        ],
        *,
        arguments: dict[str, Any] = {},
        namespace: str | None = None,
    ) -> HooksTestResult:
        """Run the hooks of an event and show their answers, without the operation.

        Args:
            event: Event to test.
            arguments: Arguments of the operation, as JSON.
            namespace: Namespace path, at most 8 segments, such as team/project.
        """
        ...

    async def ingest(
        self,
        file: str | None = None,
        *,
        content: str | None = None,
        namespace: str | None = None,
        source_uri: str | None = None,
        pipeline: str | None = None,
        pipeline_override: dict[str, Any] | None = None,
        tags: builtins.list[str] = [],
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        dry_run: bool = False,
        again: bool = False,
        agent_id: str | None = None,
    ) -> IngestResult:
        """Ingest a document: chunk, deduplicate, store with source positions.

        Ingesting the same document again does nothing. In an edited one, changed segments supersede earlier versions.

        Args:
            file: Text or Markdown file; - reads standard input.
            content: The text of the document.
            namespace: Namespace path, at most 8 segments, such as team/project.
            source_uri: Source URI; identifies the document when it is ingested again.
            pipeline: plain (default), two_phase, four_step, or a TOML or JSON file.
            pipeline_override: Inline pipeline: `stages`, and `name` or `variant`.
            tags: Tags.
            scope: private: visible to you and agents you share it with.
            dry_run: Report what would be stored without storing it.
            again: Ingest again: store segments deleted since the last time.
            agent_id: Act as this agent.
        """
        ...

    async def pipelines(self, name: str | None = None) -> PipelineList:
        """List ingest pipelines, or validate a pipeline file.

        Args:
            name: Show only this pipeline: a name or a file.

        Returns:
            PipelineList: iterate over it for its `pipelines`.
        """
        ...

    async def interaction_record(
        self,
        status: Literal["ok", "error", "denied"],
        *,
        principal: str | None = None,
        name: str = "",
        channel: str = "",
        action: str = "",
        reason: str = "",
        input: str | None = None,
        output: str | None = None,
        provider: str = "",
        model: str = "",
        took_ms: int | None = None,
        conversation_id: str = "",
        at: datetime | str | None = None,
        unique_key: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> InteractionRecordResult:
        """Record a request to an agent and its decision in the journal.

        The policy of the namespace decides whether text is kept, hashed or omitted.

        Args:
            status: Decision: ok, error or denied.
            principal: Person who asked [default: the agent].
            name: Display name of the person.
            channel: Channel, such as cli or slack.
            action: Requested action, such as a tool.
            reason: Reason of the denial or error.
            input: Text of the request; stored as the namespace policy allows.
            output: Text of the answer; stored as the namespace policy allows.
            provider: Provider of the model.
            model: Model that answered.
            took_ms: Duration in milliseconds (0 to 1,000,000,000,000).
            conversation_id: Id of the conversation.
            at: Time [default: now].
            unique_key: Idempotency key: repeats are recorded once.
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    async def interaction_list(
        self,
        *,
        status: builtins.list[Literal["ok", "error", "denied"]] = [],
        principal: builtins.list[str] = [],
        channel: str | None = None,
        namespace: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Interactions:
        """List interactions, latest first.

        Agents see those they recorded and their own; admins of the store see all.

        Args:
            status: Only these decisions.
            principal: Only these people.
            channel: Only this channel.
            namespace: Namespace path, at most 8 segments, such as team/project.
            since: From this time on.
            until: Before this time.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            Interactions: iterate over it for its `interactions`.
        """
        ...

    async def interaction_show(self, id: str) -> Interaction:
        """Show one interaction in full.

        Args:
            id: Id of the interaction.
        """
        ...

    async def interaction_erase(self, older_than_days: int, *, agent_id: str | None = None) -> InteractionEraseResult:
        """Erase text and person of old interactions; decisions remain.

        Args:
            older_than_days: Minimum age in days (0 to 36,500).
            agent_id: Act as this agent.
        """
        ...

    async def import_kernex(
        self, path: str, *, namespace: str = "kernex", dry_run: bool = False, agent_id: str | None = None
    ) -> KernexImportResult:
        """Import a kernex store: conversations, facts, lessons, tasks, usage and more.

        The file is only read. A repeated import adds what is new. A row that cannot be imported is reported; the others
        are imported.

        Args:
            path: The kernex database, such as ~/.kernex/memory.db.
            namespace: Target namespace; projects go below it.
            dry_run: Report what would happen, write nothing.
            agent_id: Act as this agent.
        """
        ...

    async def lesson_add(
        self,
        rule: str,
        domain: str,
        *,
        namespace: str | None = None,
        principal: str | None = None,
        outcomes: builtins.list[str] = [],
        agent_id: str | None = None,
    ) -> LessonAddResult:
        """Add a lesson, or strengthen the existing one with the same rule.

        A domain keeps ten lessons: the weakest beyond that are archived, never the one just added.

        Args:
            rule: The rule, in one sentence.
            domain: Topic, such as testing.
            namespace: Namespace path, at most 8 segments, such as team/project.
            principal: Person or agent (default: the calling agent).
            outcomes: Ids of outcomes that support the lesson.
            agent_id: Act as this agent.
        """
        ...

    async def lesson_list(
        self, *, namespace: str | None = None, domain: str | None = None, principal: str | None = None, limit: int = 50
    ) -> Lessons:
        """List lessons by confidence; a namespace comes before its parents.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            domain: Topic, such as testing.
            principal: Person or agent (default: the calling agent).
            limit: Maximum number of lessons (1 to 1,000).

        Returns:
            Lessons: iterate over it for its `lessons`.
        """
        ...

    async def lesson_suggest(
        self, *, namespace: str | None = None, domain: str | None = None, principal: builtins.list[str] = []
    ) -> Proposals:
        """Suggest lessons from outcomes that occurred three times or more.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            domain: Topic, such as testing.
            principal: Only of these people or agents.

        Returns:
            Proposals: iterate over it for its `proposals`.
        """
        ...

    async def outcome_record(
        self,
        what: str = "",
        *,
        score: int,
        domain: str,
        lesson_id: str | None = None,
        namespace: str | None = None,
        principal: str | None = None,
        source: str = "conversation",
        agent_id: str | None = None,
    ) -> OutcomeRecordResult:
        """Record an outcome; it strengthens or weakens the matching lesson.

        Args:
            what: What happened, or the lesson from it.
            score: 1: success, -1: failure, 0: neutral.
            domain: Topic, such as testing.
            lesson_id: Lesson that this outcome confirms or contradicts.
            namespace: Namespace path, at most 8 segments, such as team/project.
            principal: Person or agent (default: the calling agent).
            source: Where the outcome was observed.
            agent_id: Act as this agent.
        """
        ...

    async def outcome_list(
        self,
        *,
        namespace: str | None = None,
        domain: str | None = None,
        principal: builtins.list[str] = [],
        since: datetime | str | None = None,
        archived: bool = False,
        limit: int = 50,
    ) -> Outcomes:
        """List outcomes, newest first.

        Args:
            namespace: Namespace path, at most 8 segments, such as team/project.
            domain: Topic, such as testing.
            principal: Only of these people or agents.
            since: RFC 3339 time or date.
            archived: Include archived outcomes.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Outcomes: iterate over it for its `outcomes`.
        """
        ...

    async def llm_test(self) -> ModelReport:
        """Test the configured model with a small question.

        Uses a few hundred tokens of the daily budget. Every feature also works without a model.
        """
        ...

    async def llm_usage(self, *, days: int = 30) -> UsagePage:
        """Show model usage by day, task and model, and today's remaining budget.

        Args:
            days: Number of days, including today (1 to 400).

        Returns:
            UsagePage: iterate over it for its `usage`.
        """
        ...

    async def namespaces(self) -> NamespacesResult:
        """List namespaces with their memory counts.

        Returns:
            NamespacesResult: iterate over it for its `namespaces`.
        """
        ...

    async def get_taxonomy(
        self, namespace_prefix: str | None = None, *, depth: int = 8, limit: int = 1000
    ) -> TaxonomyResult:
        """Show namespaces as a tree with memory counts.

        Args:
            namespace_prefix: Only this namespace and below.
            depth: Number of levels below the prefix (0 to 8).
            limit: Maximum number of namespaces, largest first (1 to 10,000).
        """
        ...

    async def namespace_set_standard(self, namespace: str, id: str, *, parent: str | None = None) -> SetStandardResult:
        """Set the standard of a namespace: a memory shown in every session there.

        Args:
            namespace: Namespace, or * for all.
            id: Memory that states how the namespace works.
            parent: Namespace whose standard also applies here.
        """
        ...

    async def namespace_get_standard(self, namespace: str, *, inherit: bool = False) -> GetStandardResult:
        """Show the standard of a namespace, or all that apply to it.

        Args:
            namespace: Namespace, or * for all.
            inherit: Include inherited standards.
        """
        ...

    async def namespace_clear_standard(self, namespace: str) -> ClearResult:
        """Remove the standard of a namespace; the memory stays.

        Args:
            namespace: Namespace, or * for all.
        """
        ...

    async def policy_set(
        self,
        namespace: str,
        *,
        max_reflection_depth: int | None = None,
        require_approval_above_depth: int | None = None,
        self_approval: bool | None = None,
        invalidation_hops: int | None = None,
        skill_promotion_min_depth: int | None = None,
        secrets: Literal["allow", "flag", "redact", "refuse"] | None = None,
        interaction_text: Literal["keep", "hash", "omit"] | None = None,
        inherit: builtins.list[str] = [],
    ) -> PolicyView:
        """Set rules for a namespace and all below; others stay.

        Args:
            namespace: Namespace, or * for all.
            max_reflection_depth: Maximum depth of reflections; 0: none allowed.
            require_approval_above_depth: Deeper reflections need approval; 32: none do.
            self_approval: Let requesters approve their own requests.
            invalidation_hops: Distance up to which dependents are flagged stale (1 to 64).
            skill_promotion_min_depth: Minimum depth of a reflection promoted to a skill (1 to 32).
            secrets: Secrets in stored text: allow, flag, redact or refuse.
            interaction_text: Text of recorded interactions: keep, hash or omit.
            inherit: Rules to unset, so that they are inherited.
        """
        ...

    async def policy_get(self, namespace: str) -> PolicyView:
        """Show the effective rules of a namespace and where they are set.

        Args:
            namespace: Namespace, or * for all.
        """
        ...

    async def policy_clear(self, namespace: str) -> ClearResult:
        """Remove the policy of a namespace; inherited rules apply.

        Args:
            namespace: Namespace, or * for all.
        """
        ...

    async def observation_save(
        self,
        title: str,
        type: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"],
        *,
        what: str | None = None,
        why: str | None = None,
        where: str | None = None,
        learned: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> ObservationView:
        """Store a typed observation: what, why, where, and the lesson from it.

        Args:
            title: Short title.
            type: Type of observation.
            what: What was observed or done.
            why: Why it happened or was done.
            where: Files or places concerned.
            learned: The lesson from it.
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    async def observation_update(
        self,
        id: str,
        *,
        title: str | None = None,
        type: Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"] | None = None,
        what: str | None = None,
        why: str | None = None,
        where: str | None = None,
        learned: str | None = None,
        agent_id: str | None = None,
    ) -> ObservationView:
        """Change parts of an observation; an empty value removes a part.

        Args:
            id: Id or unambiguous id prefix.
            title: New title.
            type: New type.
            what: New text; empty removes it.
            why: New text; empty removes it.
            where: New text; empty removes it.
            learned: New text; empty removes it.
            agent_id: Act as this agent.
        """
        ...

    async def observation_search(
        self,
        query: str | None = None,
        *,
        type: builtins.list[
            Literal["bugfix", "decision", "pattern", "config", "discovery", "learning", "architecture"]
        ] = [],
        namespace: str | None = None,
        since: datetime | str | None = None,
        limit: int = 20,
    ) -> Observations:
        """Search observations by keywords and type, or list the newest.

        Args:
            query: Keywords (default: list the newest).
            type: Only of these types.
            namespace: Namespace path, at most 8 segments, such as team/project.
            since: RFC 3339 time or date.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Observations: iterate over it for its `observations`.
        """
        ...

    async def limitation_add(
        self,
        title: str,
        *,
        description: str = "",
        plan: str = "",
        evidence: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> LimitationAddResult:
        """Add a limitation, or add evidence to the existing one.

        Args:
            title: Short title.
            description: What does not work.
            plan: Planned fix.
            evidence: What happened this time.
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    async def limitation_resolve(self, id: str, *, how: str = "", agent_id: str | None = None) -> LimitationView:
        """Mark a limitation as resolved.

        Args:
            id: Id or unambiguous id prefix.
            how: How it was fixed.
            agent_id: Act as this agent.
        """
        ...

    async def limitation_list(
        self, *, status: Literal["open", "resolved", "all"] = "open", namespace: str | None = None, limit: int = 50
    ) -> Limitations:
        """List limitations, oldest first.

        Args:
            status: Only with this status.
            namespace: Namespace path, at most 8 segments, such as team/project.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            Limitations: iterate over it for its `limitations`.
        """
        ...

    async def history(self, id: str, *, after: int = 0, limit: int = 100) -> HistoryPage:
        """List every change of a memory, oldest first.

        Args:
            id: Id or unambiguous id prefix.
            after: Only changes after this sequence number (0 to 9,007,199,254,740,991).
            limit: Maximum number of results (1 to 1,000).

        Returns:
            HistoryPage: iterate over it for its `changes`.
        """
        ...

    async def undo(self, change: int, *, together: bool = False) -> UndoResult:
        """Undo a change. The undo is a new change and can be undone too.

        Args:
            change: Sequence number of the change (1 to 9,007,199,254,740,991).
            together: Undo everything committed in the same transaction.
        """
        ...

    async def verify(self, *, witness: str | None = None) -> VerifyResult:
        """Check the journal for edited, removed, reordered or truncated entries.

        Args:
            witness: seq:hash of an earlier head, saved outside the store.
        """
        ...

    async def events(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        events: builtins.list[str] = [],
        namespace: str | None = None,
        agent_filter: str | None = None,
    ) -> EventPage:
        """List changes by sequence number, with the same filters as subscriptions.

        Args:
            after: Only changes after this sequence number (0 to 9,007,199,254,740,991).
            limit: Maximum number of results (1 to 1,000).
            events: Only these events: memory_store, memory_*, ... (default: all).
            namespace: Only this namespace or pattern: team/project, or team/**.
            agent_filter: Only changes made by this agent.

        Returns:
            EventPage: iterate over it for its `events`.
        """
        ...

    async def peer_hello(self, message: dict[str, Any]) -> PeerHello:
        """Exchange identities, version vectors and cursors with another store.

        Args:
            message: The request message, as the sync protocol defines it.
        """
        ...

    async def peer_feed(self, message: dict[str, Any]) -> PeerFeed:
        """Return the changes that another store is missing.

        Args:
            message: The request message, as the sync protocol defines it.
        """
        ...

    async def peer_take(self, message: dict[str, Any]) -> PeerTakeResult:
        """Apply a page of changes in one transaction, with an outcome for each.

        Args:
            message: The request message, as the sync protocol defines it.
        """
        ...

    async def peer_token(self) -> PeerToken:
        """Print the token with which another store enrols this one."""
        ...

    async def peer_add(
        self,
        name: str,
        token: str,
        *,
        url: str | None = None,
        tell: builtins.list[str] | None = None,
        take: builtins.list[str] | None = None,
        admin: bool = False,
        fingerprint: str | None = None,
    ) -> Peer:
        """Enrol another store as a peer, limited to the given namespaces.

        Without patterns it may read and write every namespace. Policies, grants, standards and erasure requests need
        `admin`.

        Args:
            name: A local name for the peer.
            token: The output of `sync peers token` on the other store.
            url: Its server address: https://desk.example:9077.
            tell: Namespaces it may read: team/**, notes/*, ** for all.
            take: Namespaces it may write; '' for none.
            admin: Also accept policies, grants, standards and erasure requests from it.
            fingerprint: SHA-256 of its server certificate, to pin it.
        """
        ...

    async def peer_list(self) -> PeerPage:
        """List enrolled peers and the namespaces each may read and write.

        Returns:
            PeerPage: iterate over it for its `peers`.
        """
        ...

    async def peer_set(
        self,
        name: str,
        *,
        url: str | None = None,
        tell: builtins.list[str] | None = None,
        take: builtins.list[str] | None = None,
        admin: bool | None = None,
        fingerprint: str | None = None,
        token: str | None = None,
    ) -> Peer:
        """Change the settings of a peer; omitted fields keep their values.

        A token is needed only if the peer has a new key. Records that enter its namespaces are sent to it; records that
        leave them stay there unchanged.

        Args:
            name: A local name for the peer.
            url: Its server address: https://desk.example:9077.
            tell: Namespaces it may read: team/**, notes/*, ** for all.
            take: Namespaces it may write; '' for none.
            admin: Also accept policies, grants, standards and erasure requests from it.
            fingerprint: SHA-256 of its server certificate, to pin it.
            token: The output of `sync peers token` on the other store.
        """
        ...

    async def peer_remove(self, name: str) -> Peer:
        """Remove a peer immediately; data it sent before stays.

        Args:
            name: A local name for the peer.
        """
        ...

    async def peer_certificate(
        self, name: str, *, host: builtins.list[str] | None = None, folder: str = "certificates"
    ) -> CertificateResult:
        """Create a server and client certificate for a store.

        The first one in a folder also creates its signing CA. Key files are readable by their owner only and have no
        password.

        Args:
            name: A local name for the peer.
            host: Host names and addresses of the server [default: its name].
            folder: Directory for the files and the signing CA.
        """
        ...

    async def pending_list(
        self, *, status: Literal["pending", "approved", "rejected"] | None = None, limit: int = 100
    ) -> PendingPage:
        """List pending and decided requests, newest first.

        Args:
            status: Only with this status.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            PendingPage: iterate over it for its `pending`.
        """
        ...

    async def pending_approve(self, id: str) -> ApproveResult:
        """Approve a pending request; it runs at once, as its requester.

        Args:
            id: Id of the pending action.
        """
        ...

    async def pending_reject(self, id: str, *, reason: str | None = None) -> RejectResult:
        """Reject a pending request, or withdraw your own.

        Args:
            id: Id of the pending action.
            reason: Why, in one line.
        """
        ...

    async def principal_merge(self, alias: str, principal: str, *, agent_id: str | None = None) -> PrincipalNames:
        """Make a name an alias of a person.

        Both names then share what is known of either. Records keep the name they were written under, so `person unalias`
        can separate them again.

        Args:
            alias: Name that becomes an alias.
            principal: Principal it becomes an alias of.
            agent_id: Act as this agent.
        """
        ...

    async def principal_split(self, alias: str, *, agent_id: str | None = None) -> PrincipalNames:
        """Separate an alias from its principal, with everything written under it.

        Args:
            alias: Alias to separate.
            agent_id: Act as this agent.
        """
        ...

    async def principal_describe(self, name: str, display: str, *, agent_id: str | None = None) -> PrincipalNames:
        """Set the display name of a person or an agent.

        Args:
            name: A name, such as ann or slack:U42.
            display: Display name.
            agent_id: Act as this agent.
        """
        ...

    async def principal_show(self, name: str) -> PrincipalNames:
        """Show the principal of a name and all its aliases.

        Args:
            name: A name, such as ann or slack:U42.
        """
        ...

    async def principal_list(self, *, limit: int = 100, after: str = "") -> Names:
        """List known names and the principals they stand for.

        Args:
            limit: Maximum number of results (1 to 1,000).
            after: Only names after this one.

        Returns:
            Names: iterate over it for its `names`.
        """
        ...

    async def principal_purge(self, name: str, *, agent_id: str | None = None) -> ErasureResult:
        """Erase a person permanently, under every name, here and in synced stores.

        Deletes rows, history, index entries and embeddings. A digest of each name, the time, the agent and the counts
        remain. Backups are not changed.

        Args:
            name: Any name of the person.
            agent_id: Act as this agent.
        """
        ...

    async def principal_forgotten(self, name: str) -> ErasureResult:
        """Show the record of a person's erasure.

        Args:
            name: A name, such as ann or slack:U42.
        """
        ...

    async def quarantine(self, *, limit: int = 50, offset: int = 0) -> QuarantinePage:
        """List rejected changes of other stores with their reasons, newest first.

        Args:
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            QuarantinePage: iterate over it for its `quarantined`.
        """
        ...

    async def quarantine_show(self, id: str) -> QuarantinedChangeDetails:
        """Show a rejected change and its content.

        Args:
            id: Id of the rejected change.
        """
        ...

    async def quarantine_retry(
        self, ids: builtins.list[str] = [], *, trust_source: bool = False
    ) -> QuarantineRetryResult:
        """Retry changes in quarantine as if they had just arrived.

        A change that is rejected again stays in quarantine with its reason.

        Args:
            ids: Ids of the changes [default: all].
            trust_source: Keep the owners of new memories; otherwise you own them.
        """
        ...

    async def quarantine_drop(self, ids: builtins.list[str]) -> QuarantineDropResult:
        """Delete changes from quarantine and reject them in the future.

        They are rejected whoever sends them again. A different change with the same origin and number is accepted.

        Args:
            ids: Ids of the changes.

        Returns:
            QuarantineDropResult: iterate over it for its `dropped`.
        """
        ...

    async def reflect(
        self,
        source_ids: builtins.list[str],
        title: str,
        content: str,
        *,
        namespace: str | None = None,
        tier: Literal["short", "mid", "long"] | None = None,
        tags: builtins.list[str] = [],
        priority: int = 5,
        confidence: float = 1.0,
        scope: Literal["private", "team", "unit", "org", "collective"] | None = None,
        metadata: dict[str, Any] = {},
        depth: int | None = None,
        agent_id: str | None = None,
    ) -> ReflectResult:
        """Store a conclusion with its sources.

        Its depth is one more than the deepest source, up to the limit of the namespace's policy. The title must be free.

        Args:
            source_ids: Memories that it is derived from.
            title: Title, unique in its namespace.
            content: The conclusion.
            namespace: Namespace; default: that of the first source.
            tier: short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]
            tags: Tags.
            priority: Priority, 1 to 10.
            confidence: Confidence, 0 to 1.
            scope: Who may see it; default: narrowest scope of the sources.
            metadata: Any JSON object.
            depth: Fail unless the depth is this (1 to 1,000).
            agent_id: Act as this agent.
        """
        ...

    async def reflection_origin(self, memory_id: str) -> ReflectionOriginResult:
        """Show who created a reflection, on which node, and its depths.

        Args:
            memory_id: Id, or an unambiguous prefix of one.
        """
        ...

    async def reflect_suggest(
        self,
        *,
        namespace: str | None = None,
        days: int = 30,
        min_size: int = 3,
        max_size: int = 12,
        limit: int = 10,
        again: bool = False,
        draft: bool = True,
        dry_run: bool = False,
    ) -> Suggestions:
        """Propose reflections on groups of similar recent observations.

        The same observations give the same proposals, and each proposal is made once. Nothing is stored as a memory. Each
        comes with a draft, from the sources' sentences or from the configured model; a dry run calls no model.

        Args:
            namespace: Only this namespace and below.
            days: Age limit of the observations, in days (1 to 3,650).
            min_size: Minimum number of sources (2 to 64).
            max_size: Maximum number of sources (2 to 64).
            limit: Maximum number of proposals (1 to 100).
            again: Include earlier proposals that were not dismissed.
            draft: Draft a conclusion for each (with a model if set).
            dry_run: Do not record these as proposed.

        Returns:
            Suggestions: iterate over it for its `suggestions`.
        """
        ...

    async def reflect_dismiss(self, offer_id: str) -> DismissResult:
        """Never propose these sources together again.

        Args:
            offer_id: Id of the proposal.
        """
        ...

    async def export_reflection(self, memory_id: str, *, format: Literal["md", "json"] = "md") -> ReflectionText:
        """Export one reflection with its sources, as Markdown or JSON.

        Args:
            memory_id: Id, or an unambiguous prefix of one.
            format: md (Markdown) or json.
        """
        ...

    async def export_reflections(
        self, out_dir: str, *, namespace: str | None = None, since: datetime | str | None = None
    ) -> ExportReflectionsResult:
        """Export all visible reflections to a folder of Markdown files.

        Files are replaced atomically. Files of reflections that are no longer live are removed; files that Holdfast did not
        write are reported and left unchanged.

        Args:
            out_dir: Output folder; created if missing.
            namespace: Only this namespace and below.
            since: Only those created since; removes no files.
        """
        ...

    async def import_reflections(
        self,
        path: str,
        *,
        trust_source: bool = True,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        dry_run: bool = False,
    ) -> ImportReflectionsResult:
        """Import reflections from a folder of files, in one transaction.

        Rejected files are reported; all others are imported. Importing the same files again changes nothing.

        Args:
            path: Folder written by export_reflections.
            trust_source: Keep their owners; otherwise you become the owner.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            dry_run: Only report what would change.
        """
        ...

    async def run_open(
        self,
        topology: str,
        phases: builtins.list[str],
        *,
        id: str | None = None,
        definition: dict[str, Any] = {},
        inputs: dict[str, Any] = {},
        owner: str | None = None,
        seconds: int = 300,
        principal: str | None = None,
        namespace: str | None = None,
        agent_id: str | None = None,
    ) -> RunDetails:
        """Start a run, or resume it at its first incomplete phase, under a lease.

        A run resumes only with the same plan and inputs. Completed phases keep their output.

        Args:
            topology: Name of the plan.
            phases: Phases in order.
            id: Id of the run to resume, or for a new one.
            definition: Anything else that defines the plan; a change makes it a different plan.
            inputs: Inputs of this run.
            owner: Owner of the lease [default: the agent].
            seconds: Length of the lease in seconds (1 to 86,400).
            principal: Owner [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            agent_id: Act as this agent.
        """
        ...

    async def run_step(
        self,
        id: str,
        token: int,
        phase: str,
        state: Literal["in_progress", "completed", "failed"],
        *,
        output: str | None = None,
        error: str | None = None,
        seconds: int = 300,
        agent_id: str | None = None,
    ) -> StepResult:
        """Record that a phase started, completed or failed; extends the lease.

        Args:
            id: Id of a run.
            token: Fencing token returned by run open (1 to 9,007,199,254,740,991).
            phase: Name of the phase.
            state: New state of the phase.
            output: Output of the phase, complete or partial.
            error: Why it failed.
            seconds: Length of the lease in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    async def run_heartbeat(self, id: str, token: int, *, seconds: int = 300, agent_id: str | None = None) -> Run:
        """Extend the lease of a run.

        Args:
            id: Id of a run.
            token: Fencing token returned by run open (1 to 9,007,199,254,740,991).
            seconds: Length of the lease in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    async def run_close(
        self, id: str, token: int, *, error: str | None = None, agent_id: str | None = None
    ) -> RunDetails:
        """End a run: completed, or failed with an error and resumable.

        Args:
            id: Id of a run.
            token: Fencing token returned by run open (1 to 9,007,199,254,740,991).
            error: Why the run failed; it can be resumed.
            agent_id: Act as this agent.
        """
        ...

    async def run_show(self, id: str) -> RunDetails:
        """Show a run and the state of its phases.

        Args:
            id: Id of a run.
        """
        ...

    async def run_list(
        self,
        *,
        state: Literal["running", "completed", "failed"] | None = None,
        principal: builtins.list[str] = [],
        limit: int = 50,
        offset: int = 0,
    ) -> RunPage:
        """List runs, most recently updated first.

        Args:
            state: Only runs in this state.
            principal: Only runs of these principals.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            RunPage: iterate over it for its `runs`.
        """
        ...

    async def run_clear(self, id: str, *, agent_id: str | None = None) -> RunClearResult:
        """Delete a run with its phases and output, unless its lease is live.

        Args:
            id: Id of a run.
            agent_id: Act as this agent.
        """
        ...

    async def session_keep(
        self,
        session_id: str,
        provider: str,
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        expires_at: datetime | str | None = None,
        agent_id: str | None = None,
    ) -> ProviderSession:
        """Save the current provider session of a channel, principal and namespace.

        Args:
            session_id: Session id given by the provider.
            provider: Provider of the session, such as claude.
            channel: Channel of the session.
            principal: Owner [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            expires_at: RFC 3339 time or date.
            agent_id: Act as this agent.
        """
        ...

    async def session_get(
        self,
        *,
        channel: str = "",
        principal: str | None = None,
        namespace: str | None = None,
        provider: str | None = None,
    ) -> SessionGetResult:
        """Get the current provider session, if any.

        Args:
            channel: Channel of the session.
            principal: Owner [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            provider: Only a session of this provider.
        """
        ...

    async def session_clear(
        self,
        *,
        principal: str | None = None,
        channel: str = "",
        namespace: str | None = None,
        everywhere: bool = False,
        agent_id: str | None = None,
    ) -> SessionClearResult:
        """Delete the saved session of one scope, or all of them.

        Args:
            principal: Owner [default: the agent].
            channel: Channel of the session.
            namespace: Namespace path, at most 8 segments, such as team/project.
            everywhere: In every channel and namespace.
            agent_id: Act as this agent.
        """
        ...

    async def subscribe(
        self,
        url: str,
        *,
        events: builtins.list[str] = [],
        namespace: str | None = None,
        agent_filter: str | None = None,
        secret: str | None = None,
        after: int | None = None,
        agent_id: str | None = None,
    ) -> SubscribeResult:
        """Send changes to a webhook (signed, retried).

        Changes are sent in order, and only those that you may see. Not available over MCP: a model must not decide where
        memories are sent.

        Args:
            url: URL to post events to: https://...
            events: Only these events: memory_store, memory_*, ... (default: all).
            namespace: Only this namespace or pattern: team/project, or team/**.
            agent_filter: Only changes made by this agent.
            secret: Signing secret [default: generated, shown once].
            after: Start after this change [default: with the next one] (0 to 9,007,199,254,740,991).
            agent_id: Act as this agent.
        """
        ...

    async def subscription_list(self, *, limit: int = 100) -> SubscriptionPage:
        """List your subscriptions, without secrets; admins of the store see all.

        Args:
            limit: Maximum number of results (1 to 1,000).

        Returns:
            SubscriptionPage: iterate over it for its `subscriptions`.
        """
        ...

    async def unsubscribe(self, id: str, *, agent_id: str | None = None) -> UnsubscribeResult:
        """Delete a subscription with its secret and dead letters.

        Args:
            id: Id of the subscription.
            agent_id: Act as this agent.
        """
        ...

    async def subscription_deliveries(
        self,
        id: str | None = None,
        *,
        state: builtins.list[Literal["waiting", "delivered", "dead"]] = [],
        limit: int = 100,
    ) -> DeliveryPage:
        """List deliveries, latest first: delivered, waiting for a retry, or dead.

        Args:
            id: Only of this subscription.
            state: Only these states; dead: given up.
            limit: Maximum number of results (1 to 1,000).

        Returns:
            DeliveryPage: iterate over it for its `deliveries`.
        """
        ...

    async def subscription_replay(
        self,
        id: str,
        *,
        since: int | None = None,
        dead_letters: builtins.list[int] = [],
        all_dead_letters: bool = False,
        agent_id: str | None = None,
    ) -> SubscriptionReplayResult:
        """Resend events after a change, or dead letters; reactivates an ended subscription.

        Args:
            id: Id of the subscription.
            since: Resend everything after this change (0 to 9,007,199,254,740,991).
            dead_letters: Resend the dead letters of these changes.
            all_dead_letters: Resend all dead letters.
            agent_id: Act as this agent.
        """
        ...

    async def subscription_test(self, id: str, *, agent_id: str | None = None) -> SubscriptionTestResult:
        """Post a signed test event once and show the receiver's answer.

        Args:
            id: Id of the subscription.
            agent_id: Act as this agent.
        """
        ...

    async def task_add(
        self,
        title: str,
        due_at: datetime | str,
        *,
        repeat: str | None = None,
        zone: str = "UTC",
        misfire: Literal["skip", "once", "all"] = "once",
        principal: str | None = None,
        namespace: str | None = None,
        kind: str = "reminder",
        channel: str = "",
        reply_to: str = "",
        payload: dict[str, Any] = {},
        handler: Literal["none", "webhook", "command", "python", "job"] = "none",
        target: str = "",
        max_attempts: int = 5,
        timeout: int = 300,
        unique_key: str | None = None,
        agent_id: str | None = None,
    ) -> TaskAddResult:
        """Add a task: once or on a schedule, in a time zone.

        Adding an identical task again returns the existing one. Similar tasks are listed, never dropped.

        Args:
            title: What to do.
            due_at: RFC 3339 time; without an offset, local time in the zone.
            repeat: daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, a five-field cron rule, or FREQ=...
            zone: Time zone, such as Europe/Berlin.
            misfire: Missed runs: skip them, run once, or run all.
            principal: Owner of the task [default: the agent].
            namespace: Namespace path, at most 8 segments, such as team/project.
            kind: reminder, action, or a custom kind.
            channel: Channel of the request.
            reply_to: Where to send the result.
            payload: JSON object passed to the handler.
            handler: none: any agent claims it; otherwise a worker runs it (needs an admin key).
            target: URL, command, handler name or job of the handler.
            max_attempts: Maximum attempts per occurrence (1 to 100).
            timeout: Seconds that a worker allows for one attempt (1 to 86,400).
            unique_key: Reuse the existing task with this key.
            agent_id: Act as this agent.
        """
        ...

    async def task_list(
        self,
        *,
        state: builtins.list[Literal["pending", "running", "done", "failed", "cancelled"]] = [],
        due: bool = False,
        principal: builtins.list[str] = [],
        limit: int = 50,
        offset: int = 0,
    ) -> TaskPage:
        """List your tasks by due time; an admin sees all.

        Args:
            state: States to include [default: pending, running].
            due: Only tasks that can be claimed now.
            principal: Only tasks of these principals.
            limit: Maximum number of results (1 to 1,000).
            offset: Number of results to skip (0 to 9,007,199,254,740,991).

        Returns:
            TaskPage: iterate over it for its `tasks`.
        """
        ...

    async def task_show(self, id: str, *, principal: builtins.list[str] = []) -> Task:
        """Show a task.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            principal: Only tasks of these principals.
        """
        ...

    async def task_update(
        self,
        id: str,
        *,
        title: str | None = None,
        due_at: datetime | str | None = None,
        repeat: str | None = None,
        zone: str | None = None,
        misfire: Literal["skip", "once", "all"] | None = None,
        kind: str | None = None,
        reply_to: str | None = None,
        payload: dict[str, Any] | None = None,
        max_attempts: int | None = None,
        timeout: int | None = None,
        principal: builtins.list[str] = [],
        agent_id: str | None = None,
    ) -> Task:
        """Change a pending task: title, due time, schedule or payload.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            title: New title.
            due_at: RFC 3339 time; without an offset, local time in the zone.
            repeat: daily, weekdays, weekly, monthly, yearly, `every 90 minutes`, a five-field cron rule, or FREQ=...
            zone: Time zone, such as Europe/Berlin.
            misfire: Missed runs: skip them, run once, or run all.
            kind: New kind.
            reply_to: New address for the result.
            payload: JSON object passed to the handler.
            max_attempts: Maximum attempts per occurrence (1 to 100).
            timeout: Seconds that a worker allows for one attempt (1 to 86,400).
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    async def task_defer(
        self, id: str, until: datetime | str, *, principal: builtins.list[str] = [], agent_id: str | None = None
    ) -> Task:
        """Postpone the next occurrence of a task; later ones keep their times.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            until: RFC 3339 time; without an offset, local time in the zone.
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    async def task_cancel(self, id: str, *, principal: builtins.list[str] = [], agent_id: str | None = None) -> Task:
        """Cancel a task; a running attempt is asked to stop.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    async def task_retry(self, id: str, *, principal: builtins.list[str] = [], agent_id: str | None = None) -> Task:
        """Retry a failed task immediately.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            principal: Only tasks of these principals.
            agent_id: Act as this agent.
        """
        ...

    async def task_runs(self, id: str, *, limit: int = 20, principal: builtins.list[str] = []) -> TaskRunPage:
        """List the attempts of a task, newest first.

        Args:
            id: Task id, or a unique prefix of at least 6 characters.
            limit: Maximum number of results (1 to 1,000).
            principal: Only tasks of these principals.

        Returns:
            TaskRunPage: iterate over it for its `runs`.
        """
        ...

    async def task_claim(
        self,
        *,
        owner: str | None = None,
        limit: int = 10,
        seconds: int = 300,
        principal: builtins.list[str] = [],
        agent_id: str | None = None,
    ) -> ClaimResult:
        """Claim due tasks under a lease; each claim carries a fencing token.

        Each claim counts as an attempt. Tasks with a handler are left to workers.

        Args:
            owner: Owner of the lease [default: the agent].
            limit: Maximum number of tasks (1 to 1,000).
            seconds: Length of the lease in seconds (1 to 86,400).
            principal: Only tasks of these principals.
            agent_id: Act as this agent.

        Returns:
            ClaimResult: iterate over it for its `claimed`.
        """
        ...

    async def task_heartbeat(
        self, id: str, token: int, *, seconds: int = 300, agent_id: str | None = None
    ) -> HeartbeatResult:
        """Extend the lease of a claimed task; reports whether to stop.

        Args:
            id: Full task id, as returned by claim.
            token: Fencing token returned by claim (1 to 9,007,199,254,740,991).
            seconds: Length of the lease in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    async def task_finish(
        self,
        id: str,
        token: int,
        *,
        error: str | None = None,
        result: str | None = None,
        tokens_used: int | None = None,
        agent_id: str | None = None,
    ) -> FinishResult:
        """Finish a claimed task: done, or failed with an error and retried later.

        A finish with an expired lease or an older token is refused and changes nothing.

        Args:
            id: Full task id, as returned by claim.
            token: Fencing token returned by claim (1 to 9,007,199,254,740,991).
            error: Why it failed; omit if it succeeded.
            result: Result of the attempt.
            tokens_used: Model tokens used (0 to 1,099,511,627,776).
            agent_id: Act as this agent.
        """
        ...

    async def export(self, *, namespace: str | None = None, simple: bool = False) -> Envelope:
        """Export the store as JSON (ai-memory v1 format), private memories included.

        Args:
            namespace: Only this namespace and those below it.
            simple: Only live memories and the links between them.
        """
        ...

    async def import_(
        self,
        envelope: dict[str, Any],
        *,
        preserve_timestamps: bool = True,
        trust_source: bool = True,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        dry_run: bool = False,
    ) -> ImportResult:
        """Import an export in one transaction; rejected rows are reported.

        Importing the same export again changes nothing. Of two states of a record the later one is kept.

        Args:
            envelope: Output of export: a v1 envelope, or {memories, links}.
            preserve_timestamps: Keep times and versions of the file.
            trust_source: Keep owners, grants and messages of the file; otherwise memories become yours.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            dry_run: Report what would happen, write nothing.
        """
        ...

    async def export_file(self, file: str, *, namespace: str | None = None) -> ExportFileResult:
        """Export a store of any size to a JSON file, row by row.

        The file is readable by its owner only and appears when it is complete.

        Args:
            file: A file, or - for a pipe.
            namespace: Only this namespace and those below it.
        """
        ...

    async def import_file(
        self,
        file: str,
        *,
        preserve_timestamps: bool = True,
        trust_source: bool = True,
        on_conflict: Literal["error", "merge", "version"] = "merge",
        dry_run: bool = False,
    ) -> ImportResult:
        """Import an export file of any size, in batches.

        The file is read completely first. Each batch is durable before the next: repeat an interrupted import to continue.

        Args:
            file: A file, or - for a pipe.
            preserve_timestamps: Keep times and versions of the file.
            trust_source: Keep owners, grants and messages of the file; otherwise memories become yours.
            on_conflict: If the title is taken: error, merge (default), or version (add a number).
            dry_run: Report what would happen, write nothing.
        """
        ...

    async def backup(self, *, to: str | None = None, keep: int = 48) -> BackupResult:
        """Write a consistent, hashed snapshot of the store while others write.

        Args:
            to: Directory [default: beside the store].
            keep: Snapshots to keep; older ones are removed (1 to 100,000).
        """
        ...

    async def backup_list(self) -> Snapshots:
        """List the snapshots in the backup directory, newest first.

        Returns:
            Snapshots: iterate over it for its `snapshots`.
        """
        ...

    async def restore(self, from_: str, *, dry_run: bool = False) -> StoreRestoreResult:
        """Replace the whole store with a verified snapshot, for every process.

        The current state is saved as a snapshot first. If the snapshot is invalid, nothing changes.

        Args:
            from_: Snapshot name; in the CLI also a path, or a directory (its newest snapshot).
            dry_run: Verify the snapshot; change nothing.
        """
        ...

    async def doctor(self) -> DoctorReport:
        """Check the health of the store: files, journal, embeddings, peers, backups.

        Returns:
            DoctorReport: iterate over it for its `sections`.
        """
        ...

    async def gc(self, *, dry_run: bool = False) -> GcResult:
        """Archive expired memories and delete records past their retention.

        Args:
            dry_run: Only report what would change.
        """
        ...

    async def migrate(self, to: str, *, from_: str | None = None, dry_run: bool = False) -> MigrateResult:
        """Copy the store to a new file or database and verify every row.

        History and keys are copied too. Other processes can write until the last changes are copied. The source stays
        unchanged. An interrupted migration never leaves a usable target; run it again to continue.

        Args:
            to: A path, or postgresql://USER:PASSWORD@HOST/DATABASE: new, or an unfinished migration.
            from_: A path, or postgresql://USER:PASSWORD@HOST/DATABASE [default: the store in use].
            dry_run: Report what would be copied; change nothing.
        """
        ...

    async def usage_record(
        self,
        model: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        principal: str | None = None,
        session: str = "",
        at: datetime | str | None = None,
        reservation: str | None = None,
        unique_key: str | None = None,
        agent_id: str | None = None,
    ) -> UsageRecordResult:
        """Record the tokens of a model call, at the price of that day.

        Args:
            model: Name of the model.
            input_tokens: Input tokens, without cached ones (0 to 1,000,000,000).
            output_tokens: Output tokens (0 to 1,000,000,000).
            cache_read_tokens: Tokens read from a cache (0 to 1,000,000,000).
            cache_write_tokens: Tokens written to a cache (0 to 1,000,000,000).
            principal: Person or agent that used it. Default: the calling agent.
            session: Session of the call.
            at: Time of the call. Default: now.
            reservation: Reservation to release.
            unique_key: Idempotency key: record a call only once.
            agent_id: Act as this agent.
        """
        ...

    async def usage_reserve(
        self,
        model: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        principal: str | None = None,
        session: str = "",
        seconds: int = 900,
        agent_id: str | None = None,
    ) -> UsageReserveResult:
        """Reserve budget for a model call; fails if a budget would be exceeded.

        Args:
            model: Name of the model.
            input_tokens: Maximum input tokens (0 to 1,000,000,000).
            output_tokens: Maximum output tokens (0 to 1,000,000,000).
            cache_read_tokens: Maximum tokens read from a cache (0 to 1,000,000,000).
            cache_write_tokens: Maximum tokens written to a cache (0 to 1,000,000,000).
            principal: Person or agent that used it. Default: the calling agent.
            session: Session of the call.
            seconds: Lifetime of the reservation, in seconds (1 to 86,400).
            agent_id: Act as this agent.
        """
        ...

    async def usage_release(self, reservation: str, *, agent_id: str | None = None) -> UsageReleaseResult:
        """Release the reservation of a call that was not made.

        Args:
            reservation: Id of the reservation.
            agent_id: Act as this agent.
        """
        ...

    async def usage_report(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        by: builtins.list[Literal["day", "principal", "model", "session"]] = [],
        principal: builtins.list[str] = [],
        model: str | None = None,
        session: str | None = None,
    ) -> UsageReportResult:
        """Sum model usage, in total or by day, principal, model and session.

        Args:
            since: First day. Default: 30 days up to `until`.
            until: Last day, inclusive. Default: today.
            by: Group by day, principal, model or session.
            principal: Only these principals.
            model: Name of the model.
            session: Only this session.

        Returns:
            UsageReportResult: iterate over it for its `usage`.
        """
        ...

    async def price_set(
        self,
        model: str,
        *,
        since: datetime | str | None = None,
        currency: str = "USD",
        input: str | None = None,
        output: str | None = None,
        cache_read: str | None = None,
        cache_write: str | None = None,
        agent_id: str | None = None,
    ) -> Price:
        """Set the price of a model from a day on; recorded costs stay.

        Args:
            model: A model, or a prefix followed by *.
            since: First day of the price. Default: from the beginning.
            currency: Currency code, such as USD.
            input: Price of a million input tokens.
            output: Price of a million output tokens.
            cache_read: Price of a million tokens read from a cache.
            cache_write: Price of a million tokens written to a cache.
            agent_id: Act as this agent.
        """
        ...

    async def price_list(self) -> Prices:
        """List model prices, latest first for each model.

        Returns:
            Prices: iterate over it for its `prices`.
        """
        ...

    async def price_remove(
        self, model: str, *, since: datetime | str | None = None, agent_id: str | None = None
    ) -> Prices:
        """Remove a price; recorded costs stay.

        Args:
            model: A model, or a prefix followed by *.
            since: First day of the price. Default: the price from the beginning.
            agent_id: Act as this agent.

        Returns:
            Prices: iterate over it for its `prices`.
        """
        ...

    async def budget_set(
        self,
        principal: str,
        *,
        period: Literal["day", "month"] = "day",
        model: str = "*",
        tokens: int | None = None,
        cost: str | None = None,
        currency: str = "USD",
        lift: bool = False,
        agent_id: str | None = None,
    ) -> BudgetStatus:
        """Set a daily or monthly budget; reservations above it are refused.

        Args:
            principal: Person or agent; `*` is everyone together.
            period: Budget per day or per month (UTC).
            model: A model, or a prefix followed by *.
            tokens: Maximum tokens per period (0 to 1,000,000,000,000,000).
            cost: Maximum cost per period.
            currency: Currency code, such as USD.
            lift: Remove the budget.
            agent_id: Act as this agent.
        """
        ...

    async def budget_list(self) -> Budgets:
        """List your budgets and what is left of each.

        Returns:
            Budgets: iterate over it for its `budgets`.
        """
        ...

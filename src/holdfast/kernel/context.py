"""The context of every service call: store, caller with identity and rights, clock and settings."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic, sleep, time_ns
from typing import Any, Literal, Protocol

from msgspec import Struct, structs

from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import Forbidden, Invalid, OperationCancelled, OutcomeUnknown, StoreError, StoreUnreachable
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.transaction import Transaction, TypedLocals
from holdfast.kernel.language_model import Model
from holdfast.kernel.model_allowance import Allowance
from holdfast.kernel.net.outbound import PeerCredentials, WebhookLimits
from holdfast.kernel.records.memory import Tier
from holdfast.kernel.records.validate import Lifetimes, Retention
from holdfast.kernel.storage.port import Session, Store
from holdfast.kernel.timestamps import uuid7

Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = ("read", "write", "admin")
ALL_NAMESPACES = ("*",)
LOCAL_SOURCES = ("library", "cli")
"""Callers with access to local files; others may not pass paths."""

_AGENT = re.compile(r"[A-Za-z0-9_:@.-][A-Za-z0-9_:@./-]{0,127}")
RESERVED_AGENTS = frozenset({"daemon", "system", "holdfast", "anonymous"})


class Caller(Struct, frozen=True):
    """An authenticated caller. Passed unchanged through an operation."""

    agent: str
    right: Right = "admin"
    namespaces: tuple[str, ...] = ALL_NAMESPACES
    """Namespace paths; each includes its descendants. `*` means all."""
    key: str | None = None
    has_fixed_agent: bool = False
    """Whether a key or header fixes the agent, so that a request cannot name another one."""
    source: str = "library"
    """Default `source` of memories stored by this caller."""
    peer: str | None = None
    """Name of the enrolled peer that signed the request, if any."""

    def has_right(self, right: Right) -> bool:
        return RIGHTS.index(self.right) >= RIGHTS.index(right)

    def can_access(self, namespace: str) -> bool:
        return "*" in self.namespaces or any(is_under(namespace, path) for path in self.namespaces)

    def act_as(self, agent: str) -> Caller:
        """Return the caller with the agent id given in the request; raise Forbidden if the agent is fixed."""
        if agent != self.agent and self.has_fixed_agent:
            raise Forbidden(f"{self.agent!r} cannot act as {agent!r}.")
        return structs.replace(self, agent=validate_agent_id(agent))

    def require_access(self, namespace: str) -> None:
        """Raise Forbidden unless the caller can access an explicitly named namespace."""
        if not self.can_access(namespace):
            raise Forbidden(f"This key has no access to the namespace {namespace!r}.")

    def require_all_namespaces(self) -> None:
        """Raise Forbidden if the caller is confined to some namespaces: the operation covers all of them."""
        if "*" not in self.namespaces:
            raise Forbidden("This needs a key for all namespaces.")

    @property
    def is_local(self) -> bool:
        """Whether the caller runs on this machine and may name its files."""
        return self.source in LOCAL_SOURCES

    def require_local(self, field: str) -> None:
        """Raise Forbidden unless the caller is local: `field` names a file."""
        if not self.is_local:
            raise Forbidden(f"{field}: paths are allowed in the CLI and the library only. Pass a snapshot name.")


def is_under(namespace: str, path: str) -> bool:
    """Whether a namespace equals a path or is below it."""
    return namespace == path or namespace.startswith(path + "/")


def validate_agent_id(agent: str, field: str = "agent_id") -> str:
    """Validate an agent id given by a client; reserved ids are rejected."""
    if not _AGENT.fullmatch(agent) or ".." in agent:
        raise Invalid(
            f"{field}: must be 1 to 128 letters, digits or _ - : @ . / and must not start with /", fields=[field]
        )
    if agent in RESERVED_AGENTS:
        raise Invalid(f"{field}: {agent!r} is reserved", fields=[field])
    return agent


def validate_agent_type(agent_type: str) -> str:
    if agent_type not in ("human", "system") and not re.fullmatch(r"ai:[A-Za-z0-9_.-]{1,61}", agent_type):
        raise Invalid("agent_type: must be human, system or ai:<name>", fields=["agent_type"])
    return agent_type


def client_agent(client: str, host: str) -> str:
    """Build a stable agent id for a client that sends only its program name: `ai:<client>@<host>`."""
    return f"ai:{_slugify(client) or 'client'}@{_slugify(host) or 'localhost'}"


def _slugify(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:60]


NO_CREDENTIALS = PeerCredentials()
DEFAULT_WEBHOOK_LIMITS = WebhookLimits()
COMMIT_CHECK_SECONDS = 10.0
"""How long to wait for a database that went away during a commit."""
RETRY_SECONDS = 0.5


def read_clock() -> int:
    """Return the time in microseconds since 1970."""
    return time_ns() // 1000


class Progress:
    """Progress and cancellation of a long operation."""

    def __init__(
        self,
        report: Callable[[int, int, str], None] = lambda done, total, what: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._report = report
        self._stop = stop
        self._commits = False

    def __call__(self, done: int, total: int, what: str = "") -> None:
        self.check()
        self._report(done, total, what)

    def check(self) -> None:
        """Raise if the caller cancelled the operation."""
        if self._stop is not None and self._stop.is_set():
            raise OperationCancelled

    def begin_commit(self) -> None:
        """Check for cancellation a last time. The store calls this just before it commits."""
        self.check()
        self._commits = True

    def require_not_committing(self) -> None:
        """Raise OutcomeUnknown if a commit has started: without waiting for it, the outcome is unknown."""
        if self._commits:
            raise OutcomeUnknown(
                "The commit took too long. The change may have been saved or not: check before you retry."
            )


SILENT = Progress()


class WriteActivity:
    """Knows when the last write of this process was, so that background work can wait for a pause."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_progress = 0
        self._last_end = 0.0

    @contextmanager
    def track_write(self) -> Iterator[None]:
        """Mark that a write is in progress."""
        with self._lock:
            self._in_progress += 1
        try:
            yield
            self._last_end = monotonic()
        finally:
            with self._lock:
                self._in_progress -= 1

    def last_write_time(self) -> float:
        """Return the time of the last write; now, while a write is in progress."""
        return monotonic() if self._in_progress else self._last_end


class QuorumGuard(Protocol):
    """Decides when a committed change counts, for example once enough peers have acknowledged it."""

    def mark(self, session: Session, places: Sequence[journal.Position], origin: str, now: int) -> None:
        """Record changes as pending, in the transaction that makes them."""

    def wait(self, places: Sequence[journal.Position], *, may_name_peers: bool) -> None:
        """Wait until the changes count; raise if the time is over first. `named`: errors may name peers."""


class Interceptor(Protocol):
    """Wraps calls of operations: it can refuse, change or record them."""

    @property
    def waits(self) -> bool:
        """Whether it can block: surfaces then call the operation outside their event loop."""

    def applies(self, operation: object) -> bool:
        """Whether it wraps calls of this operation."""

    def call(
        self,
        operation: object,
        ctx: Context,
        caller: Caller,
        arguments: Mapping[str, Any],
        progress: Progress,
        proceed: Callable[[], Any],
    ) -> Any:
        """Return the operation's answer; `proceed` runs the operation with its original arguments."""

    def close(self) -> None:
        """Stop what it started."""


@dataclass(frozen=True)
class Context:
    """An open store, its caller, clock and settings. Passed to every service as `ctx`."""

    store: Store
    caller: Caller
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    namespace: str = "global"
    """Default namespace of new memories."""
    default_tier: Tier = "long"
    """Default tier of new memories."""
    offered: frozenset[str] = frozenset()
    """Names of the operations that this server offers as tools; empty means all."""
    now: Callable[[], int] = read_clock
    progress: Progress = SILENT
    local: TypedLocals = field(default_factory=TypedLocals)
    """In-memory state of features for this store."""
    recall_retention_days: int = 30
    """Retention of the recall log, in days; 0 disables the log."""
    retention: Retention = field(default_factory=Retention)
    """Retention of usage, task runs and runs."""
    embedder: Embedder | None = None
    """Computes embeddings; None: keyword search only."""
    model: Model | None = None
    """Language model for optional assistance; None: rules only."""
    allowance: Allowance = field(default_factory=Allowance)
    """Daily token limit of the model, and its prices."""
    peer_credentials: PeerCredentials = NO_CREDENTIALS
    """Credentials for requests to peers."""
    webhook_limits: WebhookLimits = DEFAULT_WEBHOOK_LIMITS
    """Limits of webhook requests."""
    on_commit: Callable[[], None] = lambda: None
    """Called after each commit."""
    on_memories_written: Callable[[], None] = lambda: None
    """Called after each commit that wrote memories."""
    activity: WriteActivity = field(default_factory=WriteActivity)
    """When this process wrote last."""
    flagged: list[str] = field(default_factory=list)
    """Ids of memories that this caller's changes flagged stale."""
    quorum: QuorumGuard | None = None
    """Waits for peers to acknowledge changes; None: no quorum."""
    interceptors: tuple[Interceptor, ...] = ()
    """Wrappers of operation calls, outermost first."""
    is_confirmed: bool = False
    """Whether a person at this machine confirmed what a hook asked."""
    positions: list[journal.Position] = field(default_factory=list)
    """Journal positions of this caller's changes, if a quorum is required."""

    def for_caller(self, caller: Caller, progress: Progress = SILENT) -> Context:
        return replace(self, caller=caller, progress=progress, flagged=[], positions=[])

    def new_id(self) -> str:
        return uuid7(self.now())

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with self.store.reading() as session:
            yield session

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a write transaction: rows, full-text index and journal entries are committed together or not at all.

        If the connection breaks during the commit, the journal decides whether the change was saved.
        """
        if self.store.lacks_key():
            self._create_key()
        places: list[journal.Position] = []
        flagged: list[str] = []
        try:
            with self.activity.track_write(), self.store.transaction(self.progress.begin_commit) as session:
                write = Transaction(
                    session, self.store, actor=self.caller.agent, now=self.now(), lifetimes=self.lifetimes
                )
                yield write
                write.flush()
                places, flagged = write.positions, write.flagged
                if self.quorum is not None and places:
                    self.quorum.mark(session, places, write.origin, write.now)
            self.on_commit()
            if write.written_memories:
                self.on_memories_written()
        except OutcomeUnknown as unknown:
            if not places:
                raise
            if not self._was_committed(places[-1], unknown):
                raise StoreUnreachable(
                    "The connection to the database broke; nothing was written. Try again.", retryable=True
                ) from unknown
        self.flagged.extend(flagged)
        if self.quorum is not None:
            self.positions.extend(places)

    def _new_transaction(self, session: Session) -> Transaction:
        return Transaction(session, self.store, actor=self.caller.agent, now=self.now(), lifetimes=self.lifetimes)

    def _create_key(self) -> None:
        """Create the signing key in its own transaction: a key file would survive a rollback of other writes."""
        with self.activity.track_write(), self.store.transaction() as session:
            self._new_transaction(session)

    def signing_key(self) -> bytes:
        """Return this store's signing key; a copy without one first starts a new incarnation."""
        with self.reading() as session:
            key = self.store.signing_key(session)
        if key is not None:
            return key
        with self.transaction() as write:
            return write.key

    def wait_for_quorum(self) -> None:
        """Wait until enough peers have this caller's changes; raises QuorumNotMet if the time is over first."""
        if self.quorum is not None and self.positions:
            self.quorum.wait(self.positions, may_name_peers=self.caller.has_right("admin"))

    def _was_committed(self, position: journal.Position, unknown: OutcomeUnknown) -> bool:
        """Look up the entry in a write transaction: it waits until the interrupted one has ended."""
        until = monotonic() + COMMIT_CHECK_SECONDS
        while True:
            try:
                with self.store.transaction() as session:
                    return journal.has_entry(session, position)
            except StoreError as error:
                if not error.retryable or monotonic() > until:
                    raise unknown from error
                sleep(RETRY_SECONDS)


def with_ancestors(namespace: str) -> tuple[str, ...]:
    """Return a namespace and its ancestors, whose rules apply to it too."""
    segments = namespace.split("/")
    return tuple("/".join(segments[:length]) for length in range(len(segments), 0, -1))

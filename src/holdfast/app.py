"""Composition root: builds a Holdfast from settings, engine, embedder, model and clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, cast

from holdfast.features.embeddings import service as embeddings
from holdfast.features.embeddings.minilm import MiniLm
from holdfast.features.embeddings.worker import EmbeddingWorker
from holdfast.features.recall.flush_access import AccessFlusher, flush_access_log
from holdfast.kernel.context import Caller, Context, Interceptor, Progress, read_clock, validate_agent_id
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import Invalid, StoreClosed
from holdfast.kernel.language_model import Model
from holdfast.kernel.model_allowance import Allowance
from holdfast.kernel.net.outbound import PeerCredentials, WebhookLimits
from holdfast.kernel.records.validate import Retention
from holdfast.kernel.storage.open_by_address import LazyStore, open_existing, open_store
from holdfast.kernel.storage.port import Store
from holdfast.methods import Operations
from holdfast.operations import REGISTRY
from holdfast.settings import Settings, load
from holdfast.wiring import connect_features

try:
    import pwd
except ImportError:  # not on Windows
    pwd = None  # type: ignore[assignment]

connect_features()


class Holdfast(Operations):
    """An open store. Every operation is a method: `hold.store(title=..., content=...)`.

    Results have types of `holdfast.types`: times are aware datetimes, and what is not there is None.
    """

    def __init__(self, ctx: Context, settings: Settings, *, is_long_lived: bool = False) -> None:
        self.embedding_worker = EmbeddingWorker(ctx) if is_long_lived and ctx.embedder is not None else None
        self.access_flusher = AccessFlusher(ctx) if is_long_lived else None
        self.ctx = replace(ctx, on_memories_written=self.embedding_worker.wake) if self.embedding_worker else ctx
        self.settings = settings
        self.is_closed = False

    def call(
        self, name: str, arguments: dict[str, Any], *, caller: Caller | None = None, progress: Progress | None = None
    ) -> Any:
        """Run an operation by name and return its answer as it is sent, as the owner of the store or another caller."""
        if self.is_closed:
            raise StoreClosed
        answer = REGISTRY[name].call(self.ctx, caller or self.ctx.caller, arguments, progress or self.ctx.progress)
        if not REGISTRY.entries[name].has_records:
            return answer
        from holdfast.kernel.registry.encoding import to_wire  # start-up: most answers need no conversion

        return to_wire(answer)

    def flush_embeddings(self, progress: Progress, *, wholly: bool) -> None:
        """Compute missing embeddings before a process ends, if many are pending."""
        if self.ctx.embedder is not None:
            embeddings.flush_embeddings(
                self.ctx.for_caller(self.ctx.caller, progress), self.ctx.embedder, all_due=wholly
            )

    def close(self) -> None:
        """Flush access counts, end the background work and close the store.

        Later calls raise StoreClosed; closing again does nothing.
        """
        if self.is_closed:
            return
        self.is_closed = True
        for interceptor in self.ctx.interceptors:
            interceptor.close()
        if self.access_flusher is not None:
            self.access_flusher.close()
        flush_access_log(self.ctx)
        if self.embedding_worker is not None:
            self.embedding_worker.close()
        self.ctx.store.close()

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    db: str | None = None,
    *,
    agent_id: str | None = None,
    settings: Settings | None = None,
    source: str = "library",
    now: Callable[[], int] = read_clock,
    make: bool = True,
    later: bool = False,
    once: bool = False,
) -> Holdfast:
    """Open a store, by default the user's own; create it if it does not exist.

    Without `make`, a missing store raises StoreNotFound. `later` opens an existing store on first use. `once` is for
    short processes: no background work.
    """
    chosen = settings or load({"db": db, "agent_id": agent_id})
    caller = Caller(agent=validate_agent_id(chosen.agent_id or default_agent()), source=source)
    store = cast(Store, LazyStore(chosen.db)) if later else open_store(chosen.db) if make else open_existing(chosen.db)
    ctx = Context(
        store=store,
        caller=caller,
        lifetimes=chosen.ttl,
        namespace=chosen.namespace,
        default_tier=chosen.default_tier,
        now=now,
        embedder=choose_embedder(chosen),
        model=choose_model(chosen),
        allowance=Allowance(chosen.llm_daily_tokens, chosen.llm_price_in, chosen.llm_price_out),
        recall_retention_days=chosen.recall_retention_days,
        retention=Retention(chosen.usage_retention_days, chosen.task_run_retention_days, chosen.run_retention_days),
        peer_credentials=access_of(chosen),
        interceptors=interceptors_of(chosen),
        webhook_limits=WebhookLimits(chosen.webhook_networks, chosen.webhook_timeout_secs, chosen.webhook_attempts),
    )
    return Holdfast(ctx, chosen, is_long_lived=not once)


def interceptors_of(settings: Settings) -> tuple[Interceptor, ...]:
    """Build the interceptors of the settings: the access log outside, then lifecycle hooks."""
    found: list[Interceptor] = []
    if settings.access_log != "none":
        from holdfast.features.people.interactions import AuditInterceptor  # audit is off by default

        found.append(AuditInterceptor(settings.access_log))
    if settings.hooks:
        from holdfast.features.hooks.intercept import create_interceptor  # 79 modules, 38 ms; no hooks by default

        if (hooks := create_interceptor(settings.hooks)) is not None:
            found.append(hooks)
    return tuple(found)


def access_of(settings: Settings) -> PeerCredentials:
    """Build the credentials for peers from the settings."""
    return PeerCredentials(
        api_key=settings.sync_api_key,
        client_cert=settings.sync_client_cert,
        client_key=settings.sync_client_key,
        ca=settings.sync_ca,
        fingerprint=settings.sync_fingerprint,
        insecure=settings.sync_insecure_skip_server_verify,
    )


def default_agent() -> str:
    """Return the agent id of this machine's user, stable across processes."""
    try:
        return validate_agent_id(f"human:{user_name()}@{host_name()}")
    except Invalid:
        return "human:user@localhost"


def user_name() -> str:
    """Return the user name of the account: the environment differs between a shell and a service."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (AttributeError, KeyError):
        return os.environ.get("USERNAME") or "user"


def host_name() -> str:
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME")
    return name or "localhost"


def choose_embedder(settings: Settings) -> Embedder | None:
    """Return the configured embedder; None if embeddings are off. Raises Misconfigured for invalid settings."""
    match settings.embedder:
        case "none":
            return None
        case "minilm":
            return MiniLm()
        case "openai" | "ollama":
            from holdfast.features.embeddings.remote import build_embedder  # an HTTP client: 34 modules, 14 ms

            return build_embedder(settings)


def choose_model(settings: Settings) -> Model | None:
    """Build the configured model; None if none is set. Raises Misconfigured for invalid settings."""
    match settings.llm:
        case "none":
            return None
        case "sampling":
            from holdfast.features.llm.sampling import SamplingModel  # only with the setting

            return SamplingModel(settings.llm_model, settings.llm_timeout_secs)
        case "openai" | "anthropic" | "ollama":
            from holdfast.features.llm.remote import build_model  # an HTTP client: 34 modules, 16 ms

            return build_model(settings)

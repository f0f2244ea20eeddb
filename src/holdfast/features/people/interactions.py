"""Record, list and erase interactions; each is immutable and stores text as its namespace policy allows."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.features.memories import store_memory
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.features.people.model import (
    INTERACTION,
    Decision,
    Interaction,
    apply_text_policy,
    validate_interaction,
    validate_name,
)
from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.kernel.context import ALL_NAMESPACES, Caller, Context, Progress
from holdfast.kernel.errors import (
    BudgetExceeded,
    Conflict,
    Forbidden,
    HoldfastError,
    NotFound,
    SecretRefused,
    StoreError,
)
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.registry.operation import Operation
from holdfast.kernel.storage.port import Session, SqlPart
from holdfast.kernel.timestamps import DAY, derive_id

T = TypeVar("T")
AuditMode = Literal["denied", "all"]
DENIALS = (Forbidden, BudgetExceeded, SecretRefused)
"""Errors that count as denials."""
BATCH = 500
"""Interactions erased per transaction."""


class InteractionInput(NamedTuple):
    """An interaction to record."""

    status: Decision
    principal: str | None = None
    namespace: str | None = None
    name: str = ""
    channel: str = ""
    action: str = ""
    reason: str = ""
    provider: str = ""
    model: str = ""
    took_ms: int | None = None
    conversation: str = ""
    at: int | None = None
    input: str | None = None
    output: str | None = None
    unique_key: str | None = None


class InteractionFilter(NamedTuple):
    """Filter for interactions that the caller may see."""

    principals: tuple[str, ...] = ()
    statuses: tuple[Decision, ...] = ()
    channel: str | None = None
    namespace: str | None = None
    since: int | None = None
    until: int | None = None


def record(ctx: Context, given: InteractionInput) -> tuple[Interaction, bool]:
    """Record a decision; return it and whether it is new. Idempotent by `unique_key`."""
    with ctx.transaction() as write:
        return record_in_transaction(ctx, write, given)


def record_in_transaction(ctx: Context, write: Transaction, given: InteractionInput) -> tuple[Interaction, bool]:
    """Record a decision inside a transaction."""
    interaction = _build_interaction(ctx, given, write.now, write.origin)
    ctx.caller.require_access(interaction.namespace)
    existing = write.get(INTERACTION, interaction.id)
    if existing is not None:
        if (existing.status, existing.action) != (interaction.status, interaction.action):
            raise Conflict("unique_key: already used by a different interaction", fields=["unique_key"])
        return existing, False
    clean, _ = store_memory.filter_secrets(write.session, interaction.namespace, _checked_texts(interaction))
    rules = resolve_rules(write.session, interaction.namespace)
    stored = apply_text_policy(replace(interaction, **clean), rules.interaction_text)
    return write.add(INTERACTION, stored, "interaction"), True


def _build_interaction(ctx: Context, given: InteractionInput, now: int, origin: str) -> Interaction:
    key, agent = given.unique_key, ctx.caller.agent
    interaction = Interaction(
        id=ctx.new_id() if key is None else derive_id("interaction", agent, key),
        namespace=given.namespace or ctx.namespace,
        agent=agent,
        principal=validate_name(given.principal or agent),
        name=given.name,
        channel=given.channel,
        action=given.action,
        status=given.status,
        reason=given.reason,
        provider=given.provider,
        model=given.model,
        took_ms=given.took_ms,
        conversation=given.conversation,
        at=now if given.at is None else given.at,
        texts="keep",
        input=given.input,
        output=given.output,
        input_digest=None,
        output_digest=None,
        created_at=now,
        updated_at=now,
        origin=origin,
        version=1,
    )
    return validate_interaction(interaction)


def _checked_texts(interaction: Interaction) -> dict[str, str]:
    """Return the texts to check for secrets."""
    return {name: value for name in ("input", "output", "reason") if (value := getattr(interaction, name))}


class AuditInterceptor:
    """Records how calls of operations ended: denials, or every call."""

    waits = False

    def __init__(self, mode: AuditMode) -> None:
        self._mode = mode

    def applies(self, operation: object) -> bool:
        return True

    def call(
        self,
        operation: object,
        ctx: Context,
        caller: Caller,
        arguments: Mapping[str, Any],
        progress: Progress,
        proceed: Callable[[], Any],
    ) -> Any:
        assert isinstance(operation, Operation)
        return call_and_record(ctx, caller, operation.name, proceed, self._mode)

    def close(self) -> None:
        """Nothing to close."""


def call_and_record(ctx: Context, caller: Caller, action: str, run: Callable[[], T], mode: AuditMode) -> T:
    """Run an operation and record its outcome: denials always, everything in mode `all`."""
    began = monotonic()

    def record_outcome(status: Decision, reason: str = "") -> None:
        took = int((monotonic() - began) * 1000)
        everywhere = replace(caller, namespaces=ALL_NAMESPACES)
        record(
            ctx.for_caller(everywhere),
            InteractionInput(status, channel=caller.source, action=action, reason=reason, took_ms=took),
        )

    try:
        answer = run()
    except HoldfastError as error:
        status: Decision = "denied" if isinstance(error, DENIALS) else "error"
        if mode == "all" or status == "denied":
            with suppress(StoreError):
                record_outcome(status, error.code)
        raise
    if mode == "all":
        record_outcome("ok")
    return answer


def list_interactions(
    ctx: Context, which: InteractionFilter, limit: int, skip: int
) -> tuple[list[Interaction], dict[str, int]]:
    with ctx.reading() as session:
        found = select_interactions(session, ctx.caller, which, limit, skip)
        return found, count_by_status(session, ctx.caller, which)


def get_interaction(ctx: Context, id: str) -> Interaction:
    with ctx.reading() as session:
        found = get_visible(session, ctx.caller, id)
    if found is None:
        raise NotFound(f"No interaction {id!r}, or it is not yours.")
    return found


def erase_older(ctx: Context, days: int) -> int:
    """Erase text and person of interactions older than some days; agent, time and status remain."""
    if "*" not in ctx.caller.namespaces:
        raise Forbidden("Erasing interactions needs a key that reaches every namespace.")
    before, erased_count = ctx.now() - days * DAY, 0
    while True:
        with ctx.transaction() as write:
            rows = write.session.rows("interaction_old", before=before, limit=BATCH)
            for row in rows:
                write.purge(INTERACTION, INTERACTION.load(row))
        erased_count += len(rows)
        ctx.progress(erased_count, erased_count, "erasing")
        if len(rows) < BATCH:
            return erased_count


# Queries of what the caller may see


def select_interactions(
    session: Session, caller: Caller, which: InteractionFilter, limit: int, skip: int
) -> list[Interaction]:
    """List interactions, latest first. Agents see those they recorded and their own; admins see all."""
    parts, params = _filter_clauses(session, caller, which)
    rows = session.select(["interaction_select", *parts, "interaction.page"], params | {"limit": limit, "skip": skip})
    return [INTERACTION.load(row) for row in rows]


def count_by_status(session: Session, caller: Caller, which: InteractionFilter) -> dict[str, int]:
    """Count interactions by status."""
    parts, params = _filter_clauses(session, caller, which)
    rows = session.select(["interaction_counts", *parts, "interaction.grouped"], params)
    return {status: int(count) for status, count in rows}


def get_visible(session: Session, caller: Caller, id: str) -> Interaction | None:
    """Return an interaction if the caller may see it, else None."""
    row = session.row("interaction_get", id=id)
    found = INTERACTION.load(row) if row else None
    return found if found is not None and may_see(session, caller, found) else None


def may_see(session: Session, caller: Caller, one: Interaction) -> bool:
    own = caller.has_right("admin") or caller.agent == one.agent or one.principal in list_names(session, caller.agent)
    return own and caller.can_access(one.namespace)


def _filter_clauses(session: Session, caller: Caller, which: InteractionFilter) -> tuple[list[SqlPart], dict[str, Any]]:
    parts: list[SqlPart] = []
    params: dict[str, Any] = {}
    if not caller.has_right("admin"):
        parts.append("interaction.of_agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if "*" not in caller.namespaces:
        reach = list(caller.namespaces) or [" "]
        parts += [
            ("interaction.reach_more" if number else "interaction.reach_first", number) for number in range(len(reach))
        ]
        parts.append("interaction.reach_end")
        params |= {f"reach_{number}": path for number, path in enumerate(reach)}
    if which.principals:
        parts.append("interaction.of_principal")
        params["principals"] = list(list_all_names(session, which.principals))
    if which.statuses:
        parts.append("interaction.status")
        params["statuses"] = list(which.statuses)
    for name, part in (("channel", "channel"), ("namespace", "in"), ("since", "since"), ("until", "until")):
        if (value := getattr(which, name)) is not None:
            parts.append(f"interaction.{part}")
            params[name] = value
    return parts, params

"""Record, list and erase interactions; each is immutable and stores text as its namespace policy allows."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.features.access import interaction_store as interactions
from holdfast.features.access.interaction import INTERACTION, Decision, Interaction, admit_interaction, as_allowed
from holdfast.features.access.interaction_store import Which
from holdfast.features.memories import dedup as hygiene
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.people.principal import admit_name
from holdfast.kernel import ids
from holdfast.kernel.caller import ALL_NAMESPACES, Caller
from holdfast.kernel.context import Hold, Progress
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
from holdfast.kernel.timestamps import DAY

T = TypeVar("T")
AuditMode = Literal["denied", "all"]
DENIALS = (Forbidden, BudgetExceeded, SecretRefused)
"""Errors that count as denials."""
BATCH = 500
"""Interactions erased per transaction."""


class Told(NamedTuple):
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


def record(hold: Hold, told: Told) -> tuple[Interaction, bool]:
    """Record a decision; return it and whether it is new. Idempotent by `unique_key`."""
    with hold.writing() as write:
        return record_in(hold, write, told)


def record_in(hold: Hold, write: Transaction, told: Told) -> tuple[Interaction, bool]:
    """Record a decision inside a transaction."""
    made = _made(hold, told, write.now, write.origin)
    hold.caller.must_reach(made.namespace)
    known = write.get(INTERACTION, made.id)
    if known is not None:
        if (known.status, known.action) != (made.status, made.action):
            raise Conflict("unique_key: already used by a different interaction", fields=["unique_key"])
        return known, False
    clean, _ = hygiene.permitted(write.session, made.namespace, _texts(made))
    rules = policies.resolved(write.session, made.namespace)
    kept = as_allowed(replace(made, **clean), rules.interaction_text)
    return write.add(INTERACTION, kept, "interaction"), True


def _made(hold: Hold, told: Told, now: int, origin: str) -> Interaction:
    key, agent = told.unique_key, hold.caller.agent
    made = Interaction(
        id=hold.new_id() if key is None else ids.derived("interaction", agent, key),
        namespace=told.namespace or hold.namespace,
        agent=agent,
        principal=admit_name(told.principal or agent),
        name=told.name,
        channel=told.channel,
        action=told.action,
        status=told.status,
        reason=told.reason,
        provider=told.provider,
        model=told.model,
        took_ms=told.took_ms,
        conversation=told.conversation,
        at=now if told.at is None else told.at,
        texts="keep",
        input=told.input,
        output=told.output,
        input_digest=None,
        output_digest=None,
        created_at=now,
        updated_at=now,
        origin=origin,
        version=1,
    )
    return admit_interaction(made)


def _texts(made: Interaction) -> dict[str, str]:
    """Return the texts to check for secrets."""
    return {name: value for name in ("input", "output", "reason") if (value := getattr(made, name))}


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
        ctx: Hold,
        caller: Caller,
        arguments: Mapping[str, Any],
        progress: Progress,
        proceed: Callable[[], Any],
    ) -> Any:
        assert isinstance(operation, Operation)
        return call_and_record(ctx, caller, operation.name, proceed, self._mode)

    def close(self) -> None:
        """Nothing to close."""


def call_and_record(hold: Hold, caller: Caller, action: str, run: Callable[[], T], mode: AuditMode) -> T:
    """Run an operation and record its outcome: denials always, everything in mode `all`."""
    began = monotonic()

    def told(status: Decision, reason: str = "") -> None:
        took = int((monotonic() - began) * 1000)
        everywhere = replace(caller, namespaces=ALL_NAMESPACES)
        record(
            hold.seen_by(everywhere), Told(status, channel=caller.source, action=action, reason=reason, took_ms=took)
        )

    try:
        answer = run()
    except HoldfastError as error:
        status: Decision = "denied" if isinstance(error, DENIALS) else "error"
        if mode == "all" or status == "denied":
            with suppress(StoreError):
                told(status, error.code)
        raise
    if mode == "all":
        told("ok")
    return answer


def browse(hold: Hold, which: Which, limit: int, skip: int) -> tuple[list[Interaction], dict[str, int]]:
    with hold.reading() as session:
        found = interactions.select(session, hold.caller, which, limit, skip)
        return found, interactions.counts(session, hold.caller, which)


def show(hold: Hold, id: str) -> Interaction:
    with hold.reading() as session:
        found = interactions.seen(session, hold.caller, id)
    if found is None:
        raise NotFound(f"No interaction {id!r}, or it is not yours.")
    return found


def erase_older(hold: Hold, days: int) -> int:
    """Erase text and person of interactions older than some days; agent, time and status remain."""
    if "*" not in hold.caller.namespaces:
        raise Forbidden("Erasing interactions needs a key that reaches every namespace.")
    before, gone = hold.now() - days * DAY, 0
    while True:
        with hold.writing() as write:
            rows = write.session.rows("interaction_old", before=before, limit=BATCH)
            for row in rows:
                write.purge(INTERACTION, INTERACTION.load(row))
        gone += len(rows)
        hold.progress(gone, gone, "erasing")
        if len(rows) < BATCH:
            return gone

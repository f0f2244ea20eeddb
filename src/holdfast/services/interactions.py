"""The audit of interactions: each is recorded with its decision, as its namespace lets it be kept, and stays."""

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from ..domain import ids
from ..domain.caller import ALL_NAMESPACES, Caller
from ..domain.errors import BudgetExceeded, Conflict, Forbidden, HoldfastError, NotFound, SecretRefused, StoreError
from ..domain.interaction import Decision, Interaction, admit_interaction, as_allowed
from ..domain.moment import DAY
from ..domain.principal import admit_name
from ..storage import interactions, policies
from ..storage.interactions import Which
from ..storage.records import INTERACTION, Writing
from . import hygiene
from .hold import Hold

T = TypeVar("T")
DENIALS = (Forbidden, BudgetExceeded, SecretRefused)
"""Errors that say that somebody may not."""
BATCH = 500
"""Interactions that are erased in one transaction."""


class Told(NamedTuple):
    """An interaction, as whoever decided tells it."""

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
    """Keep a decision, and whether it is new: what is told twice under one key is kept once."""
    with hold.writing() as write:
        return record_in(hold, write, told)


def record_in(hold: Hold, write: Writing, told: Told) -> tuple[Interaction, bool]:
    """The same, with what else is written."""
    made = _made(hold, told, write.now, write.origin)
    hold.caller.must_reach(made.namespace)
    known = write.get(INTERACTION, made.id)
    if known is not None:
        if (known.status, known.action) != (made.status, made.action):
            raise Conflict("unique_key: another interaction was recorded under it", fields=["unique_key"])
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
    """What may hold a secret."""
    return {name: value for name in ("input", "output", "reason") if (value := getattr(made, name))}


def noted(hold: Hold, caller: Caller, action: str, run: Callable[[], T]) -> T:
    """Run an operation and record how it ended: a denial in any case, everything if all calls are audited."""
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
        if hold.audited == "all" or status == "denied":
            with suppress(StoreError):
                told(status, error.code)
        raise
    if hold.audited == "all":
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
        raise NotFound(f"There is no interaction {id!r} of yours.")
    return found


def erase_older(hold: Hold, days: int) -> int:
    """Erase what was said in interactions recorded so many days ago; that they were, and how they ended, stays."""
    if "*" not in hold.caller.namespaces:
        raise Forbidden("Interactions are erased everywhere: that takes a key that reaches every namespace.")
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

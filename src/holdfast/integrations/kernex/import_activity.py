"""Import aliases, provider sessions, model usage and the audit log."""

from typing import cast, get_args

from holdfast.features.people import interactions
from holdfast.features.people import service as principals
from holdfast.features.people.interactions import InteractionInput
from holdfast.features.people.model import MAX_REASON, Decision, validate_name
from holdfast.features.runs import store as runs
from holdfast.features.runs.store import ProviderSession, Scope
from holdfast.features.usage.price import Use
from holdfast.features.usage.store import USAGE
from holdfast.integrations.kernex.import_report import RowSkipped
from holdfast.integrations.kernex.import_state import ImportState
from holdfast.integrations.kernex.rows import Row
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.timestamps import DAY

TEXTS_DROPPED_REASON = "stored without its text, because of the namespace's policy interaction_text"


def import_alias(state: ImportState, write: Transaction, row: Row) -> str | None:
    alias = validate_name(row.text("alias_sender_id"), "alias_sender_id")
    whose = validate_name(row.text("canonical_sender_id"), "canonical_sender_id")
    return principals.merge_in_transaction(write, alias, whose).principal


def import_session(state: ImportState, write: Transaction, row: Row) -> str | None:
    now, named = row.timestamp("updated_at"), row.label("session_id")
    fresh = ProviderSession(
        channel=row.label("channel", ""),
        principal=row.sender,
        namespace=state.namespace_of(row),
        agent=state.ctx.caller.agent,
        provider="kernex",
        session=named,
        created_at=now,
        updated_at=now,
    )
    scope = Scope(fresh.channel, fresh.principal, fresh.namespace)
    current = runs.find_provider_sessions(write.session, state.ctx.caller, row.sender, scope, write.now)
    if not current:
        runs.save_provider_session(write.session, fresh)
        return named
    if current[0].session == named:
        return None
    raise RowSkipped("another session is active there")


def import_usage(state: ImportState, write: Transaction, row: Row) -> str | None:
    """Import a model call. Without a breakdown all tokens count as input; the cost is kernex's."""
    kinds = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
    counts = [row.integer(name, 0) for name in kinds]
    if not any(counts):
        counts[0] = row.integer("tokens", 0)
    if min(counts) < 0:
        raise Invalid("tokens: must not be negative")
    at, cost = row.timestamp("timestamp"), row.cost("cost_usd")
    use = Use(
        id=state.row_id(row),
        at=at,
        day=at // DAY,
        principal=row.sender,
        agent=state.ctx.caller.agent,
        session=row.label("session_id", ""),
        model=row.label("model"),
        input_tokens=counts[0],
        output_tokens=counts[1],
        cache_read_tokens=counts[2],
        cache_write_tokens=counts[3],
        cost=cost or None,
        currency="USD" if cost else None,
    )
    USAGE.add(write.session, use)
    return use.id


def import_interaction(state: ImportState, write: Transaction, row: Row) -> str | None:
    """Import an audit entry as an interaction, with the text that the namespace's policy allows."""
    given = InteractionInput(
        status=cast(Decision, row.one_of("status", get_args(Decision), "ok")),
        principal=row.sender,
        namespace=state.namespace_of(row),
        name=row.label("sender_name", ""),
        channel=row.label("channel", ""),
        reason=state.shorten(row, "denial_reason", MAX_REASON) or "",
        provider=row.label("provider_used", ""),
        model=row.label("model", ""),
        took_ms=None if row.values.get("processing_ms") is None else row.integer("processing_ms"),
        at=row.timestamp("timestamp"),
        input=state.shorten(row, "input_text"),
        output=state.shorten(row, "output_text"),
        unique_key=state.row_key(row),
    )
    stored, new = interactions.record_in_transaction(state.ctx, write, given)
    if new and stored.texts != "keep" and (given.input or given.output):
        state.report.add_reason(row.table, TEXTS_DROPPED_REASON)
    return stored.id if new else None

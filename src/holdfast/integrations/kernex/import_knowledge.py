"""Import facts, observations, outcomes, lessons and limitations."""

from typing import cast

from holdfast.features.learning.lesson_rules import Evidence, Outcome, Score, build_lesson_title
from holdfast.features.learning.observations import build_observation_text
from holdfast.features.learning.store import OUTCOMES
from holdfast.features.memories.store_memory import find_title_holder
from holdfast.features.people import facts
from holdfast.features.people.model import people_namespace
from holdfast.features.people.resolve_names import list_names
from holdfast.integrations.kernex.import_report import RowSkipped
from holdfast.integrations.kernex.import_state import ImportState
from holdfast.integrations.kernex.rows import Row
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Category
from holdfast.kernel.timestamps import format_timestamp

SYSTEM_SENDER = "__system__"
"""Sender under which kernex stores its own state as facts."""
DELETED_REASON = "deleted in kernex"
"""Reason of an archived memory."""
SYSTEM_STATE_REASON = "internal state of kernex"


def import_fact(state: ImportState, write: Transaction, row: Row) -> str | None:
    """Import a fact about a person. A different, later value here is kept."""
    sender, key, value = row.sender, row.text("key"), row.text("value")
    if sender == SYSTEM_SENDER:
        raise RowSkipped(SYSTEM_STATE_REASON, "left_out")
    key, value = validate.title(key, "key"), validate.content(value, "value")
    told, gone = row.timestamp("updated_at"), row.optional_timestamp("deleted_at")
    names = list_names(write.session, sender)
    held = [memory for name in names if (memory := find_title_holder(write, people_namespace(name), key)) is not None]
    if any(memory.content == value and gone is None for memory in held):
        return None
    if any(gone is not None or memory.updated_at > told for memory in held):
        raise RowSkipped("a later value exists here")
    learned = row.optional_text("source_message_id")
    about = {"kernex": row.other_values("sender_id", "key", "value"), **({"learned_from": learned} if learned else {})}
    if held:
        given = facts.FactInput(sender, key, value)
        return facts.set_fact_in_transaction(state.ctx, write, given).memory.id
    memory = state.store_memory(
        write,
        key,
        value,
        people_namespace(names[0]),
        kind="fact",
        occurred_at=told,
        metadata={"principal": names[0], **about},
    )
    return state.archive_if_deleted(write, memory, gone, facts.DELETE_REASON)


def import_observation(state: ImportState, write: Transaction, row: Row) -> str | None:
    columns = {"what": "what", "why": "why", "where": "where_field", "learned": "learned"}
    said = {name: text for name, column in columns.items() if (text := row.optional_text(column))}
    memory = state.store_memory(
        write,
        row.text("title"),
        build_observation_text(row.text("title"), said),
        state.options.namespace,
        kind="observation",
        category=cast(Category, row.text("type")),
        occurred_at=row.timestamp("created_at"),
        metadata={**said, "principal": row.text("sender_id"), "kernex": row.other_values(*columns.values(), "title")},
    )
    return state.archive_if_deleted(write, memory, row.optional_timestamp("deleted_at"), DELETED_REASON)


def import_outcome(state: ImportState, write: Transaction, row: Row) -> str | None:
    score = row.integer("score")
    if score not in (-1, 0, 1):
        raise Invalid("score: must be -1, 0 or 1")
    one = Outcome(
        id=state.row_id(row),
        at=row.timestamp("timestamp"),
        principal=row.sender,
        agent=state.ctx.caller.agent,
        namespace=state.namespace_of(row),
        domain=row.label("domain"),
        score=cast(Score, score),
        what=row.text("lesson"),
        source=row.text("source", "conversation"),
    )
    OUTCOMES.add(write.session, one)
    return one.id


def import_lesson(state: ImportState, write: Transaction, row: Row) -> str | None:
    domain, rule, times = row.label("domain"), row.text("rule"), max(1, row.integer("occurrences", 1))
    evidence = Evidence(positive=times)
    about = {"principal": row.sender, "domain": domain, "occurrences": times}
    memory = state.store_memory(
        write,
        build_lesson_title(domain, rule),
        rule,
        state.namespace_of(row),
        kind="lesson",
        confidence=evidence.confidence,
        occurred_at=row.timestamp("updated_at"),
        metadata={**about, **evidence._asdict(), "kernex": row.other_values("rule", "domain", "sender_id", "project")},
    )
    return memory.id


def import_limitation(state: ImportState, write: Transaction, row: Row) -> str | None:
    title, solved, made = row.text("title"), row.optional_timestamp("resolved_at"), row.timestamp("created_at")
    said = row.text("description").strip() or title
    about = {"plan": row.text("proposed_plan", ""), "status": row.one_of("status", ("open", "resolved"), "open")}
    if solved is not None:
        about["resolved_at"] = format_timestamp(solved)
    memory = state.store_memory(
        write,
        title,
        said,
        state.options.namespace,
        on_conflict="error",
        kind="limitation",
        occurred_at=made,
        metadata={
            **about,
            "evidence": [{"at": format_timestamp(made), "agent_id": state.ctx.caller.agent, "said": said[:2000]}],
            "kernex": row.other_values("title", "description", "proposed_plan"),
        },
    )
    return memory.id

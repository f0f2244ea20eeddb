"""The names of options: one word for one thing, whatever the field is called on the wire."""

from collections.abc import Sequence
from typing import Any

import click

from holdfast.operations import Operation

FLAGS = {
    "agent_filter": "by",
    "agent_id": "by",
    "budget": "budget-tokens",
    "context": "query",
    "hops": "max-depth",
    "max_results": "limit",
    "principal": "person",
    "target_agent_id": "to",
}
"""Option of a field whose name on the wire differs; the wire's name works too, but is not listed."""


ADVANCED = frozenset(
    {
        *(
            "again",
            "at",
            "cache_read",
            "cache_read_tokens",
            "cache_write",
            "cache_write_tokens",
            "category",
            "citations",
        ),
        *(
            "confidence_tier",
            "conversation_id",
            "currency",
            "definition",
            "depth",
            "embedding",
            "expected_version",
            "fingerprint",
        ),
        *("force", "handler", "has_citations", "host_kind", "host_version", "include", "include_archived", "inputs"),
        *(
            "interaction_days",
            "keep_outcomes",
            "offset",
            "learned_from",
            "max_attempts",
            "max_ops",
            "max_seconds",
            "max_size",
        ),
        *(
            "max_tokens",
            "min_hours",
            "min_conversations",
            "min_messages",
            "min_priority",
            "min_size",
            "misfire",
            "note",
            "now",
        ),
        *(
            "occurred_at",
            "on_conflict",
            "overflow",
            "owner",
            "parameters_schema",
            "payload",
            "pipeline",
            "pipeline_override",
        ),
        *("place", "preserve_timestamps", "provider", "prune_days", "reply_to", "seconds", "source", "source_span"),
        *("source_uri_prefix", "speaker", "target", "thread", "timeout", "timestamp_iso", "took_ms", "tool_calls"),
        *("trust_source", "ttl_secs", "unique_key", "valid_from", "valid_until", "verdicts"),
    }
)
"""Fields that few callers of a command need; shared field types say so themselves."""


class HiddenNames(click.Option):
    """An option with further names that help and completion leave out."""

    def __init__(self, *more: Any, hidden_names: Sequence[str] = (), **params: Any) -> None:
        super().__init__(*more, **params)
        self.hidden_names = hidden_names

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every = self.opts, self.secondary_opts
        self.opts, self.secondary_opts = ([one for one in names if one not in self.hidden_names] for names in every)
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts, self.secondary_opts = every


def flag_of(op: Operation, field: str) -> str:
    """Return the option of a field. `--agent-id` is who asks, so an agent to look for is `--by`."""
    name: str = op.field_option(field, "flag") or FLAGS.get(field, field)
    if field == "agent_id" and op.field_option(field, "argument"):
        name = field
    return "--" + name.replace("_", "-")


def former_flags(op: Operation, field: str) -> list[str]:
    wire = "--" + field.replace("_", "-")
    return [wire] if wire != flag_of(op, field) else []

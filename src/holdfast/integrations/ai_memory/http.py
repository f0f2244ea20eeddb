"""Compatibility with the published ai-memory clients: field aliases, extra routes, older answer shapes.

Entries for unknown operations are ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.features.memories.views import MemoryView
from holdfast.kernel.errors import Invalid

V = TypeVar("V")
Json = dict[str, Any]

ALIASES: dict[str, dict[str, str]] = {
    "recall": {"query": "context", "q": "context"},
    "search": {"q": "query"},
    "link": {"from": "source_id", "to": "target_id", "rel_type": "relation"},
    "kg_query": {"from": "source_id", "rel_types": "relations"},
    "find_paths": {"from": "source_id", "to": "target_id"},
    "kg_invalidate": {"from": "source_id", "to": "target_id", "rel_type": "relation"},
    "get_taxonomy": {"prefix": "namespace_prefix", "root": "namespace_prefix"},
    "namespace_set_standard": {"standard": "id", "standard_id": "id"},
    "notify": {"to": "target_agent_id", "subject": "title", "body": "payload", "content": "payload"},
    "inbox": {"unread": "unread_only"},
    "auto_tag": {"memory_id": "id"},
    "atomise": {"force_re_atomise": "force"},
    "skill_list": {"filter": "query"},
    "skill_resource": {"path": "resource_path"},
    "subscribe": {"callback_url": "url", "event_types": "events", "namespace_filter": "namespace"},
    "subscription_deliveries": {"subscription_id": "id"},
    "subscription_replay": {"subscription_id": "id"},
    "skill_promote_from_reflection": {"name": "skill_name", "description": "skill_description"},
}
"""Aliases of fields, by operation."""

ROUTES: dict[str, tuple[str, ...]] = {
    "recall": ("GET /api/v1/recall",),
    "kg_invalidate": ("DELETE /api/v1/links",),
    "find_paths": ("POST /api/v1/find_paths",),
    "namespace_set_standard": ("POST /api/v1/namespaces",),
    "reflect": ("POST /api/v1/memory_reflect",),
    "reflection_origin": ("POST /api/v1/memory_reflection_origin",),
    "atomise": ("POST /api/v1/memory_atomise",),
    "export_reflection": ("POST /api/v1/memory_export_reflection",),
    "namespace_clear_standard": ("DELETE /api/v1/namespaces",),
    "skill_export": ("POST /api/v1/skill/{skill_id}/export",),
    "unsubscribe": ("DELETE /api/v1/subscriptions",),
    "subscription_deliveries": ("POST /api/v1/memory_subscription_dlq_list",),
    "subscription_replay": ("POST /api/v1/memory_subscription_replay",),
}
"""Additional routes, by operation."""

DEFAULTS: dict[str, Json] = {
    "POST /api/v1/memories": {"on_conflict": "error"},
    "DELETE /api/v1/links": {"relation": "related_to"},
    "POST /api/v1/memory_subscription_dlq_list": {"state": ["dead"]},
}
"""Different defaults per route: these clients expect an error for an existing title, for example."""

LISTS: dict[str, tuple[str, ...]] = {"recall": ("tags", "kinds"), "subscribe": ("events",)}
"""Lists that may be sent as comma-separated text."""


class CompatRequest(NamedTuple):
    """The request, as far as the shape of the answer depends on it."""

    body: bytes
    get: Callable[[str], MemoryView]

    @property
    def is_array(self) -> bool:
        """Whether the body was a JSON array."""
        return self.body.lstrip()[:1] == b"["


def rename_fields(operation: str, given: Mapping[str, V]) -> dict[str, V]:
    """Rename aliases to the operation's field names."""
    aliases = ALIASES.get(operation)
    if not aliases:
        return dict(given)
    fields: dict[str, V] = {}
    for name, value in given.items():
        known = aliases.get(name, name)
        if fields.setdefault(known, value) is not value:
            raise Invalid(f"{known}: given twice with different values; send it once", fields=[known])
    return fields


def body_fields(operation: str, given: Json) -> Json:
    """Convert the fields of a JSON body to the operation's fields."""
    if operation == "notify":
        given = _message_fields(given)
    found = rename_fields(operation, given)
    for name in LISTS.get(operation, ()):
        if isinstance(value := found.get(name), str):
            found[name] = [part.strip() for part in value.split(",")]
    return found


def _message_fields(given: Json) -> Json:
    """Convert a message: its text is in `body`; other fields go to its metadata."""
    aside: list[str] = [name for name in ("namespace", "memory_id") if name in given]
    if isinstance(given.get("payload"), dict):
        aside.append("payload")
    if not aside:
        return given
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Invalid("metadata: Expected `object`", fields=["metadata"])
    kept = {name: value for name, value in given.items() if name not in aside}
    return {**kept, "metadata": {**metadata, **{name: given[name] for name in aside}}}


def route_defaults(method: str, path: str) -> Json:
    return DEFAULTS.get(f"{method} {path}", {})


def shape_answer(operation: str, answer: Any, asked: CompatRequest) -> Any:
    """Add what these clients expect to an answer; always a superset of the normal answer."""
    shape = ANSWER_SHAPES.get(operation)
    return shape(answer, asked) if shape else answer


def _plain(answer: Any) -> Json:
    found: Json = msgspec.to_builtins(answer)
    return found


def memory_row(view: Any) -> Json:
    """Add owner and scope to a memory's metadata."""
    shown = _plain(view)
    shown["metadata"] = {**shown["metadata"], "agent_id": shown["agent_id"], "scope": shown["scope"]}
    return shown


def _memory_answer(answer: Any, _: CompatRequest) -> Json:
    return memory_row(answer)


def _nested_memory_answer(answer: Any, _: CompatRequest) -> Json:
    shown = memory_row(answer)
    return {**shown, "memory": {name: value for name, value in shown.items() if name != "links"}}


def _update_answer(answer: Any, asked: CompatRequest) -> Json:
    return {**_nested_memory_answer(answer, asked), "updated": True}


def _memories_answer(answer: Any, _: CompatRequest) -> Json:
    return {**_plain(answer), "memories": [memory_row(view) for view in answer.memories]}


def _results_answer(answer: Any, _: CompatRequest) -> Json:
    found = [memory_row(view) for view in answer.results]
    return {**_plain(answer), "results": found, "memories": found}


def _archive_answer(answer: Any, _: CompatRequest) -> Json:
    return {**_plain(answer), "archived": [memory_row(view) for view in answer.archived]}


def _bulk_answer(answer: Any, asked: CompatRequest) -> Any:
    """One client sends an array and expects a count; the other sends an object and expects memories."""
    if asked.is_array:
        return answer
    return {**_plain(answer), "created": [memory_row(asked.get(id)) for id in answer.ids]}


def _tag_answer(answer: Any, _: CompatRequest) -> Json:
    shown = _plain(answer)
    return {**shown, "tags": shown["new_tags"], "memory_id": shown.get("id")}


def _unlink_answer(answer: Any, _: CompatRequest) -> Json:
    return {**_plain(answer), "deleted": answer.found}


def _with_last_seen(agent: Json) -> Json:
    return {**agent, "last_seen_at": agent.get("last_seen_at", agent["registered_at"])}


def _agents_answer(answer: Any, _: CompatRequest) -> Json:
    return {**_plain(answer), "agents": [_with_last_seen(agent) for agent in _plain(answer)["agents"]]}


def _notify_answer(answer: Any, _: CompatRequest) -> Json:
    return {**_plain(answer), "from": answer.sender, "sent": True}


def _inbox_answer(answer: Any, _: CompatRequest) -> Json:
    messages = [
        {
            **_plain(message),
            "from": message.sender,
            "subject": message.title,
            "body": message.payload,
            "received_at": message.created_at,
        }
        for message in answer.messages
    ]
    unread = sum(not message.read for message in answer.messages)
    return {**_plain(answer), "messages": messages, "unread": unread}


def _subscription_row(answer: Any) -> Json:
    shown = _plain(answer)
    return {
        **shown,
        "callback_url": shown["url"],
        "namespace_filter": shown.get("namespace"),
        "created_by": shown["agent_id"],
        "dispatch_count": shown["delivered"] + shown["dead"],
        "failure_count": shown["dead"],
    }


def _subscriptions_answer(answer: Any, _: CompatRequest) -> Json:
    return {**_plain(answer), "subscriptions": [_subscription_row(one) for one in answer.subscriptions]}


def _unsubscribe_answer(answer: Any, _: CompatRequest) -> Json:
    return {**_plain(answer), "deleted": answer.removed}


def _deliveries_answer(answer: Any, _: CompatRequest) -> Json:
    shown = _plain(answer)
    return {**shown, "entries": shown["deliveries"]}


ANSWER_SHAPES: dict[str, Callable[[Any, CompatRequest], Any]] = {
    "store": _memory_answer,
    "get": _nested_memory_answer,
    "update": _update_answer,
    "promote": _memory_answer,
    "list": _memories_answer,
    "recall": _memories_answer,
    "search": _results_answer,
    "bulk_store": _bulk_answer,
    "archive_list": _archive_answer,
    "archive_restore": _memory_answer,
    "kg_invalidate": _unlink_answer,
    "auto_tag": _tag_answer,
    "agent_list": _agents_answer,
    "agent_register": lambda answer, _: _with_last_seen(_plain(answer)),
    "notify": _notify_answer,
    "inbox": _inbox_answer,
    "subscribe": lambda answer, _: _subscription_row(answer),
    "subscription_list": _subscriptions_answer,
    "subscription_deliveries": _deliveries_answer,
    "unsubscribe": _unsubscribe_answer,
}
"""Functions that shape the answers, by operation."""

SCHEMAS: dict[str, Json] = {
    "BulkStoreResult": {
        "created": {
            "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/components/schemas/MemoryView"}}],
            "description": "The count if an array was sent, else the memories.",
        }
    }
}
"""Schema properties to replace where an older shape is not a superset of the declared one."""

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


class Asked(NamedTuple):
    """The request, as far as the shape of the answer depends on it."""

    body: bytes
    get: Callable[[str], MemoryView]

    @property
    def listed(self) -> bool:
        """Whether the body was a JSON array."""
        return self.body.lstrip()[:1] == b"["


def named(operation: str, given: Mapping[str, V]) -> dict[str, V]:
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


def fields(operation: str, given: Json) -> Json:
    """Convert the fields of a JSON body to the operation's fields."""
    if operation == "notify":
        given = _message(given)
    found = named(operation, given)
    for name in LISTS.get(operation, ()):
        if isinstance(value := found.get(name), str):
            found[name] = [part.strip() for part in value.split(",")]
    return found


def _message(given: Json) -> Json:
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


def defaults(method: str, path: str) -> Json:
    return DEFAULTS.get(f"{method} {path}", {})


def shaped(operation: str, answer: Any, asked: Asked) -> Any:
    """Add what these clients expect to an answer; always a superset of the normal answer."""
    shape = ANSWERS.get(operation)
    return shape(answer, asked) if shape else answer


def _plain(answer: Any) -> Json:
    found: Json = msgspec.to_builtins(answer)
    return found


def memory(view: Any) -> Json:
    """Add owner and scope to a memory's metadata."""
    shown = _plain(view)
    shown["metadata"] = {**shown["metadata"], "agent_id": shown["agent_id"], "scope": shown["scope"]}
    return shown


def _one(answer: Any, _: Asked) -> Json:
    return memory(answer)


def _nested(answer: Any, _: Asked) -> Json:
    shown = memory(answer)
    return {**shown, "memory": {name: value for name, value in shown.items() if name != "links"}}


def _updated(answer: Any, asked: Asked) -> Json:
    return {**_nested(answer, asked), "updated": True}


def _memories(answer: Any, _: Asked) -> Json:
    return {**_plain(answer), "memories": [memory(view) for view in answer.memories]}


def _results(answer: Any, _: Asked) -> Json:
    found = [memory(view) for view in answer.results]
    return {**_plain(answer), "results": found, "memories": found}


def _archived(answer: Any, _: Asked) -> Json:
    return {**_plain(answer), "archived": [memory(view) for view in answer.archived]}


def _bulk(answer: Any, asked: Asked) -> Any:
    """One client sends an array and expects a count; the other sends an object and expects memories."""
    if asked.listed:
        return answer
    return {**_plain(answer), "created": [memory(asked.get(id)) for id in answer.ids]}


def _tagged(answer: Any, _: Asked) -> Json:
    shown = _plain(answer)
    return {**shown, "tags": shown["new_tags"], "memory_id": shown.get("id")}


def _unlinked(answer: Any, _: Asked) -> Json:
    return {**_plain(answer), "deleted": answer.found}


def _seen(agent: Json) -> Json:
    return {**agent, "last_seen_at": agent.get("last_seen_at", agent["registered_at"])}


def _agents(answer: Any, _: Asked) -> Json:
    return {**_plain(answer), "agents": [_seen(agent) for agent in _plain(answer)["agents"]]}


def _notified(answer: Any, _: Asked) -> Json:
    return {**_plain(answer), "from": answer.sender, "sent": True}


def _inbox(answer: Any, _: Asked) -> Json:
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


def _subscription(answer: Any) -> Json:
    shown = _plain(answer)
    return {
        **shown,
        "callback_url": shown["url"],
        "namespace_filter": shown.get("namespace"),
        "created_by": shown["agent_id"],
        "dispatch_count": shown["delivered"] + shown["dead"],
        "failure_count": shown["dead"],
    }


def _subscriptions(answer: Any, _: Asked) -> Json:
    return {**_plain(answer), "subscriptions": [_subscription(one) for one in answer.subscriptions]}


def _unsubscribed(answer: Any, _: Asked) -> Json:
    return {**_plain(answer), "deleted": answer.removed}


def _letters(answer: Any, _: Asked) -> Json:
    shown = _plain(answer)
    return {**shown, "entries": shown["deliveries"]}


ANSWERS: dict[str, Callable[[Any, Asked], Any]] = {
    "store": _one,
    "get": _nested,
    "update": _updated,
    "promote": _one,
    "list": _memories,
    "recall": _memories,
    "search": _results,
    "bulk_store": _bulk,
    "archive_list": _archived,
    "archive_restore": _one,
    "kg_invalidate": _unlinked,
    "auto_tag": _tagged,
    "agent_list": _agents,
    "agent_register": lambda answer, _: _seen(_plain(answer)),
    "notify": _notified,
    "inbox": _inbox,
    "subscribe": lambda answer, _: _subscription(answer),
    "subscription_list": _subscriptions,
    "subscription_deliveries": _letters,
    "unsubscribe": _unsubscribed,
}
"""Functions that shape the answers, by operation."""

SCHEMAS: dict[str, Json] = {
    "BulkStored": {
        "created": {
            "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/components/schemas/MemoryView"}}],
            "description": "The count if an array was sent, else the memories.",
        }
    }
}
"""Schema properties to replace where an older shape is not a superset of the declared one."""

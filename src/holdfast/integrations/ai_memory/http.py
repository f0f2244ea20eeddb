"""What exists only for the published ai-memory clients: other names, more routes, older answers. Nothing else knows it.

An entry for an operation that is not there is not used.
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
"""A field's other names."""

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
"""More routes of an operation."""

DEFAULTS: dict[str, Json] = {
    "POST /api/v1/memories": {"on_conflict": "error"},
    "DELETE /api/v1/links": {"relation": "related_to"},
    "POST /api/v1/memory_subscription_dlq_list": {"state": ["dead"]},
}
"""Defaults that are others on a route: these clients expect a taken title to be refused."""

LISTS: dict[str, tuple[str, ...]] = {"recall": ("tags", "kinds"), "subscribe": ("events",)}
"""Lists that may come as one text with commas."""


class Asked(NamedTuple):
    """The request to which an answer is shaped."""

    body: bytes
    get: Callable[[str], MemoryView]

    @property
    def listed(self) -> bool:
        """Whether the body was a bare array."""
        return self.body.lstrip()[:1] == b"["


def named(operation: str, given: Mapping[str, V]) -> dict[str, V]:
    """Fields under the names that the operation knows."""
    aliases = ALIASES.get(operation)
    if not aliases:
        return dict(given)
    fields: dict[str, V] = {}
    for name, value in given.items():
        known = aliases.get(name, name)
        if fields.setdefault(known, value) is not value:
            raise Invalid(f"{known}: given twice", fields=[known])
    return fields


def fields(operation: str, given: Json) -> Json:
    """A JSON body's fields as the operation knows them."""
    if operation == "notify":
        given = _message(given)
    found = named(operation, given)
    for name in LISTS.get(operation, ()):
        if isinstance(value := found.get(name), str):
            found[name] = [part.strip() for part in value.split(",")]
    return found


def _message(given: Json) -> Json:
    """A message's text is in `body`; what else it carries goes with its metadata."""
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
    """The answer with what these clients look for; always a superset of what every surface answers."""
    shape = ANSWERS.get(operation)
    return shape(answer, asked) if shape else answer


def _plain(answer: Any) -> Json:
    found: Json = msgspec.to_builtins(answer)
    return found


def memory(view: Any) -> Json:
    """A memory whose metadata also say whose it is and who may see it."""
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
    """One client sends an array and reads a number; the other sends an object and reads the memories."""
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
"""Answers in the older shape."""

SCHEMAS: dict[str, Json] = {
    "BulkStored": {
        "created": {
            "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/components/schemas/MemoryView"}}],
            "description": "How many, if an array was sent; else the memories themselves.",
        }
    }
}
"""Where an older shape is not merely more than the declared one: properties of a schema that replace its own."""

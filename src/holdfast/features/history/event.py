"""Event names of journalled changes, and filters over them."""

import re
from typing import Any, NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import KINDS, body_of
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.namespace_patterns import EVERYTHING, PeerScope, validate_patterns
from holdfast.kernel.text.wildcard import is_match

MEMORY_EVENTS = (
    "memory_store",
    "memory_update",
    "memory_promote",
    "memory_consolidated",
    "memory_archive",
    "memory_restore",
    "memory_delete",
    "memory_purge",
    "memory_link_created",
    "memory_link_updated",
    "memory_link_invalidated",
)
OTHER_KINDS = (
    "agent",
    "alias",
    "erasure",
    "invalidation",
    "memory_grant",
    "policy",
    "principal",
    "skill",
    "skill_version",
    "standard",
)
EVENTS = (*MEMORY_EVENTS, *(f"{kind}_changed" for kind in OTHER_KINDS))
TEST_EVENT = "subscription_test"
"""Sent only by `subscription_test`."""
ANY_EVENT = "*"
MAX_EVENTS = 50
_PATTERN = re.compile(r"[a-z_*]{1,64}")


def find_event_name(entry: journal.Entry) -> str:
    """Find the event name of a journal entry."""
    record: Any = body_of(KINDS[entry.kind], entry) if entry.body is not None else None
    match entry.kind:
        case "memory":
            return _find_memory_event(entry, record)
        case "link":
            is_created = entry.delta is None
            if entry.op == "invalidate" or (record and not is_created and record.valid_until is not None):
                return "memory_link_invalidated"
            return "memory_link_created" if is_created else "memory_link_updated"
    return f"{entry.kind}_changed"


def _find_memory_event(entry: journal.Entry, memory: Memory | None) -> str:
    if entry.op == "purge":
        return "memory_purge"
    if entry.op == "delete" or (memory and memory.state == "deleted"):
        return "memory_delete"
    if entry.delta is None:
        return "memory_consolidated" if entry.op == "consolidate" else "memory_store"
    return f"memory_{entry.op}" if entry.op in ("promote", "archive", "restore") else "memory_update"


class EventFilter(NamedTuple):
    """Which events a subscriber receives."""

    events: tuple[str, ...] = (ANY_EVENT,)
    namespace: str | None = None
    """A namespace or a namespace pattern."""
    agent: str | None = None
    """Only changes made by this agent."""

    def matches_event(self, event: str) -> bool:
        return any(is_match(pattern, event) for pattern in self.events)

    def matches_actor(self, actor: str) -> bool:
        return self.agent is None or self.agent == actor

    def matches_namespace(self, namespace: str | None) -> bool:
        """Match the namespace; changes without one match only an unfiltered subscription."""
        if self.namespace is None:
            return True
        return namespace is not None and PeerScope((self.namespace,), ()).can_send(namespace)


def build_event_filter(events: list[str], namespace: str | None, agent: str | None) -> EventFilter:
    """Validate an event filter. Raises if a name or pattern matches no existing event."""
    names = tuple(dict.fromkeys(event for event in events if event)) or (ANY_EVENT,)
    for event in names:
        if event == "approval_requested":
            raise Invalid(
                "events: approval_requested is not a change event; use `pending_list` instead", fields=["events"]
            )
        if not _PATTERN.fullmatch(event) or not any(is_match(event, one) for one in EVENTS):
            raise Invalid(f"events: unknown event {event!r}; choose from *, {', '.join(EVENTS)}", fields=["events"])
    if len(names) > MAX_EVENTS:
        raise Invalid(f"events must have at most {MAX_EVENTS} items (got {len(names)})", fields=["events"])
    if namespace == EVERYTHING:
        namespace = None
    if namespace is not None:
        validate_patterns([namespace], "namespace")
    return EventFilter(names, namespace, agent)

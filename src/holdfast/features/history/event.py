"""Event names of journalled changes, and filters over them."""

import re
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
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


class ChangeTraits(NamedTuple):
    """The parts of a change that determine its event name."""

    kind: str
    op: str
    is_created: bool
    state: str | None
    """State of the memory after the change."""
    is_ended: bool = False
    """Whether the change ended a link."""


def derive_event_name(change: ChangeTraits) -> str:
    """Derive the event name of a change."""
    match change.kind:
        case "memory":
            return _derive_memory_event(change)
        case "link":
            if change.is_ended or change.op == "invalidate":
                return "memory_link_invalidated"
            return "memory_link_created" if change.is_created else "memory_link_updated"
    return f"{change.kind}_changed"


def _derive_memory_event(change: ChangeTraits) -> str:
    if change.op == "purge":
        return "memory_purge"
    if change.state == "deleted" or change.op == "delete":
        return "memory_delete"
    if change.is_created:
        return "memory_consolidated" if change.op == "consolidate" else "memory_store"
    return f"memory_{change.op}" if change.op in ("promote", "archive", "restore") else "memory_update"


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

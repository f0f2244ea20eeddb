"""Events: what a journalled change is called by those who listen, and which of them somebody wants to hear of."""

import re
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.namespace_patterns import EVERYTHING, Scope, admit_patterns
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
TEST = "subscription_test"
"""What only `subscription_test` sends."""
ANY = "*"
MOST_EVENTS = 50
_PATTERN = re.compile(r"[a-z_*]{1,64}")


class Change(NamedTuple):
    """What of a change decides how it is called."""

    kind: str
    op: str
    created: bool
    state: str | None
    """Of a memory after it."""
    ended: bool = False
    """Whether a link does not hold any more."""


def name_of(change: Change) -> str:
    """The event that a change is."""
    match change.kind:
        case "memory":
            return _of_memory(change)
        case "link":
            if change.ended or change.op == "invalidate":
                return "memory_link_invalidated"
            return "memory_link_created" if change.created else "memory_link_updated"
    return f"{change.kind}_changed"


def _of_memory(change: Change) -> str:
    if change.op == "purge":
        return "memory_purge"
    if change.state == "deleted" or change.op == "delete":
        return "memory_delete"
    if change.created:
        return "memory_consolidated" if change.op == "consolidate" else "memory_store"
    return f"memory_{change.op}" if change.op in ("promote", "archive", "restore") else "memory_update"


class Wanted(NamedTuple):
    """Which events somebody hears of."""

    events: tuple[str, ...] = (ANY,)
    namespace: str | None = None
    """A pattern of namespaces."""
    agent: str | None = None
    """Only what this agent did."""

    def wants(self, event: str) -> bool:
        return any(is_match(pattern, event) for pattern in self.events)

    def wants_of(self, actor: str) -> bool:
        return self.agent is None or self.agent == actor

    def wants_in(self, namespace: str | None) -> bool:
        """What lies in no namespace is heard of by those who hear of all."""
        if self.namespace is None:
            return True
        return namespace is not None and Scope((self.namespace,), ()).tells(namespace)


def admit(events: list[str], namespace: str | None, agent: str | None) -> Wanted:
    """What is asked for, if there can be such a thing: a name that no event has would be waited for in vain."""
    wanted = tuple(dict.fromkeys(event for event in events if event)) or (ANY,)
    for event in wanted:
        if event == "approval_requested":
            raise Invalid(
                "events: approval_requested is no change, and not told: ask `pending_list`", fields=["events"]
            )
        if not _PATTERN.fullmatch(event) or not any(is_match(event, one) for one in EVENTS):
            raise Invalid(
                f"events: there is no event {event!r}; choose among *, {', '.join(EVENTS)}", fields=["events"]
            )
    if len(wanted) > MOST_EVENTS:
        raise Invalid(f"events: at most {MOST_EVENTS}", fields=["events"])
    if namespace == EVERYTHING:
        namespace = None
    if namespace is not None:
        admit_patterns([namespace], "namespace")
    return Wanted(wanted, namespace, agent)

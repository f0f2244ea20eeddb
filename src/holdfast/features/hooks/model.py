"""Lifecycle hooks: what may look at an operation before and after it, and whose word counts."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from holdfast.kernel.errors import Invalid, Misconfigured
from holdfast.kernel.records.namespace_patterns import Scope, admit_patterns

Event = Literal[
    "pre_store",
    "post_store",
    "pre_recall",
    "post_recall",
    "pre_delete",
    "post_delete",
    "pre_link",
    "post_link",
    "pre_reflect",
    "post_reflect",
]
Decision = Literal["allow", "modify", "ask", "deny"]
STRICTNESS: tuple[Decision, ...] = ("allow", "modify", "ask", "deny")
VERSION = 1
"""Of what a hook is told."""
LONGEST_REASON = 1000


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hook, as the settings say it."""

    event: Event
    command: tuple[str, ...] = ()
    """A program and its arguments; no shell reads them."""
    python: str = ""
    """Instead of a command: the name of an entry point of the group holdfast.hooks."""
    match: tuple[str, ...] = ("**",)
    """Patterns of namespaces."""
    timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    on_error: Literal["allow", "deny"] | None = None
    """What it counts as if a hook before an operation fails, is late or says what nobody understands."""
    name: str = ""

    @property
    def called(self) -> str:
        return self.name or self.python or self.command[0].rpartition("/")[2]

    @property
    def before(self) -> bool:
        return self.event.startswith("pre_")

    def concerns(self, namespaces: Sequence[str]) -> bool:
        """Whether one of the namespaces is meant; all are, if it is not known which ones an operation touches."""
        return not namespaces or any(Scope(self.match, ()).tells(one) for one in namespaces)


class Said(Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook answers."""

    decision: Decision = "allow"
    reason: str = ""
    arguments: dict[str, Any] | None = None
    """With modify: arguments of the operation that replace those that were given."""


class Ran(NamedTuple):
    """One hook that was asked, and what came of it."""

    rule: Rule
    decision: Decision
    reason: str = ""
    arguments: dict[str, Any] | None = None
    error: str | None = None
    """What went wrong, if the decision is that of on_error."""
    milliseconds: int = 0


def strictest(decisions: Sequence[Decision]) -> Decision:
    """The most restrictive word counts, in whatever order they were given."""
    return max(decisions, key=STRICTNESS.index, default="allow")


def admit_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Rules that can be followed; what is wrong with one is said by its number."""
    for number, rule in enumerate(rules, 1):
        if bool(rule.command) == bool(rule.python):
            raise Misconfigured(f"hooks, no. {number}: say either command or python.")
        if rule.before != (rule.on_error is not None):
            need = 'on_error = "allow" or "deny" is needed' if rule.before else "on_error is for pre_ events alone"
            raise Misconfigured(f"hooks, no. {number} ({rule.event}): {need}.")
        if any("\x00" in word for word in rule.command) or (rule.command and not rule.command[0]):
            raise Misconfigured(f"hooks, no. {number}: command is a list of a program and its arguments.")
        try:
            admit_patterns(rule.match, "match")
        except Invalid as error:
            raise Misconfigured(f"hooks, no. {number}: {error.message}") from None
    return tuple(rules)

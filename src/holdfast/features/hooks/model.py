"""Rules and answers of lifecycle hooks."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.kernel.errors import Invalid, InvalidSetting
from holdfast.kernel.records.fields import PRIVATE, SPARSE, Named, computed
from holdfast.kernel.records.namespace_patterns import PeerScope, validate_patterns

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
"""Version of the JSON object that hooks receive."""
MAX_REASON = 1000


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hook from the settings."""

    event: Event
    command: Annotated[tuple[str, ...], SPARSE] = ()
    """A program and its arguments, run without a shell."""
    python: Annotated[str, SPARSE] = ""
    """Instead of a command: an entry point of the group holdfast.hooks."""
    match: tuple[str, ...] = ("**",)
    """Namespace patterns."""
    timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    on_error: Literal["allow", "deny"] | None = None
    """Decision if a pre_ hook fails, times out or gives an invalid answer."""
    name: Annotated[str, PRIVATE] = ""

    @computed
    def shown_name(self) -> Annotated[str, Named("name")]:
        return self.label

    @property
    def label(self) -> str:
        return self.name or self.python or self.command[0].rpartition("/")[2]

    @property
    def is_before(self) -> bool:
        return self.event.startswith("pre_")

    def matches(self, namespaces: Sequence[str]) -> bool:
        """Return whether the hook applies to one of the namespaces; unknown namespaces always match."""
        return not namespaces or any(PeerScope(self.match, ()).can_send(one) for one in namespaces)


class HookReply(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of a hook."""

    decision: Decision = "allow"
    reason: str = ""
    arguments: dict[str, Any] | None = None
    """With modify: arguments that replace the given ones."""


class HookRun(Struct, frozen=True, kw_only=True):
    """The outcome of one hook call."""

    rule: Annotated[Rule, PRIVATE]
    decision: Decision
    reason: Annotated[str, SPARSE] = ""
    arguments: dict[str, Any] | None = None
    error: str | None = None
    """The failure, if on_error decided."""
    milliseconds: int = 0

    @computed
    def name(self) -> str:
        return self.rule.label


def strictest(decisions: Sequence[Decision]) -> Decision:
    """Return the most restrictive decision."""
    return max(decisions, key=STRICTNESS.index, default="allow")


def validate_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Validate rules; errors name the rule by its number."""
    for number, rule in enumerate(rules, 1):
        if bool(rule.command) == bool(rule.python):
            raise InvalidSetting(f"hooks, no. {number}: give either command or python.")
        if rule.is_before != (rule.on_error is not None):
            need = 'on_error = "allow" or "deny" is required' if rule.is_before else "on_error is only for pre_ events"
            raise InvalidSetting(f"hooks, no. {number} ({rule.event}): {need}.")
        if any("\x00" in word for word in rule.command) or (rule.command and not rule.command[0]):
            raise InvalidSetting(f"hooks, no. {number}: command must be a list of a program and its arguments.")
        try:
            validate_patterns(rule.match, "match")
        except Invalid as error:
            raise InvalidSetting(f"hooks, no. {number}: {error.message}") from None
    return tuple(rules)

"""List and test lifecycle hooks. They are configured only in the settings file."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.hooks.intercept import hooks_of
from holdfast.features.hooks.model import Decision, Event, HookRun, Rule, strictest
from holdfast.features.hooks.service import try_hooks
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Namespace
from holdfast.kernel.registry.operation import REGISTRY, Effect, EmptyRequest, Example, Request, operation

local_operation = partial(operation, admin=True, surfaces=("library", "cli"), opens_nothing=True)
"""Declare an operation on local settings: it opens no store and is not available remotely."""


class HookView(Struct, frozen=True, kw_only=True):
    name: str
    event: Event
    command: list[str] | UnsetType = UNSET
    python: str | UnsetType = UNSET
    match: list[str]
    timeout: float
    on_error: Literal["allow", "deny"] | UnsetType = UNSET
    operations: list[str]
    """Operations that the hook runs for."""


class HookList(Struct, frozen=True, kw_only=True):
    hooks: list[HookView]
    count: int


def hook_view(rule: "Rule") -> HookView:
    stage = rule.event.partition("_")[2]
    return HookView(
        name=rule.label,
        event=rule.event,
        command=list(rule.command) or UNSET,
        python=rule.python or UNSET,
        match=list(rule.match),
        timeout=rule.timeout,
        on_error=rule.on_error or UNSET,
        operations=[op.name for op in REGISTRY if stage in op.all_stages],
    )


@local_operation(
    Effect.READ,
    "GET /api/v1/hooks",
    cli=("agents", "hooks", "list"),
    aliases=("hooks list",),
    human="holdfast.features.hooks.render:render_hooks",
    examples=(Example({}),),
)
def hooks_list(ctx: Context, request: EmptyRequest) -> HookList:
    """List the lifecycle hooks of this machine in call order."""
    hooks = hooks_of(ctx)
    rules = hooks.rules if hooks is not None else ()
    return HookList(hooks=[hook_view(rule) for rule in rules], count=len(rules))


class HooksTest(Request, frozen=True):
    event: Annotated[Event, Meta(description="Event to test.", extra={"argument": True})]
    arguments: Annotated[dict[str, Any], Meta(description="Arguments of the operation, as JSON.")] = {}
    namespace: Namespace | None = None


class HookAnswer(Struct, frozen=True, kw_only=True):
    name: str
    decision: Decision
    reason: str | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    """The failure, if on_error decided."""
    milliseconds: int


class HooksTestResult(Struct, frozen=True, kw_only=True):
    event: Event
    decision: Decision
    """The strictest decision, which would apply to the operation."""
    hooks: list[HookAnswer]
    passed_over: list[str]
    """Hooks of the event that match other namespaces only."""
    arguments: dict[str, Any]
    """The arguments after all hooks."""


def hook_answer(ran: "HookRun") -> HookAnswer:
    return HookAnswer(
        name=ran.rule.label,
        decision=ran.decision,
        reason=ran.reason or UNSET,
        arguments=UNSET if ran.arguments is None else ran.arguments,
        error=ran.error or UNSET,
        milliseconds=ran.milliseconds,
    )


@local_operation(
    Effect.READ,
    "POST /api/v1/hooks/test",
    cli=("agents", "hooks", "test"),
    aliases=("hooks test",),
    human="holdfast.features.hooks.render:render_hook_test",
    examples=(
        Example({"event": "pre_store", "arguments": {"title": "Plan", "content": "x"}}),
        Example({"event": "pre_stroe"}, error="VALIDATION_FAILED"),
    ),
)
def hooks_test(ctx: Context, request: HooksTest) -> HooksTestResult:
    """Run the hooks of an event and show their answers, without the operation."""
    hooks = hooks_of(ctx)
    rules = hooks.rules if hooks is not None else ()
    ran, changed, others = try_hooks(ctx, rules, request.event, request.arguments, request.namespace)
    return HooksTestResult(
        event=request.event,
        decision=strictest([one.decision for one in ran]),
        hooks=[hook_answer(one) for one in ran],
        passed_over=[rule.label for rule in others],
        arguments=changed,
    )

"""List and test lifecycle hooks. They are configured only in the settings file."""

from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.hooks.intercept import hooks_of
from holdfast.features.hooks.model import Decision, Event, HookRun, Rule, strictest
from holdfast.features.hooks.service import try_hooks
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Namespace
from holdfast.kernel.registry.operation import REGISTRY, Effect, EmptyRequest, Example, Request, operation

local_operation = partial(operation, admin=True, surfaces=("library", "cli"), opens_nothing=True)
"""Declare an operation on local settings: it opens no store and is not available remotely."""


class LifecycleHook(Rule, frozen=True, kw_only=True):
    operations: list[str]
    """Operations that the hook runs for."""


class HookList(Struct, frozen=True, kw_only=True):
    hooks: list[LifecycleHook]
    count: int


@local_operation(
    Effect.READ,
    "GET /api/v1/hooks",
    cli=("agents", "hooks", "list"),
    aliases=("hooks list",),
    columns=("event", "name", "match", "timeout", "on_error"),
    examples=(Example({}),),
)
def hooks_list(ctx: Context, request: EmptyRequest) -> HookList:
    """List the lifecycle hooks of this machine in call order."""
    hooks = hooks_of(ctx)
    rules = hooks.rules if hooks is not None else ()
    listed = [LifecycleHook(**asdict(rule), operations=_list_operations(rule.event)) for rule in rules]
    return HookList(hooks=listed, count=len(rules))


def _list_operations(event: Event) -> list[str]:
    stage = event.partition("_")[2]
    return [op.name for op in REGISTRY if stage in op.all_stages]


class HooksTest(Request, frozen=True):
    event: Annotated[Event, Meta(description="Event to test.", extra={"argument": True})]
    arguments: Annotated[dict[str, Any], Meta(description="Arguments of the operation, as JSON.")] = {}
    namespace: Namespace | None = None


class HooksTestResult(Struct, frozen=True, kw_only=True):
    event: Event
    decision: Decision
    """The strictest decision, which would apply to the operation."""
    hooks: list[HookRun]
    passed_over: list[str]
    """Hooks of the event that match other namespaces only."""
    arguments: dict[str, Any]
    """The arguments after all hooks."""


@local_operation(
    Effect.READ,
    "POST /api/v1/hooks/test",
    cli=("agents", "hooks", "test"),
    aliases=("hooks test",),
    columns=("decision",),
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
        hooks=ran,
        passed_over=[rule.label for rule in others],
        arguments=changed,
    )

"""Run lifecycle hooks before and after operations."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from holdfast.features.hooks.model import Rule, validate_rules
from holdfast.features.hooks.service import IN_HOOK_VARIABLE, HookContext, HookRunner, require_agreement
from holdfast.features.memories import store as memories
from holdfast.kernel.context import Caller, Context, Progress
from holdfast.kernel.errors import HoldfastError, HookDenied, Invalid
from holdfast.kernel.records.validate import normalize_name
from holdfast.kernel.registry.encoding import to_wire
from holdfast.kernel.registry.operation import Operation, Request

ID_FIELDS = ("id", "memory_id", "lesson_id", "source_id", "target_id", "ids", "source_ids")
"""Fields with memory ids."""
POSITION_FIELD = "as_agent"
"""Field of the caller's namespace position; recall reaches beyond it, so it does not limit hooks."""
WIDE_OPERATIONS = ("build_context", "import_kernex")
"""Operations that also touch namespaces above or below the given one, and people."""
FULL_ID_LENGTH = 36


class HookInterceptor:
    """Runs lifecycle hooks before and after operations."""

    waits = True

    def __init__(self, hooks: HookRunner) -> None:
        self.hooks = hooks

    def applies(self, operation: object) -> bool:
        assert isinstance(operation, Operation)
        return any(map(self.hooks.has_hooks_for, operation.all_stages))

    def call(
        self,
        operation: object,
        ctx: Context,
        caller: Caller,
        arguments: Mapping[str, Any],
        progress: Progress,
        proceed: Callable[[], Any],
    ) -> Any:
        assert isinstance(operation, Operation)
        return call_with_hooks(self.hooks, operation, ctx, caller, arguments, progress)

    def close(self) -> None:
        self.hooks.close()


def create_interceptor(rules: Sequence[Rule]) -> HookInterceptor | None:
    """Create the interceptor of this process; None if there are no rules, or inside a hook."""
    admitted = validate_rules(rules)
    return HookInterceptor(HookRunner(admitted)) if admitted and IN_HOOK_VARIABLE not in os.environ else None


def hooks_of(ctx: Context) -> HookRunner | None:
    """Return the lifecycle hooks of an open store, or None if the settings have none."""
    return next((one.hooks for one in ctx.interceptors if isinstance(one, HookInterceptor)), None)


def call_with_hooks(
    hooks: HookRunner, op: Operation, ctx: Context, caller: Caller, arguments: Mapping[str, Any], progress: Progress
) -> Any:
    """Run an operation with the arguments that its hooks return; post_ hooks run after its commit."""
    op.require_right(caller)
    acting, request = op.authorize(caller, arguments)
    original: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(arguments))
    occasions = _build_contexts(op, ctx.for_caller(acting), request, original)
    outcomes = [hooks.run_before(occasion) for occasion in occasions]
    require_agreement([one for _, ran in outcomes for one in ran], confirmed=ctx.is_confirmed)
    progress.check()
    for changed, _ in outcomes:
        if changed != original:
            acting, request = _revalidate(op, caller, original, changed)
    try:
        answer = op.perform(ctx.for_caller(acting, progress), request)
    except Invalid as error:
        raise _blame_hook(error, original, [changed for changed, _ in outcomes]) from None
    for occasion, (changed, _) in zip(occasions, outcomes, strict=True):
        hooks.queue_after(occasion._replace(arguments=changed, answer=msgspec.to_builtins(to_wire(answer))))
    return answer


def _build_contexts(op: Operation, ctx: Context, request: Request, original: dict[str, Any]) -> list[HookContext]:
    """Return what to call hooks about: the stage of the operation, or the stages that this request belongs to."""
    touches = partial(touched_namespaces, op, ctx)
    if op.parts is None:
        (stage,) = op.all_stages
        return [HookContext(stage, op.name, original, touches(original), ctx.caller, touches, ctx.is_confirmed)]
    return [
        HookContext(stage, op.name, original, part.namespaces, ctx.caller, touches, ctx.is_confirmed, part.memories)
        for stage, part in op.parts(ctx, request).items()
    ]


def _revalidate(
    op: Operation, caller: Caller, original: Mapping[str, Any], changed: Mapping[str, Any]
) -> tuple[Caller, Request]:
    """Validate the request as changed by hooks; reject a change of the acting agent."""
    if op.parts is not None:
        raise HookDenied(f"A hook changed the arguments of {op.name}. Hooks can only allow or refuse this operation.")
    if any(original.get(name) != changed.get(name) for name in op.fields_with_role("actor")):
        raise HookDenied("A hook changed the acting agent, which is not allowed.")
    try:
        return op.authorize(caller, changed)
    except HoldfastError as error:
        raise _invalid_change_error(error) from None


def _blame_hook(error: Invalid, original: Mapping[str, Any], changes: list[dict[str, Any]]) -> HoldfastError:
    """Return the error as the hook's if it concerns a field that a hook changed, else unchanged."""
    fields = error.details.get("fields", ())
    changed = any(one.get(name) != original.get(name) for one in changes for name in fields)
    return _invalid_change_error(error) if changed else error


def _invalid_change_error(error: HoldfastError) -> HookDenied:
    return HookDenied(f"A hook made the request invalid: {error.message}", **error.details)


def touched_namespaces(op: Operation, ctx: Context, arguments: Mapping[str, Any]) -> list[str]:
    """Return the namespaces that an operation touches, as far as its caller can know; empty if it may be any."""
    ids = [one for name in ID_FIELDS for one in _as_texts(arguments.get(name))]
    places = _memory_namespaces(ctx, ids) if ids else []
    if op.name in WIDE_OPERATIONS or places is None:
        return []
    return list(dict.fromkeys([*map(normalize_name, _named_namespaces(op, ctx, arguments)), *places]))


def _memory_namespaces(ctx: Context, ids: list[str]) -> list[str] | None:
    """Return the namespaces of memories by id; None if the caller does not see one of them."""
    with ctx.reading() as session:
        whole = [id for id in ids if len(id) == FULL_ID_LENGTH]
        found = memories.by_ids(session, ctx.caller, whole, ctx.now(), view="any")
        for id in ids:
            if len(id) != FULL_ID_LENGTH:
                with suppress(HoldfastError):
                    found[id] = memories.resolve(session, ctx.caller, id, ctx.now(), view="any")
    return [found[id].namespace for id in ids] if all(id in found for id in ids) else None


def _named_namespaces(op: Operation, ctx: Context, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the given namespaces, and the default one for stores without a namespace."""
    for name in op.fields_with_role("namespace"):
        if name != POSITION_FIELD:
            yield from _as_texts(arguments.get(name))
    if op.bulk is not None:
        for item in arguments.get(op.bulk) or ():
            if isinstance(item, dict):
                yield str(item.get("namespace") or ctx.namespace)
    elif op.name in ("store", "capture_turn", "ingest") and arguments.get("namespace") is None:
        yield ctx.namespace


def _as_texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [one for one in value or () if isinstance(one, str)]

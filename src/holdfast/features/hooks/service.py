"""Run lifecycle hooks: before an operation they can change or refuse it; after it they only observe."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import entry_points
from time import monotonic
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from holdfast.features.hooks.model import MAX_REASON, VERSION, Event, HookReply, HookRun, Rule, strictest
from holdfast.features.tasks import subprocess_runner
from holdfast.features.tasks.worker import SECRET_VARIABLES
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.errors import HookConfirmationRequired, HookDenied
from holdfast.kernel.net.deadline import run_within
from holdfast.kernel.registry.stages import Stage

IN_HOOK_VARIABLE = "HOLDFAST_IN_HOOK"
"""Environment variable set for hooks; Holdfast calls from inside a hook run no hooks."""
ENTRY_POINT_GROUP = "holdfast.hooks"
MAX_ANSWER_BYTES = 1024 * 1024
MAX_QUEUED = 1000
"""Queued calls of post_ hooks; further ones are dropped and logged."""
_in_hook: ContextVar[bool] = ContextVar("inside a hook", default=False)
log = logging.getLogger("holdfast")


class HookContext(NamedTuple):
    """An operation that hooks are called for."""

    stage: Stage
    operation: str
    arguments: Mapping[str, Any]
    namespaces: Sequence[str]
    """Namespaces that it touches; empty if unknown."""
    caller: Caller
    touches: Callable[[Mapping[str, Any]], Sequence[str]]
    """Returns the namespaces that it touches with other arguments."""
    confirmed: bool = False
    """Whether a person at this machine confirmed it."""
    makes: Sequence[Mapping[str, Any]] = ()
    """Resulting memory contents, where the arguments do not contain them."""
    answer: Any = None


class HookRunner:
    """Runs the hooks of one process in the order of the settings."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._queue: queue.Queue[tuple[Rule, bytes] | None] = queue.Queue(MAX_QUEUED)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def has_hooks_for(self, stage: Stage | None) -> bool:
        """Return whether any hook applies to a stage; always False inside a hook."""
        return stage is not None and not _in_hook.get() and any(rule.event.endswith(f"_{stage}") for rule in self.rules)

    def run_before(self, occasion: HookContext) -> tuple[dict[str, Any], list[HookRun]]:
        """Run the pre_ hooks; return the resulting arguments and outcomes. The caller applies the strictest decision.

        Hooks that ran before another one changed the arguments run again and can then only allow or refuse.
        """
        rules = [rule for rule in self.rules if rule.event == f"pre_{occasion.stage}"]
        ran: list[HookRun] = []
        stale: list[Rule] = []
        for number, rule in enumerate(rules):
            if not rule.matches(occasion.namespaces):
                continue
            outcome = self.run_hook(rule, occasion)
            ran.append(outcome)
            if outcome.decision == "deny":
                return dict(occasion.arguments), ran
            changed = {**occasion.arguments, **(outcome.arguments or {})}
            if outcome.decision == "modify" and changed != occasion.arguments:
                stale = rules[:number]
                occasion = occasion._replace(arguments=changed, namespaces=occasion.touches(changed))
        ran += [self._ask_again(rule, occasion) for rule in stale if rule.matches(occasion.namespaces)]
        return dict(occasion.arguments), ran

    def _ask_again(self, rule: Rule, occasion: HookContext) -> HookRun:
        outcome = self.run_hook(rule, occasion)
        if outcome.decision == "modify" and {**occasion.arguments, **(outcome.arguments or {})} != occasion.arguments:
            return replace(outcome, decision="deny", reason="The hook changes again what another hook changed.")
        return outcome

    def run_hook(self, rule: Rule, occasion: HookContext) -> HookRun:
        started = monotonic()
        try:
            words = _run_rule(rule, _encode_call(rule, occasion))
            reply = _decode_reply(words) if rule.is_before else HookReply()
            ran = HookRun(
                rule=rule, decision=reply.decision, reason=reply.reason[:MAX_REASON], arguments=reply.arguments
            )
        except _HookFailed as failed:
            decision = rule.on_error or "allow"
            ran = HookRun(rule=rule, decision=decision, reason="The hook failed.", error=str(failed))
            log.warning("The hook %s (%s) failed: %s", rule.label, rule.event, failed)
        return replace(ran, milliseconds=int((monotonic() - started) * 1000))

    def queue_after(self, occasion: HookContext) -> None:
        """Queue the post_ hooks; they run on a thread of their own and the caller does not wait."""
        for rule in self.rules:
            if rule.event == f"post_{occasion.stage}" and rule.matches(occasion.namespaces):
                try:
                    self._queue.put_nowait((rule, _encode_call(rule, occasion)))
                except queue.Full:
                    log.error("The hook %s (%s) was skipped: the queue is full.", rule.label, rule.event)
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._queue.empty():
                self._thread = threading.Thread(target=self._run_queue, name="holdfast-hooks", daemon=True)
                self._thread.start()

    def _run_queue(self) -> None:
        while (one := self._queue.get()) is not None:
            rule, words = one
            try:
                _run_rule(rule, words)
            except _HookFailed as failed:
                log.warning("The hook %s (%s) failed: %s", rule.label, rule.event, failed)
            except Exception as error:  # noqa: BLE001 - the next hook still runs
                log.warning("The hook %s (%s) failed with %s.", rule.label, rule.event, type(error).__name__)

    def close(self) -> None:
        """Wait until all queued hooks have run, each at most for its timeout."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        longest = max(rule.timeout for rule in self.rules) + subprocess_runner.GRACE_SECONDS
        until = (self._queue.qsize() + 1) * longest
        try:
            self._queue.put(None, timeout=until)
        except queue.Full:
            return
        thread.join(until)


def try_hooks(
    ctx: Context, rules_of_store: Sequence[Rule], event: Event, arguments: Mapping[str, Any], namespace: str | None
) -> tuple[list[HookRun], dict[str, Any], list[Rule]]:
    """Run the hooks of an event without the operation; return outcomes, arguments and hooks that do not match."""
    rules = [rule for rule in rules_of_store if rule.event == event]
    when, _, stage = event.partition("_")
    places = [namespace] if namespace else [ctx.namespace] if stage == "store" else []
    occasion = HookContext(cast(Stage, stage), stage, arguments, places, ctx.caller, lambda _: places)
    others = [rule for rule in rules if not rule.matches(places)]
    hooks = HookRunner(rules)
    if when == "pre":
        changed, ran = hooks.run_before(occasion)
        return ran, changed, others
    return [hooks.run_hook(rule, occasion) for rule in rules if rule not in others], dict(arguments), others


def require_agreement(ran: Sequence[HookRun], *, confirmed: bool) -> None:
    """Raise if the strictest hook refuses, or requires a confirmation that is missing."""
    decision = strictest([one.decision for one in ran])
    if decision not in ("ask", "deny") or (decision == "ask" and confirmed):
        return
    one = next(one for one in ran if one.decision == decision)
    if decision == "deny":
        why = f": {one.reason}" if one.reason else ""
        raise HookDenied(f"The hook {one.rule.label!r} refuses this{why}", hook=one.rule.label)
    question = one.reason or "Proceed?"
    raise HookConfirmationRequired(
        f"The hook {one.rule.label!r} requires confirmation: {question}", hook=one.rule.label
    )


class _HookFailed(Exception):
    """A hook failed or gave an invalid answer."""


def _encode_call(rule: Rule, occasion: HookContext) -> bytes:
    """Encode the JSON object that a hook receives on standard input or as its argument."""
    caller = occasion.caller
    payload: dict[str, Any] = {
        "version": VERSION,
        "event": rule.event,
        "operation": occasion.operation,
        "arguments": occasion.arguments,
        "namespaces": list(occasion.namespaces),
        "caller": {"agent_id": caller.agent, "right": caller.right, "source": caller.source},
        "confirmed": occasion.confirmed,
    }
    if occasion.makes:
        payload["makes"] = occasion.makes
    if not rule.is_before:
        payload["answer"] = occasion.answer
    return msgspec.json.encode(payload)


def _decode_reply(words: bytes) -> HookReply:
    """Decode the answer of a hook; no output means allow."""
    if not words.strip():
        return HookReply()
    try:
        return msgspec.json.decode(words, type=HookReply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _HookFailed(f"invalid answer: {error}") from None


def _run_rule(rule: Rule, words: bytes) -> bytes:
    return _run_program(rule, words) if rule.command else _run_function(rule, words)


def _run_program(rule: Rule, words: bytes) -> bytes:
    inherited = {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}
    environment = {**inherited, IN_HOOK_VARIABLE: rule.event}
    try:
        ended = subprocess_runner.run_program(
            rule.command,
            stdin=words,
            environment=environment,
            timeout=rule.timeout,
            grace=0.2,
            max_bytes=MAX_ANSWER_BYTES,
        )
    except OSError as error:
        raise _HookFailed(f"cannot start: {error.strerror or error}") from None
    if ended.stop_reason is not None:
        raise _HookFailed(ended.stop_reason)
    if ended.code != 0:
        raise _HookFailed(f"exit code {ended.code}: {ended.errors.strip()[:MAX_REASON]}")
    return ended.output.encode()


def _run_function(rule: Rule, words: bytes) -> bytes:
    """Call an entry point in this process; one that times out is left running and ignored."""
    call = _load_entry_point(rule.python)

    def work() -> bytes:
        token = _in_hook.set(True)
        try:
            answer = call(msgspec.json.decode(words))
        finally:
            _in_hook.reset(token)
        return b"" if answer is None else msgspec.json.encode(answer)

    try:
        return run_within(rule.timeout, work)
    except TimeoutError:
        raise _HookFailed(f"timed out after {rule.timeout:g} seconds") from None
    except Exception as error:  # noqa: BLE001 - a hook may raise anything
        raise _HookFailed(f"raised {type(error).__name__}: {error}") from None


def _load_entry_point(name: str) -> Callable[[dict[str, Any]], Any]:
    found = entry_points(group=ENTRY_POINT_GROUP, name=name)
    if not found:
        raise _HookFailed(f"no installed package declares the entry point {name!r} in the group {ENTRY_POINT_GROUP}")
    (point, *_) = found
    try:
        loaded: Callable[[dict[str, Any]], Any] = point.load()
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise _HookFailed(f"cannot load: {type(error).__name__}: {error}") from None
    return loaded

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

from holdfast.features.hooks.model import LONGEST_REASON, VERSION, Event, Ran, Rule, Said, admit_rules, strictest
from holdfast.features.tasks import subprocess_runner as child
from holdfast.features.tasks.worker import SECRETS
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HookAsks, HookDenied
from holdfast.kernel.net.deadline import within
from holdfast.kernel.registry.stages import Stage

MARK = "HOLDFAST_IN_HOOK"
"""Environment variable set for hooks; Holdfast calls from inside a hook run no hooks."""
GROUP = "holdfast.hooks"
MOST_ANSWER = 1024 * 1024
MOST_WAITING = 1000
"""Queued calls of post_ hooks; further ones are dropped and logged."""
_inside: ContextVar[bool] = ContextVar("inside a hook", default=False)
log = logging.getLogger("holdfast")


class Occasion(NamedTuple):
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


class Hooks:
    """Runs the hooks of one process in the order of the settings."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._waiting: queue.Queue[tuple[Rule, bytes] | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def are_for(self, stage: Stage | None) -> bool:
        """Return whether any hook applies to a stage; always False inside a hook."""
        return stage is not None and not _inside.get() and any(rule.event.endswith(f"_{stage}") for rule in self.rules)

    def before(self, occasion: Occasion) -> tuple[dict[str, Any], list[Ran]]:
        """Run the pre_ hooks; return the resulting arguments and outcomes. The caller applies the strictest decision.

        Hooks that ran before another one changed the arguments run again and can then only allow or refuse.
        """
        rules = [rule for rule in self.rules if rule.event == f"pre_{occasion.stage}"]
        ran: list[Ran] = []
        stale: list[Rule] = []
        for number, rule in enumerate(rules):
            if not rule.concerns(occasion.namespaces):
                continue
            said = self.asked(rule, occasion)
            ran.append(said)
            if said.decision == "deny":
                return dict(occasion.arguments), ran
            changed = {**occasion.arguments, **(said.arguments or {})}
            if said.decision == "modify" and changed != occasion.arguments:
                stale = rules[:number]
                occasion = occasion._replace(arguments=changed, namespaces=occasion.touches(changed))
        ran += [self._again(rule, occasion) for rule in stale if rule.concerns(occasion.namespaces)]
        return dict(occasion.arguments), ran

    def _again(self, rule: Rule, occasion: Occasion) -> Ran:
        said = self.asked(rule, occasion)
        if said.decision == "modify" and {**occasion.arguments, **(said.arguments or {})} != occasion.arguments:
            return said._replace(decision="deny", reason="The hook changes again what another hook changed.")
        return said

    def asked(self, rule: Rule, occasion: Occasion) -> Ran:
        begun = monotonic()
        try:
            words = _run(rule, _told(rule, occasion))
            said = _understood(words) if rule.before else Said()
            ran = Ran(rule, said.decision, said.reason[:LONGEST_REASON], said.arguments)
        except _Failed as failed:
            ran = Ran(rule, rule.on_error or "allow", "The hook failed.", error=str(failed))
            log.warning("The hook %s (%s) failed: %s", rule.called, rule.event, failed)
        return ran._replace(milliseconds=int((monotonic() - begun) * 1000))

    def after(self, occasion: Occasion) -> None:
        """Queue the post_ hooks; they run on a thread of their own and the caller does not wait."""
        for rule in self.rules:
            if rule.event == f"post_{occasion.stage}" and rule.concerns(occasion.namespaces):
                try:
                    self._waiting.put_nowait((rule, _told(rule, occasion)))
                except queue.Full:
                    log.error("The hook %s (%s) was skipped: the queue is full.", rule.called, rule.event)
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._waiting.empty():
                self._thread = threading.Thread(target=self._tell, name="holdfast-hooks", daemon=True)
                self._thread.start()

    def _tell(self) -> None:
        while (one := self._waiting.get()) is not None:
            rule, words = one
            try:
                _run(rule, words)
            except _Failed as failed:
                log.warning("The hook %s (%s) failed: %s", rule.called, rule.event, failed)
            except Exception as error:  # noqa: BLE001 - the next hook still runs
                log.warning("The hook %s (%s) failed with %s.", rule.called, rule.event, type(error).__name__)

    def close(self) -> None:
        """Wait until all queued hooks have run, each at most for its timeout."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        longest = max(rule.timeout for rule in self.rules) + child.GRACE_SECONDS
        until = (self._waiting.qsize() + 1) * longest
        try:
            self._waiting.put(None, timeout=until)
        except queue.Full:
            return
        thread.join(until)


def rehearsed(
    hold: Hold, every: Sequence[Rule], event: Event, arguments: Mapping[str, Any], namespace: str | None
) -> tuple[list[Ran], dict[str, Any], list[Rule]]:
    """Run the hooks of an event without the operation; return outcomes, arguments and hooks that do not match."""
    rules = [rule for rule in every if rule.event == event]
    when, _, stage = event.partition("_")
    places = [namespace] if namespace else [hold.namespace] if stage == "store" else []
    occasion = Occasion(cast(Stage, stage), stage, arguments, places, hold.caller, lambda _: places)
    others = [rule for rule in rules if not rule.concerns(places)]
    hooks = Hooks(rules)
    if when == "pre":
        changed, ran = hooks.before(occasion)
        return ran, changed, others
    return [hooks.asked(rule, occasion) for rule in rules if rule not in others], dict(arguments), others


def must_agree(ran: Sequence[Ran], *, confirmed: bool) -> None:
    """Raise if the strictest hook refuses, or requires a confirmation that is missing."""
    decision = strictest([one.decision for one in ran])
    if decision not in ("ask", "deny") or (decision == "ask" and confirmed):
        return
    one = next(one for one in ran if one.decision == decision)
    if decision == "deny":
        why = f": {one.reason}" if one.reason else ""
        raise HookDenied(f"The hook {one.rule.called!r} refuses this{why}", hook=one.rule.called)
    question = one.reason or "Proceed?"
    raise HookAsks(f"The hook {one.rule.called!r} requires confirmation: {question}", hook=one.rule.called)


class _Failed(Exception):
    """A hook failed or gave an invalid answer."""


def _told(rule: Rule, occasion: Occasion) -> bytes:
    """Encode the JSON object that a hook receives on standard input or as its argument."""
    caller = occasion.caller
    said: dict[str, Any] = {
        "version": VERSION,
        "event": rule.event,
        "operation": occasion.operation,
        "arguments": occasion.arguments,
        "namespaces": list(occasion.namespaces),
        "caller": {"agent_id": caller.agent, "right": caller.right, "source": caller.source},
        "confirmed": occasion.confirmed,
    }
    if occasion.makes:
        said["makes"] = occasion.makes
    if not rule.before:
        said["answer"] = occasion.answer
    return msgspec.json.encode(said)


def _understood(words: bytes) -> Said:
    """Decode the answer of a hook; no output means allow."""
    if not words.strip():
        return Said()
    try:
        return msgspec.json.decode(words, type=Said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Failed(f"invalid answer: {error}") from None


def _run(rule: Rule, words: bytes) -> bytes:
    return _program(rule, words) if rule.command else _function(rule, words)


def _program(rule: Rule, words: bytes) -> bytes:
    kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
    environment = {**kept, MARK: rule.event}
    try:
        ended = child.run(
            rule.command, words=words, environment=environment, timeout=rule.timeout, grace=0.2, most=MOST_ANSWER
        )
    except OSError as error:
        raise _Failed(f"cannot start: {error.strerror or error}") from None
    if ended.stopped is not None:
        raise _Failed(ended.stopped)
    if ended.code != 0:
        raise _Failed(f"exit code {ended.code}: {ended.errors.strip()[:LONGEST_REASON]}")
    return ended.output.encode()


def _function(rule: Rule, words: bytes) -> bytes:
    """Call an entry point in this process; one that times out is left running and ignored."""
    call = _loaded(rule.python)

    def work() -> bytes:
        token = _inside.set(True)
        try:
            answer = call(msgspec.json.decode(words))
        finally:
            _inside.reset(token)
        return b"" if answer is None else msgspec.json.encode(answer)

    try:
        return within(rule.timeout, work)
    except TimeoutError:
        raise _Failed(f"timed out after {rule.timeout:g} seconds") from None
    except Exception as error:  # noqa: BLE001 - a hook may raise anything
        raise _Failed(f"raised {type(error).__name__}: {error}") from None


def _loaded(name: str) -> Callable[[dict[str, Any]], Any]:
    found = entry_points(group=GROUP, name=name)
    if not found:
        raise _Failed(f"no installed package declares the entry point {name!r} in the group {GROUP}")
    (point, *_) = found
    try:
        loaded: Callable[[dict[str, Any]], Any] = point.load()
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise _Failed(f"cannot load: {type(error).__name__}: {error}") from None
    return loaded


def of(rules: Sequence[Rule]) -> Hooks | None:
    """Create the hooks of this process; None if there are no rules, or inside a hook."""
    admitted = admit_rules(rules)
    return Hooks(admitted) if admitted and MARK not in os.environ else None

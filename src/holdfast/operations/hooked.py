"""Operations that hooks are asked about first, and told of afterwards."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ..domain.caller import Caller
from ..domain.errors import HoldfastError, HookDenied
from ..services.hold import Hold, Progress
from ..services.hooks import Hooks, Occasion, must_agree
from ..storage import memories

if TYPE_CHECKING:
    from .registry import Operation, Request

IDS = ("id", "memory_id", "source_id", "target_id", "ids", "source_ids")
"""Fields that name memories."""
WHOLE_ID = 36


def called(op: "Operation", hold: Hold, caller: Caller, arguments: Mapping[str, Any], progress: Progress) -> Any:
    """Do an operation as its hooks leave it. They run before its transaction, and hear of it after."""
    hooks = hold.hooks
    assert isinstance(hooks, Hooks)
    if op.parts is not None:
        return _parted(op, hooks, hold, caller, arguments, progress)
    (stage,) = op.all_stages
    acting, request = op.admitted(caller, arguments)
    given: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(arguments))
    touches = partial(namespaces_of, op, hold.seen_by(acting))
    occasion = Occasion(stage, op.name, given, touches(given), acting, touches, hold.confirmed)
    changed, ran = hooks.before(occasion)
    must_agree(ran, confirmed=hold.confirmed)
    progress.check()
    if changed != given:
        acting, request = _changed(op, caller, given, changed)
    answer = op.perform(hold.seen_by(acting, progress), request)
    hooks.after(occasion._replace(arguments=changed, answer=msgspec.to_builtins(answer)))
    return answer


def _parted(
    op: "Operation", hooks: Hooks, hold: Hold, caller: Caller, arguments: Mapping[str, Any], progress: Progress
) -> Any:
    """Do an operation that is a part of several stages: the hooks of all are asked, and may only agree or refuse."""
    assert op.parts is not None
    acting, request = op.admitted(caller, arguments)
    given: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(arguments))
    occasions = [
        Occasion(stage, op.name, given, places, acting, partial(_whatever, places), hold.confirmed)
        for stage, places in op.parts(hold.seen_by(acting), request).items()
    ]
    asked = [hooks.before(occasion) for occasion in occasions]
    must_agree([one for _, ran in asked for one in ran], confirmed=hold.confirmed)
    if any(changed != given for changed, _ in asked):
        raise HookDenied(f"A hook changed what is asked of {op.name}, which it may not.")
    progress.check()
    answer = op.perform(hold.seen_by(acting, progress), request)
    for occasion in occasions:
        hooks.after(occasion._replace(answer=msgspec.to_builtins(answer)))
    return answer


def _whatever(places: Sequence[str], arguments: Mapping[str, Any]) -> Sequence[str]:
    return places


def _changed(
    op: "Operation", caller: Caller, given: Mapping[str, Any], changed: Mapping[str, Any]
) -> tuple[Caller, "Request"]:
    """What hooks made of a request, held to the same rules; as whom it is made is not for them to say."""
    if any(given.get(name) != changed.get(name) for name in op.having("actor")):
        raise HookDenied("A hook changed who acts, which it may not.")
    try:
        return op.admitted(caller, changed)
    except HoldfastError as error:
        raise HookDenied(f"What a hook made of this cannot be done: {error.message}", **error.details) from None


def namespaces_of(op: "Operation", seen: Hold, arguments: Mapping[str, Any]) -> list[str]:
    """The namespaces that an operation touches, as far as its caller can know; none: it may be any."""
    found = dict.fromkeys(_named(op, seen, arguments))
    ids = [one for name in IDS for one in _texts(arguments.get(name))]
    if ids:
        with seen.reading() as session:
            whole = [id for id in ids if len(id) == WHOLE_ID]
            known = memories.by_ids(session, seen.caller, whole, seen.now(), view="any")
            found |= dict.fromkeys(memory.namespace for memory in known.values())
            for id in ids:
                with suppress(HoldfastError):
                    if len(id) != WHOLE_ID:
                        memory = memories.resolve(session, seen.caller, id, seen.now(), view="any")
                        found[memory.namespace] = None
    return list(found)


def _named(op: "Operation", seen: Hold, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Those that are named; what is kept and names none goes where it goes by default."""
    for name in op.having("namespace"):
        yield from _texts(arguments.get(name))
    if op.bulk is not None:
        for item in arguments.get(op.bulk) or ():
            if isinstance(item, dict):
                yield str(item.get("namespace") or seen.namespace)
    elif op.name in ("store", "capture_turn", "ingest") and arguments.get("namespace") is None:
        yield seen.namespace


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [one for one in value or () if isinstance(one, str)]

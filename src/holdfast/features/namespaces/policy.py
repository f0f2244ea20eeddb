"""Deciding what a namespace allows."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.namespaces.model import POLICY, RULES, Policy, admit_rules
from holdfast.features.namespaces.policy_store import EVERYWHERE
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden, Invalid
from holdfast.kernel.records import validate as door


def set_policy(hold: Hold, namespace: str, rules: dict[str, Any], inherit: tuple[str, ...] = ()) -> Policy:
    """Decide some rules of a namespace; those in `inherit` hold as above it again, the others stay."""
    place, given = place_of(namespace), admit_rules(rules)
    must_govern(hold, place)
    if unknown := [name for name in inherit if name not in RULES or name in given]:
        raise Invalid(f"inherit: {unknown[0]!r} is no rule, or is decided in the same request", fields=["inherit"])
    if not given and not inherit:
        raise Invalid(f"Name a rule: {', '.join(RULES)}.", fields=list(RULES))
    with hold.writing() as write:
        known = write.get(POLICY, place)
        if known is None:
            fresh = Policy(place, given, hold.caller.agent, write.now, write.now, write.origin, 1)
            return write.add(POLICY, fresh, "policy")
        had = known.rules if known.state == "live" else {}
        wanted = {name: value for name, value in {**had, **given}.items() if name not in inherit}
        return write.change(POLICY, known, replace(known, rules=wanted, state="live"), "policy")


def clear_policy(hold: Hold, namespace: str) -> bool:
    """Let everything in a namespace hold as above it; whether it had decided anything."""
    place = place_of(namespace)
    must_govern(hold, place)
    with hold.writing() as write:
        known = write.get(POLICY, place)
        if known is None or known.state != "live":
            return False
        write.change(POLICY, known, replace(known, state="deleted"), "policy")
        return True


def must_govern(hold: Hold, namespace: str) -> None:
    """A rule that those could lift whom it binds would be none: it takes the right to administer its namespace."""
    if not hold.caller.may("admin"):
        raise Forbidden(f"The policy of {namespace!r} is decided by those who have the admin right.")
    hold.caller.must_reach(namespace)


def place_of(namespace: str) -> str:
    return EVERYWHERE if namespace == EVERYWHERE else door.namespace(namespace)

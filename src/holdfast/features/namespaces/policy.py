"""Set and clear namespace policies."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.namespaces.model import POLICY, RULES, Policy, validate_rules
from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Forbidden, Invalid
from holdfast.kernel.records import validate


def set_policy(ctx: Context, namespace: str, rules: dict[str, Any], inherit: tuple[str, ...] = ()) -> Policy:
    """Set some rules of a namespace; rules in `inherit` are unset; others stay."""
    place, given = normalize_namespace(namespace), validate_rules(rules)
    require_policy_admin(ctx, place)
    if unknown := [name for name in inherit if name not in RULES or name in given]:
        raise Invalid(f"inherit: {unknown[0]!r} is not a rule, or is set in the same request", fields=["inherit"])
    if not given and not inherit:
        raise Invalid(f"Give at least one rule: {', '.join(RULES)}.", fields=list(RULES))
    with ctx.transaction() as write:
        known = write.get(POLICY, place)
        if known is None:
            fresh = Policy(place, given, ctx.caller.agent, write.now, write.now, write.origin, 1)
            return write.add(POLICY, fresh, "policy")
        current = known.rules if known.state == "live" else {}
        wanted = {name: value for name, value in {**current, **given}.items() if name not in inherit}
        return write.change(POLICY, known, replace(known, rules=wanted, state="live"), "policy")


def clear_policy(ctx: Context, namespace: str) -> bool:
    """Remove the policy of a namespace; return whether it had one."""
    place = normalize_namespace(namespace)
    require_policy_admin(ctx, place)
    with ctx.transaction() as write:
        known = write.get(POLICY, place)
        if known is None or known.state != "live":
            return False
        write.change(POLICY, known, replace(known, state="deleted"), "policy")
        return True


def require_policy_admin(ctx: Context, namespace: str) -> None:
    """Raise unless the caller has the admin right and can access the namespace: rules bind everybody else."""
    if not ctx.caller.has_right("admin"):
        raise Forbidden(f"Changing the policy of {namespace!r} requires the admin right: use an admin key.")
    ctx.caller.require_access(namespace)


def normalize_namespace(namespace: str) -> str:
    return EVERYWHERE if namespace == EVERYWHERE else validate.namespace(namespace)

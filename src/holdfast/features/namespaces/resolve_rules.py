"""Read policies and resolve the effective rules of a namespace."""

from typing import Any

from holdfast.features.namespaces.model import POLICY, RULES, Policy, Rules
from holdfast.kernel.context import with_ancestors
from holdfast.kernel.storage.port import Session

EVERYWHERE = "*"


def resolve_rules(session: Session, namespace: str) -> Rules:
    """Resolve the rules of a namespace: its own, then those of its parents, then `*`, then the defaults."""
    return merge_rules([policy.rules for policy in list_policies(session, namespace)])


def list_policies(session: Session, namespace: str) -> list[Policy]:
    """List the policies that apply to a namespace, most general first."""
    places = [EVERYWHERE] if namespace == EVERYWHERE else [EVERYWHERE, *reversed(with_ancestors(namespace))]
    policies = {row[0]: POLICY.load(row) for row in session.rows("policy_some", ids=places)}
    return [policies[place] for place in places if place in policies]


def merge_rules(decided: list[dict[str, Any]]) -> Rules:
    """Merge the rules of several namespaces, most general first; later ones win."""
    return Rules(**{name: value for rules in decided for name, value in rules.items() if name in RULES})

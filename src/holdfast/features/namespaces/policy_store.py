"""Read policies and resolve the effective rules of a namespace."""

from holdfast.features.namespaces.model import POLICY, Policy, Rules, together
from holdfast.kernel.records.taxonomy import lineage
from holdfast.kernel.storage.port import Session

EVERYWHERE = "*"


def resolved(session: Session, namespace: str) -> Rules:
    """Resolve the rules of a namespace: its own, then those of its parents, then `*`, then the defaults."""
    return together([policy.rules for policy in deciding(session, namespace)])


def deciding(session: Session, namespace: str) -> list[Policy]:
    """List the policies that apply to a namespace, most general first."""
    places = [EVERYWHERE] if namespace == EVERYWHERE else [EVERYWHERE, *reversed(lineage(namespace))]
    policies = {row[0]: POLICY.load(row) for row in session.rows("policy_some", ids=places)}
    return [policies[place] for place in places if place in policies]

"""Namespaces of people: facts about a person are stored in `people/NAME`."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

ROOT = "people"
ERASED_NAMESPACE = f"{ROOT}/forgotten"
"""Namespace of the tombstones of erased people's memories."""

PRINCIPAL_KEY = "principal"
"""Metadata key that names the person a memory is about, in any namespace."""

PREFERRED_LANGUAGE = "preferred_language"
"""Fact: the language in which the person wants answers."""
BEHAVIOUR_FACTS = frozenset({PREFERRED_LANGUAGE, "welcomed", "active_project", "personality", "onboarding_stage"})
"""Facts about how to behave, not about the person."""
_PROFILE_ORDER = ("name", "preferred_name", "pronouns", "timezone", "location", "occupation")


def profile_rank(key: str) -> tuple[int, str]:
    """Sort key of a fact in a profile: name and pronouns, then place and occupation, then the rest by key."""
    return (_PROFILE_ORDER.index(key) if key in _PROFILE_ORDER else len(_PROFILE_ORDER), key)


def people_namespace(name: str) -> str:
    """Return the namespace of a person or agent; characters that namespaces do not allow become %XX."""
    return f"{ROOT}/{quote(name, safe=':@+~!$&,;=()')}"


def name_from_namespace(namespace: str) -> str | None:
    """Return the person whose namespace this is, or None."""
    root, _, name = namespace.partition("/")
    return unquote(name) if root == ROOT and name and "/" not in name else None


def find_people(namespace: str, metadata: Mapping[str, Any]) -> set[str]:
    """Return the people a memory is about, by its namespace and its metadata."""
    principal = metadata.get(PRINCIPAL_KEY)
    return {
        name for name in (name_from_namespace(namespace), principal if isinstance(principal, str) else None) if name
    }

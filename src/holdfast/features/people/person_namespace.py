"""What is known of somebody lies in a namespace of their own."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

ROOT = "people"
FORGOTTEN = f"{ROOT}/forgotten"
"""Where what remains of a forgotten person's memories lies: an id each, and that it is deleted."""

BESIDE = "principal"
"""The key of metadata that says of whom a memory is, wherever it lies."""

PREFERRED_LANGUAGE = "preferred_language"
"""The fact that says in which language somebody wants to be answered."""
UNTOLD = frozenset({PREFERRED_LANGUAGE, "welcomed", "active_project", "personality", "onboarding_stage"})
"""Facts about how to behave, not about the person."""
_FIRST = ("name", "preferred_name", "pronouns", "timezone", "location", "occupation")


def rank(key: str) -> tuple[int, str]:
    """Where a fact stands in a profile: who somebody is, then where and what, then the rest by its key."""
    return (_FIRST.index(key) if key in _FIRST else len(_FIRST), key)


def place_of(name: str) -> str:
    """The namespace of a person or agent, by their name; characters that no namespace has are written as %XX."""
    return f"{ROOT}/{quote(name, safe=':@+~!$&,;=()')}"


def name_of(place: str) -> str | None:
    """Whose namespace one is; None: nobody's."""
    root, _, name = place.partition("/")
    return unquote(name) if root == ROOT and name and "/" not in name else None


def named(place: str, metadata: Mapping[str, Any]) -> set[str]:
    """Of whom a memory is: by where it lies, and by what is noted beside it."""
    told = metadata.get(BESIDE)
    return {name for name in (name_of(place), told if isinstance(told, str) else None) if name}

"""Namespace patterns of a peer: what is sent to it, what is accepted from it."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate as admit
from holdfast.kernel.text.wildcard import is_match

EVERYTHING = "**"
EVERYWHERE = "*"
"""All namespaces. Only the pattern ** matches this."""
MOST_PATTERNS = 32


class Scope(NamedTuple):
    """Namespaces sent to a peer and accepted from it."""

    tell: tuple[str, ...]
    take: tuple[str, ...]
    admin: bool = False

    def tells(self, namespace: str) -> bool:
        return _fits(self.tell, namespace)

    def takes(self, namespace: str) -> bool:
        return _fits(self.take, namespace)

    @property
    def tells_all(self) -> bool:
        return EVERYTHING in self.tell

    @property
    def told_as(self) -> str:
        """Hash of the sent namespaces, to detect changes; empty if everything is sent."""
        return "" if self.tells_all else sha256("\n".join(sorted(self.tell)).encode()).hexdigest()[:16]


ALL = Scope((EVERYTHING,), (EVERYTHING,), admin=True)


@lru_cache(maxsize=4096)
def _fits(patterns: tuple[str, ...], namespace: str) -> bool:
    segments = namespace.split("/")
    return EVERYTHING in patterns or any(
        is_match(pattern.split("/"), segments, EVERYTHING, _fits_segment) for pattern in patterns
    )


def _fits_segment(pattern: str, segment: str) -> bool:
    """Match one segment: `*` is any part of it, but never the `*` that means all namespaces."""
    return EVERYWHERE not in segment and is_match(pattern, segment)


def admit_patterns(given: Iterable[str], field: str) -> tuple[str, ...]:
    """Validate and deduplicate patterns: `team/**` is `team` and everything below it, `team/*` its direct children.

    Empty patterns are dropped.
    """
    patterns = tuple(pattern for pattern in dict.fromkeys(given) if pattern)
    if len(patterns) > MOST_PATTERNS:
        raise Invalid(f"{field}: at most {MOST_PATTERNS} patterns", fields=[field])
    for pattern in patterns:
        if any("**" in part and part != "**" for part in pattern.split("/")):
            raise Invalid(f"{field}: ** must be a whole segment, as in team/**", fields=[field])
        admit.namespace(pattern.replace("*", "x"), field)
    return patterns

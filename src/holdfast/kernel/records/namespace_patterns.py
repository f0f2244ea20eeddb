"""Namespace patterns of a peer: what is sent to it, what is accepted from it."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate
from holdfast.kernel.text.wildcard import is_match

EVERYTHING = "**"
EVERYWHERE = "*"
"""All namespaces. Only the pattern ** matches this."""
MAX_PATTERNS = 32


class PeerScope(NamedTuple):
    """Namespaces sent to a peer and accepted from it."""

    tell: tuple[str, ...]
    take: tuple[str, ...]
    admin: bool = False

    def can_send(self, namespace: str) -> bool:
        return _matches(self.tell, namespace)

    def can_receive(self, namespace: str) -> bool:
        return _matches(self.take, namespace)

    @property
    def sends_everything(self) -> bool:
        return EVERYTHING in self.tell

    @property
    def send_digest(self) -> str:
        """Hash of the sent namespaces, to detect changes; empty if everything is sent."""
        return "" if self.sends_everything else sha256("\n".join(sorted(self.tell)).encode()).hexdigest()[:16]


FULL_SCOPE = PeerScope((EVERYTHING,), (EVERYTHING,), admin=True)


@lru_cache(maxsize=4096)
def _matches(patterns: tuple[str, ...], namespace: str) -> bool:
    segments = namespace.split("/")
    return EVERYTHING in patterns or any(
        is_match(pattern.split("/"), segments, EVERYTHING, _matches_segment) for pattern in patterns
    )


def _matches_segment(pattern: str, segment: str) -> bool:
    """Match one segment: `*` is any part of it, but never the `*` that means all namespaces."""
    return EVERYWHERE not in segment and is_match(pattern, segment)


def validate_patterns(given: Iterable[str], field: str) -> tuple[str, ...]:
    """Validate and deduplicate patterns: `team/**` is `team` and everything below it, `team/*` its direct children.

    Empty patterns are dropped.
    """
    patterns = tuple(pattern for pattern in dict.fromkeys(given) if pattern)
    if len(patterns) > MAX_PATTERNS:
        raise Invalid(f"{field}: at most {MAX_PATTERNS} patterns", fields=[field])
    for pattern in patterns:
        if any("**" in part and part != "**" for part in pattern.split("/")):
            raise Invalid(f"{field}: ** must be a whole segment, as in team/**", fields=[field])
        validate.namespace(pattern.replace("*", "x"), field)
    return patterns

"""Of which namespaces a peer hears, of which it may tell, and whether it may govern."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate as admit
from holdfast.kernel.text.wildcard import is_match

EVERYTHING = "**"
EVERYWHERE = "*"
"""In the place of a namespace: all of them. No pattern but ** reaches that."""
MOST_PATTERNS = 32


class Scope(NamedTuple):
    """What goes over to a peer, and what is taken from it."""

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
        """A name of what goes over, by which a change of it is noticed; nothing, if it is all."""
        return "" if self.tells_all else sha256("\n".join(sorted(self.tell)).encode()).hexdigest()[:16]


ALL = Scope((EVERYTHING,), (EVERYTHING,), admin=True)


@lru_cache(maxsize=4096)
def _fits(patterns: tuple[str, ...], namespace: str) -> bool:
    segments = namespace.split("/")
    return EVERYTHING in patterns or any(
        is_match(pattern.split("/"), segments, EVERYTHING, _fits_segment) for pattern in patterns
    )


def _fits_segment(pattern: str, segment: str) -> bool:
    """`*` stands for any part of a segment, but not for the `*` that stands for all namespaces."""
    return EVERYWHERE not in segment and is_match(pattern, segment)


def admit_patterns(given: Iterable[str], field: str) -> tuple[str, ...]:
    """Patterns that can be kept, each once: `team/**` is `team` and all below it, `team/*` what is just below.

    An empty one stands for nothing.
    """
    patterns = tuple(pattern for pattern in dict.fromkeys(given) if pattern)
    if len(patterns) > MOST_PATTERNS:
        raise Invalid(f"{field}: at most {MOST_PATTERNS} patterns", fields=[field])
    for pattern in patterns:
        if any("**" in part and part != "**" for part in pattern.split("/")):
            raise Invalid(f"{field}: ** stands alone between slashes, as in team/**", fields=[field])
        admit.namespace(pattern.replace("*", "x"), field)
    return patterns

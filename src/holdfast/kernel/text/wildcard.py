"""Wildcard matching without regular expressions, which some patterns would make exponentially slow."""

from collections.abc import Callable, Sequence


def is_match(
    pattern: Sequence[str], parts: Sequence[str], wildcard: str = "*", is_equal: Callable[[str, str], bool] = str.__eq__
) -> bool:
    """Whether parts match a pattern, in which a wildcard matches any number of parts, including none.

    Takes at most len(pattern) * len(parts) steps: after a mismatch only the last wildcard is extended, because the
    earlier ones already match as little as possible.
    """
    at = place = after = 0
    resume = -1
    while place < len(parts):
        if at < len(pattern) and pattern[at] == wildcard:
            at += 1
            after, resume = at, place
        elif at < len(pattern) and is_equal(pattern[at], parts[place]):
            at, place = at + 1, place + 1
        elif resume >= 0:
            resume += 1
            at, place = after, resume
        else:
            return False
    return all(one == wildcard for one in pattern[at:])

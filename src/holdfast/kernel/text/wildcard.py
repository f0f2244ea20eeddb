"""Wildcards in names, matched without a regular expression, which some patterns would keep busy for hours."""

from collections.abc import Callable, Sequence


def is_match(
    pattern: Sequence[str], parts: Sequence[str], wildcard: str = "*", is_equal: Callable[[str, str], bool] = str.__eq__
) -> bool:
    """Whether the parts fit a pattern in which a wildcard stands for any number of parts, also none.

    Takes at most as many steps as there are pairs of one element of the pattern and one part: where a part does not
    fit, only the last wildcard takes one more, because the earlier ones already took as little as they can.
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

"""What bears on a question as one block: what it says of the store is true, and its budget is no matter of luck."""

from holdfast.domain import pack, tokens
from holdfast.services.context import DIGITS, new_fence


def test_the_frame_has_the_same_size_whatever_its_marks_are() -> None:
    fences = [new_fence() for _ in range(300)]
    assert {len(fence) for fence in fences} == {DIGITS}
    assert {tokens.count(pack.framed([], fence)) for fence in fences} == {tokens.count(pack.framed([], "0" * DIGITS))}
